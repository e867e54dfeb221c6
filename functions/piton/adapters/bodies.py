"""Running bodies in threads of the worker process."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable
from typing import Final

from piton.domain.errors import Retry
from piton.ports import BodyOutcome, Clock, LeaseLost, Raised, Returned, TimedOut

_RENEWAL_RETRY_MS: Final = 1000
_log = logging.getLogger("piton.work")


class BodyExitedError(Exception):
    """A body tried to end the whole process."""


class ThreadRunner:
    """`ports.BodyRunner`: the body has a thread of its own, the caller renews the lease.

    A thread cannot be stopped from outside: at its timeout the body is left behind. Whatever it
    still does, its fence has passed and it can record nothing.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def run(
        self,
        body: Callable[[], object],
        *,
        timeout_ms: int,
        heartbeat_ms: int,
        renew: Callable[[], bool],
    ) -> BodyOutcome:
        """Run `body`; see the port."""
        done = threading.Event()
        outcome: list[BodyOutcome] = []
        context = contextvars.copy_context()

        def work() -> None:
            outcome.append(context.run(_call, body))
            done.set()

        threading.Thread(target=work, name="piton-body", daemon=True).start()
        start = self._clock.monotonic_ms()
        beat = start + heartbeat_ms
        end = start + timeout_ms
        while True:
            wait_ms = min(beat, end) - self._clock.monotonic_ms()
            if done.wait(max(0, wait_ms) / 1000):
                return outcome[0]
            now = self._clock.monotonic_ms()
            if now >= end:
                return TimedOut()
            if now >= beat:
                try:
                    if not renew():
                        return LeaseLost()
                    beat = now + heartbeat_ms
                except Retry:
                    _log.warning("lease not renewed, trying again", exc_info=True)
                    beat = now + _RENEWAL_RETRY_MS


def _call(body: Callable[[], object]) -> BodyOutcome:
    try:
        return Returned(body())
    except Exception as error:  # noqa: BLE001
        # Named outcome: whatever user code raises is the attempt's failure.
        return Raised(error)
    except BaseException as error:  # noqa: BLE001
        exited = BodyExitedError(type(error).__name__)
        exited.__cause__ = error
        return Raised(exited)
