"""Ending what is still live under an ended execution."""

from __future__ import annotations

from collections.abc import Iterable

from piton.domain.rows import ExecutionRef, LogEntry, NodeRow, Value
from piton.domain.settings import Settings
from piton.domain.stall import stall_reason
from piton.domain.status import LIVE_NODE_STATUSES, NodeStatus, Reason
from piton.ports import Applied, Clock, Counter, Metrics, Store
from piton.storage import keys
from piton.storage import operations as op
from piton.storage.algebra import Operation


class Drain:
    """Cancels queued and waiting nodes at once, running ones when their attempt is dead.

    A running node whose worker lives is left alone: it finishes and its result is recorded.
    """

    def __init__(self, store: Store, clock: Clock, metrics: Metrics, settings: Settings) -> None:
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._settings = settings

    def cancel_live(self, ref: ExecutionRef, rows: Iterable[NodeRow]) -> int:
        """Cancel what may be cancelled now and return how many nodes stay live."""
        live = [row for row in rows if row.status in LIVE_NODE_STATUSES]
        return sum(not self._cancel(ref, row) for row in live)

    def _cancel(self, ref: ExecutionRef, row: NodeRow) -> bool:
        now = self._clock.now_ms()
        args: dict[str, Value] = {
            "fence": row.fence,
            "now": now,
        }
        operation: Operation = op.CANCEL_UNCLAIMED
        if row.status is NodeStatus.RUNNING:
            if stall_reason(row, now, self._settings) is None:
                return False
            operation = op.CANCEL_STALLED
            args["seen_lease"] = row.lease_until
        entry = LogEntry(
            str(operation.transition),
            now,
            fence=row.fence + 1,
            reason=Reason.EXECUTION_ENDED.value,
        )
        args["log"] = entry.to_value()
        applied = isinstance(
            self._store.apply(operation, keys.node(ref, row.ordinal), args), Applied
        )
        if applied:
            self._metrics.count(Counter.NODE_CANCELLED)
        return applied
