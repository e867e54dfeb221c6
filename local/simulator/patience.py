"""How long an execution may stand still once nothing goes wrong any more."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from local.simulator.changes import ExecutionChange, NodeChange
from local.simulator.host import Violation
from piton.domain.graph import Graph
from piton.domain.rows import ExecutionRef
from piton.domain.settings import MINUTE, Settings

SCHEDULE_MS: Final = 2 * MINUTE
"""The watchdog is called every minute, and what is due may just have missed one."""

_SLOW_SWEEPS: Final = 3
"""In a row, where some handlers are so slow that their time runs out."""


def longest_standstill(
    graph: Graph, settings: Settings, skews: Iterable[int], *, uneven: bool
) -> int:
    """Return the longest time between two steps of an execution, in milliseconds.

    An attempt that hangs, an old dispatch that got lost and a lease that nobody renews all have
    their time. It may begin right after a look of the watchdog, whose next one is late in
    addition; of two clocks that are compared one may be behind and the other ahead, both times.
    """
    timeouts = [
        settings.node_timeout_ms if node.timeout_s is None else int(node.timeout_s * 1000)
        for node in graph.nodes
        if not node.is_gate
    ]
    hung = settings.stall_factor * max(timeouts, default=0)
    due = max(hung, settings.resend_after_ms(settings.resends_before_parking), settings.lease_ms)
    clocks = list(skews) or [0]
    looks = 1 + _SLOW_SWEEPS * uneven
    look = settings.sweep_slowest_ms + SCHEDULE_MS + settings.handler_timeout_ms
    return due + looks * look + 2 * (max(clocks) - min(clocks))


@dataclass
class Patience:
    """Times the steps of every execution, in true time, and raises `Violation` when one is late.

    A step is a transition, a dispatch that is sent again, or an edge that is resolved; looking at
    an execution and keeping its leases is none. Nothing counts before `quiet_since()`, the end of
    the latest disturbance. After its end an execution has `drain_ms` more to leave the list.
    """

    longest_ms: int
    drain_ms: int
    now: Callable[[], int]
    quiet_since: Callable[[], int]
    _stepped_at: dict[ExecutionRef, int] = field(default_factory=dict)

    def node(self, change: NodeChange, *, ended: bool) -> None:
        """Take in a change of a node whose execution has `ended`, or has not."""
        old, new = change.old, change.new
        before = (old.status, old.fence, old.sends, old.resolved)
        if before != (new.status, new.fence, new.sends, new.resolved):
            self._step(change.ref, ended=ended)

    def execution(self, change: ExecutionChange) -> None:
        """Take in a change of META."""
        old, new = change.old, change.new
        if old is None:
            self._stepped_at[change.ref] = self.now()
        elif (old.status, old.resumes) != (new.status, new.resumes) or new.due_at is None:
            self._step(change.ref, ended=old.terminal)

    def _step(self, ref: ExecutionRef, *, ended: bool) -> None:
        since = max(self._stepped_at.get(ref, self.now()), self.quiet_since())
        waited, longest = self.now() - since, self.longest_ms + ended * self.drain_ms
        if waited > longest:
            raise Violation(
                f"{ref.execution_id}: stood still for {waited // 1000} s with nothing going "
                f"wrong, {longest // 1000} s are the most"
            )
        self._stepped_at[ref] = self.now()
