"""From a row's history to the state it must have.

A row's log holds every transition that moved it. Replayed through the transition table it gives
the stored state again, so the history is no commentary: it is the record.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from piton.domain.errors import Bug
from piton.domain.rows import ExecutionRow, LogEntry, NodeRow
from piton.domain.status import ExecutionStatus, NodeStatus
from piton.domain.transitions import BY_ID


@dataclass(frozen=True, slots=True)
class NodeState:
    """What a node's log determines. Field names and meanings are those of `NodeRow`."""

    status: NodeStatus = NodeStatus.PENDING
    fence: int = 0
    attempt: int = 0
    not_before: int = 0
    queued_at: int = 0
    claimed_at: int = 0
    finished_at: int = 0
    lease_owner: str = ""
    code_hash: str = ""
    reason: str | None = None

    @classmethod
    def of(cls, row: NodeRow) -> NodeState:
        """Return the stored state. `row` is read with all its attributes."""
        return cls(
            row.status,
            row.fence,
            row.attempt,
            row.not_before,
            row.queued_at,
            row.claimed_at,
            row.finished_at,
            row.lease_owner,
            row.code_hash,
            row.reason,
        )


@dataclass(frozen=True, slots=True)
class ExecutionState:
    """What an execution's log determines. Field names are those of `ExecutionRow`."""

    status: ExecutionStatus | None = None
    created_at: int = 0
    started_at: int | None = None
    finished_at: int | None = None
    reason: str | None = None

    @classmethod
    def of(cls, row: ExecutionRow) -> ExecutionState:
        """Return the stored state. `row` is read with all its attributes."""
        return cls(row.status, row.created_at, row.started_at, row.finished_at, row.reason)


def replay_node(log: Iterable[LogEntry]) -> NodeState:
    """Return the state after all entries. Raises `Bug` at the first one that is not legal there."""
    state = NodeState()
    for entry in log:
        state = _node_step(state, entry)
    return state


def replay_execution(log: Iterable[LogEntry]) -> ExecutionState:
    """Return the state after all entries. Raises `Bug` at the first one that is not legal there."""
    state = ExecutionState()
    for entry in log:
        state = _execution_step(state, entry)
    return state


def _node_step(state: NodeState, entry: LogEntry) -> NodeState:
    transition = BY_ID.get(entry.transition)
    if transition is None or state.status not in transition.allowed_from:
        raise Bug(f"{entry.transition} does not lead away from {state.status}")
    at = entry.at
    match entry.transition:
        case "N1":
            _expect(entry, fence=1, attempt=1)
            return NodeState(NodeStatus.QUEUED, 1, 1, not_before=at, queued_at=at)
        case "N2":
            return replace(state, status=NodeStatus.SKIPPED, finished_at=at)
        case "N3":
            return replace(state, status=NodeStatus.COMPLETED, finished_at=at)
        case "N4":
            _expect(entry, fence=state.fence, attempt=state.attempt)
            return replace(
                state,
                status=NodeStatus.RUNNING,
                claimed_at=at,
                lease_owner=entry.owner or "",
                code_hash=entry.code or "",
            )
        case "N6":
            _expect(entry, fence=state.fence)
            return replace(_ended(state, NodeStatus.COMPLETED, at), reason=None)
        case "N7" | "N10" if entry.not_before is not None:
            _expect(entry, fence=state.fence + 1, attempt=state.attempt + 1)
            return replace(
                state,
                status=NodeStatus.QUEUED,
                fence=state.fence + 1,
                attempt=state.attempt + 1,
                not_before=entry.not_before,
                queued_at=at,
                lease_owner="",
                reason=entry.reason,
            )
        case "N8" | "N10":
            _expect(entry, fence=state.fence)
            return replace(_ended(state, NodeStatus.FAILED, at), reason=entry.reason)
        case "N13" | "N14" | "N15":
            _expect(entry, fence=state.fence + 1)
            return replace(_ended(state, NodeStatus.CANCELLED, at), fence=state.fence + 1)
        case other:
            raise Bug(f"{other} leaves no entry in a log")


def _ended(state: NodeState, status: NodeStatus, at: int) -> NodeState:
    return replace(state, status=status, finished_at=at, lease_owner="")


def _expect(entry: LogEntry, *, fence: int, attempt: int | None = None) -> None:
    if entry.fence != fence or entry.attempt != attempt:
        raise Bug(
            f"{entry.transition} carries fence {entry.fence} and attempt {entry.attempt}, "
            f"expected {fence} and {attempt}"
        )


def _execution_step(state: ExecutionState, entry: LogEntry) -> ExecutionState:
    transition = BY_ID.get(entry.transition)
    begins = entry.transition == "E1"
    if (
        transition is None
        or begins is not (state.status is None)
        or not (begins or state.status in transition.allowed_from)
    ):
        raise Bug(f"{entry.transition} does not lead away from {state.status}")
    match transition.to:
        case ExecutionStatus.PENDING:
            return ExecutionState(ExecutionStatus.PENDING, created_at=entry.at)
        case ExecutionStatus.RUNNING if entry.transition == "E2":
            return replace(state, status=ExecutionStatus.RUNNING, started_at=entry.at)
        case ExecutionStatus() as status if status.terminal:
            return replace(state, status=status, finished_at=entry.at, reason=entry.reason)
        case _:
            raise Bug(f"{entry.transition} leaves no entry in a log")
