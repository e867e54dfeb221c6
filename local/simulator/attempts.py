"""What holds of attempts: when one is given up or repeated, and when its body may still start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from local.simulator.changes import BodyStart, NodeChange, Rows
from local.simulator.host import Violation
from local.simulator.invariants import BodyRule, NodeRule
from piton.domain.rows import LogEntry, NodeRow
from piton.domain.scope import scope_hash
from piton.domain.status import NodeStatus, Reason

# --- Writes --------------------------------------------------------------------------------


def given_up_only_when_dead(rows: Rows, change: NodeChange) -> None:
    """Nobody but its worker ends an attempt whose lease has not lapsed, unless it hangs.

    A cancellation (N14) may rest on either; a retry or a failure names which it rests on.
    """
    old = change.old
    for entry in _added(change):
        lapsed, hung = old.lease_until < entry.at, _hangs(rows, old, entry.at)
        match entry:
            case LogEntry("N14"):
                dead = lapsed or hung
            case LogEntry("N7" | "N8", reason=Reason.LEASE_EXPIRED):
                dead = lapsed
            case LogEntry("N7" | "N8", reason=Reason.NODE_HUNG):
                dead = hung
            case _:
                continue
        if not dead:
            raise Violation(
                f"{change}: {entry.transition} for {entry.reason} at {entry.at} of an attempt "
                f"claimed at {old.claimed_at} with a lease until {old.lease_until}"
            )


def repeated_only_in_time(rows: Rows, change: NodeChange) -> None:
    """No attempt follows another (N7, N10) once the execution's time is over."""
    execution = rows.executions.get(change.ref)
    for entry in _added(change):
        again = entry.transition in _REPEATS and entry.not_before is not None
        if again and execution is not None and entry.at >= execution.ends_by:
            raise Violation(f"{change}: repeated {entry.at - execution.ends_by} ms after the end")


def undeliverable_only_when_due(_: Rows, change: NodeChange) -> None:
    """A dispatch counts as undeliverable (N10) only once it could have been taken."""
    for entry in _added(change):
        if entry.transition == "N10" and entry.at < change.old.not_before:
            early = change.old.not_before - entry.at
            raise Violation(f"{change}: undeliverable {early} ms before its time")


def decided_in_a_running_scope(rows: Rows, change: NodeChange) -> None:
    """A node is decided on once its execution has begun, and notes the scope of it."""
    execution = rows.executions.get(change.ref)
    decided = change.old.status is NodeStatus.PENDING and change.new.status is not change.old.status
    if not decided or execution is None:
        return
    if execution.started_at is None:
        raise Violation(f"{change}: {change.new.status} before its execution has begun")
    if change.new.scope != scope_hash(execution.scope):
        raise Violation(f"{change}: decided in scope {change.new.scope!r}")


def leased_as_set(rows: Rows, change: NodeChange) -> None:
    """A lease ends `lease_ms` after it is written, so that the dead are missed in time."""
    new, settings = change.new, rows.settings
    if new.status is not NodeStatus.RUNNING or new.lease_until == change.old.lease_until:
        return
    latest = rows.now() + settings.clock_skew_ms
    if any(entry.transition == "N4" for entry in _added(change)):
        latest = new.claimed_at
    if new.lease_until > latest + settings.lease_ms:
        raise Violation(f"{change}: leased until {new.lease_until} at {rows.now()}")


# --- Bodies --------------------------------------------------------------------------------


def claimed_before_the_end(rows: Rows, start: BodyStart) -> None:
    """No body starts for a claim that was committed after its execution had ended."""
    if start.claim in rows.late_claims:
        raise Violation(f"{start.context.node_id}: its body starts, claimed after the end")


def starts_within_its_lease(rows: Rows, start: BodyStart) -> None:
    """A body starts, by its own clock, before the lease ends that was last written for it."""
    late = start.now - rows.leases.get(start.claim, 0)
    if late > 0:
        raise Violation(f"{start.context.node_id}: its body starts {late} ms after its lease")


def _added(change: NodeChange) -> Iterator[LogEntry]:
    yield from change.new.log[len(change.old.log) :]


def _hangs(rows: Rows, row: NodeRow, now: int) -> bool:
    if row.policy is None:
        return False
    return row.claimed_at + row.policy.timeout_ms * rows.settings.stall_factor < now


_REPEATS: Final = frozenset({"N7", "N10"})

ATTEMPT_RULES: Final[tuple[NodeRule, ...]] = (
    given_up_only_when_dead,
    repeated_only_in_time,
    undeliverable_only_when_due,
    decided_in_a_running_scope,
    leased_as_set,
)
START_RULES: Final[tuple[BodyRule, ...]] = (claimed_before_the_end, starts_within_its_lease)
