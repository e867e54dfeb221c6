"""What holds after every single commit and at the start of every body.

Each rule is a function in a list: what is added to the engine adds its own. Rules about attempts
are in `attempts`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from local.simulator.changes import BodyStart, ExecutionChange, NodeChange, Rows
from local.simulator.host import Violation
from piton.domain.errors import Bug
from piton.domain.replay import ExecutionState, NodeState, replay_execution, replay_node
from piton.domain.rows import NodeRow
from piton.domain.status import NodeStatus, Reason


def _fail(message: str) -> None:
    raise Violation(message)


# --- Nodes ---------------------------------------------------------------------------------


def terminal_never_changes(_: Rows, change: NodeChange) -> None:
    """What has ended stays exactly as it ended."""
    if change.old.terminal:
        _fail(f"{change}: {change.old.status} at fence {change.old.fence} changed")


def fences_only_grow(_: Rows, change: NodeChange) -> None:
    """A fence never falls, and rises one at a time."""
    if change.new.fence - change.old.fence not in (0, 1):
        _fail(f"{change}: fence {change.old.fence} became {change.new.fence}")


def history_gives_the_row(_: Rows, change: NodeChange) -> None:
    """Replaying the log through the transition table gives the stored state."""
    try:
        replayed = replay_node(change.new.log)
    except Bug as fault:
        raise Violation(f"{change}: history is not legal: {fault}") from fault
    stored = NodeState.of(change.new)
    if replayed != stored:
        _fail(f"{change}: history gives {replayed}, stored is {stored}")
    if change.new.log[: len(change.old.log)] != change.old.log:
        _fail(f"{change}: history was rewritten")


def one_recorded_completion(_: Rows, change: NodeChange) -> None:
    """At most one entry of the log ends the node."""
    ends = [
        e
        for e in change.new.log
        if e.transition in _ENDS or (e.transition == "N10" and e.not_before is None)
    ]
    if len(ends) > 1:
        _fail(f"{change}: ended {len(ends)} times")


def edges_only_resolve(rows: Rows, change: NodeChange) -> None:
    """Resolved and declined sources are predecessors, only ever added, and frozen by a status."""
    old, new = change.old, change.new
    sources = set(rows.graph.predecessors[new.ordinal])
    if not (old.resolved <= new.resolved <= sources and old.declined <= new.declined):
        _fail(f"{change}: resolved {set(new.resolved)} after {set(old.resolved)}")
    if not new.declined <= new.resolved:
        _fail(f"{change}: an edge is declined and not resolved")
    decided = old.status is not NodeStatus.PENDING
    if decided and (old.resolved, old.declined) != (new.resolved, new.declined):
        _fail(f"{change}: an edge was resolved after the decision")


def decided_only_when_all_is_known(rows: Rows, change: NodeChange) -> None:
    """A node leaves `pending` when every predecessor is resolved, one way or the other."""
    old, new = change.old, change.new
    if old.status is not NodeStatus.PENDING or new.status is NodeStatus.PENDING:
        return
    sources = set(rows.graph.predecessors[new.ordinal])
    if new.resolved != sources:
        _fail(f"{change}: {new.status} with {set(new.resolved)} of {sources} resolved")
    skipped = bool(sources) and not new.taken and new.ordinal != rows.graph.end
    if (new.status is NodeStatus.SKIPPED) is not skipped:
        _fail(f"{change}: {new.status} though {len(new.taken)} edge(s) are taken")


def sources_have_ended(rows: Rows, change: NodeChange) -> None:
    """An edge is resolved only after its source has ended for good."""
    for source in change.new.resolved - change.old.resolved:
        row = rows.nodes.get((change.ref, source))
        if row is None or not row.terminal or row.status is NodeStatus.CANCELLED:
            _fail(f"{change}: the edge from {source} is resolved before its source has ended")


def cancelled_only_under_an_end(rows: Rows, change: NodeChange) -> None:
    """A node is cancelled only when its execution has ended."""
    execution = rows.executions.get(change.ref)
    ended = execution is None or execution.terminal
    if change.new.status is NodeStatus.CANCELLED and not ended:
        _fail(f"{change}: cancelled under a live execution")


def running_has_an_owner(_: Rows, change: NodeChange) -> None:
    """Exactly the running have a lease, and its owner changes only with a claim."""
    new = change.new
    leased = bool(new.lease_owner) and bool(new.lease_until)
    if leased is not (new.status is NodeStatus.RUNNING):
        _fail(f"{change}: {new.status} with lease {new.lease_owner!r} until {new.lease_until}")


def claimed_in_time(_: Rows, change: NodeChange) -> None:
    """No attempt is claimed before its time, by the clock of its claimer."""
    old, new = change.old, change.new
    claimed = old.status is NodeStatus.QUEUED and new.status is NodeStatus.RUNNING
    if claimed and new.claimed_at < old.not_before:
        _fail(f"{change}: claimed {old.not_before - new.claimed_at} ms too early")


# --- Executions ----------------------------------------------------------------------------


def execution_terminal_never_changes(_: Rows, change: ExecutionChange) -> None:
    """What has ended keeps its status, reason, node and moment."""
    old, new = change.old, change.new
    if old is None or not old.terminal:
        return
    if (old.status, old.reason, old.node, old.finished_at, old.log) != (
        new.status,
        new.reason,
        new.node,
        new.finished_at,
        new.log,
    ):
        _fail(f"{change.ref.execution_id}: {old.status} changed to {new.status} after its end")
    if (old.resumes, old.parked) != (new.resumes, new.parked):
        _fail(f"{change.ref.execution_id}: resumed or parked after its end")


def parked_once(_: Rows, change: ExecutionChange) -> None:
    """The first reason for parking stays until an operator resumes."""
    old, new = change.old, change.new
    if old is None or old.parked in (None, new.parked):
        return
    if new.parked is not None or new.resumes == old.resumes:
        _fail(f"{change.ref.execution_id}: parked for {old.parked}, now for {new.parked}")


def execution_history_gives_the_row(_: Rows, change: ExecutionChange) -> None:
    """Replaying the execution's log gives its stored state."""
    try:
        replayed = replay_execution(change.new.log)
    except Bug as fault:
        raise Violation(f"{change.ref.execution_id}: history is not legal: {fault}") from fault
    stored = ExecutionState.of(change.new)
    if replayed != stored:
        _fail(f"{change.ref.execution_id}: history gives {replayed}, stored is {stored}")


def live_is_on_the_due_list(_: Rows, change: ExecutionChange) -> None:
    """A live execution is on the watchdog's list from birth; only an ended one may leave it."""
    if change.new.due_at is None and not change.new.terminal:
        _fail(f"{change.ref.execution_id}: live and on no due list")


def completed_only_with_all_ended(rows: Rows, change: ExecutionChange) -> None:
    """An execution completes only when no node is live and the end gate has all its edges."""
    new = change.new
    if change.old is None or change.old.terminal or new.status.value != "completed":
        return
    mine = [row for (ref, _), row in rows.nodes.items() if ref == change.ref]
    end = rows.nodes.get((change.ref, rows.graph.end))
    resolved = end.resolved if end else frozenset[int]()
    if resolved != set(rows.graph.predecessors[rows.graph.end]):
        _fail(f"{change.ref.execution_id}: completed before its end was reached")
    unfinished = [row.node_id for row in mine if not row.terminal and row.ordinal != rows.graph.end]
    if unfinished:
        _fail(f"{change.ref.execution_id}: completed while {unfinished} had not ended")


# --- Bodies --------------------------------------------------------------------------------


def finished_never_starts_again(rows: Rows, start: BodyStart) -> None:
    """The body of a node that has ended never starts for the holder of its fence.

    One holder may be late: the one whose attempt a sweep has declared dead, for good, between its
    claim and its body. No fence can stop it there; what it writes is refused.
    """
    row = rows.of(start.ref)[start.context.node_id]
    if row.fence < start.context.fence:
        _fail(f"{start.context.node_id}: a body with fence {start.context.fence}, row {row.fence}")
    if ended_by_its_holder(row) and row.fence == start.context.fence:
        _fail(f"{start.context.node_id}: its body starts though it is {row.status}")


def ended_by_its_holder(row: NodeRow) -> bool:
    """True when a node has ended, and not because a sweep gave up its last attempt."""
    given_up = row.status is NodeStatus.FAILED and row.reason in _GIVEN_UP
    return row.terminal and not given_up


# --- The lists -----------------------------------------------------------------------------

_GIVEN_UP: Final = frozenset({Reason.LEASE_EXPIRED, Reason.NODE_HUNG})
_ENDS: Final = frozenset({"N2", "N3", "N6", "N8", "N13", "N14", "N15"})

NodeRule = Callable[[Rows, NodeChange], None]
ExecutionRule = Callable[[Rows, ExecutionChange], None]
BodyRule = Callable[[Rows, BodyStart], None]

NODE_RULES: Final[tuple[NodeRule, ...]] = (
    terminal_never_changes,
    fences_only_grow,
    history_gives_the_row,
    one_recorded_completion,
    edges_only_resolve,
    decided_only_when_all_is_known,
    sources_have_ended,
    cancelled_only_under_an_end,
    running_has_an_owner,
    claimed_in_time,
)
EXECUTION_RULES: Final[tuple[ExecutionRule, ...]] = (
    execution_terminal_never_changes,
    parked_once,
    execution_history_gives_the_row,
    live_is_on_the_due_list,
    completed_only_with_all_ended,
)
BODY_RULES: Final[tuple[BodyRule, ...]] = (finished_never_starts_again,)
