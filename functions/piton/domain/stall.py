"""When an attempt counts as dead, and when somebody has to look at an execution again."""

from __future__ import annotations

from collections.abc import Iterable

from piton.domain.rows import ExecutionRow, NodeRow
from piton.domain.settings import Settings
from piton.domain.status import NodeStatus, Reason


def stall_reason(row: NodeRow, now: int, settings: Settings) -> Reason | None:
    """Return why a running attempt counts as dead, or None while it does not.

    Its lease has run out, or the lease is kept alive around a body that has run for
    `stall_factor` times its timeout.
    """
    if row.lease_until < now:
        return Reason.LEASE_EXPIRED
    timeout_ms = row.policy.timeout_ms if row.policy else settings.node_timeout_ms
    if row.claimed_at + timeout_ms * settings.stall_factor < now:
        return Reason.NODE_HUNG
    return None


def resend_due_at(row: NodeRow, settings: Settings) -> int:
    """When a queued node's dispatch counts as lost. Its queue clock starts at `not_before`."""
    return max(row.not_before, row.sent_at) + settings.resend_after_ms(row.sends)


def next_due_at(
    execution: ExecutionRow, rows: Iterable[NodeRow], now: int, settings: Settings
) -> int:
    """When the watchdog should look at a live execution again.

    The earliest lease end, re-send or deadline, within the soonest and latest sweep interval; a
    parked execution, and one that only waits, is looked at in the slowest one.
    """
    if execution.parked is not None:
        return min(now + settings.sweep_slowest_ms, max(execution.ends_by, now))
    moments = [execution.ends_by]
    waits = False
    for row in rows:
        match row.status:
            case NodeStatus.RUNNING:
                moments.append(row.lease_until + 1)
            case NodeStatus.QUEUED:
                moments.append(resend_due_at(row, settings))
            case NodeStatus.WAITING:
                waits = True
            case _:
                pass
    only_waits = waits and len(moments) == 1
    latest = settings.sweep_slowest_ms if only_waits else settings.sweep_latest_ms
    return min(max(min(moments), now + settings.sweep_soonest_ms), now + latest)
