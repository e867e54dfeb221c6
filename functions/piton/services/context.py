"""The context that a running task is given."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from piton.domain.errors import Retry
from piton.domain.messages import Dispatch
from piton.ports import Clock
from piton.tasks import Permanent

LEASE_LOST: Final = "LEASE_LOST"
_NOTE_LENGTH: Final = 200
_PROGRESS_INTERVAL_MS: Final = 1000


class RunningContext:
    """Implements `tasks.Context` for one attempt. `deadline` is in epoch milliseconds."""

    def __init__(
        self,
        dispatch: Dispatch,
        deadline: int,
        logger: logging.LoggerAdapter[logging.Logger],
        clock: Clock,
        report: Callable[[int, str], bool],
    ) -> None:
        self.deadline = deadline
        self.logger = logger
        self._dispatch = dispatch
        self._clock = clock
        self._report = report
        self._reported_at: int | None = None

    @property
    def tenant(self) -> str:
        """Tenant of the execution."""
        return self._dispatch.ref.tenant

    @property
    def execution_id(self) -> str:
        """Id of the execution."""
        return self._dispatch.ref.execution_id

    @property
    def node_id(self) -> str:
        """Id of the node."""
        return self._dispatch.node_id

    @property
    def attempt(self) -> int:
        """Number of this attempt, from 1."""
        return self._dispatch.attempt

    @property
    def fence(self) -> int:
        """Fence of this attempt."""
        return self._dispatch.fence

    def remaining_s(self) -> float:
        """Seconds until the deadline, never below zero."""
        return max(0, self.deadline - self._clock.now_ms()) / 1000

    def progress(self, fraction: float, note: str = "") -> None:
        """Record how far the body is; at most one report a second is written.

        A report that the store does not answer is dropped: the body goes on, and the lease is
        renewed on its own. Raises `Permanent` with `LEASE_LOST` once a newer attempt owns the
        node.
        """
        now = self._clock.monotonic_ms()
        if self._reported_at is not None and now - self._reported_at < _PROGRESS_INTERVAL_MS:
            return
        self._reported_at = now
        percent = round(100 * min(1.0, max(0.0, fraction)))
        try:
            held = self._report(percent, note[:_NOTE_LENGTH].replace("\x00", ""))
        except Retry:
            self.logger.warning("progress not recorded", exc_info=True)
            return
        if not held:
            raise Permanent(LEASE_LOST, "a newer attempt owns this node")
