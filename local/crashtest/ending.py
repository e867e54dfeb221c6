"""How an execution ended, read off its rows, and whether they are as they must be at an end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from local.simulator.host import Violation
from piton.domain.canonical import Json
from piton.domain.errors import Bug
from piton.domain.replay import ExecutionState, NodeState, replay_execution, replay_node
from piton.domain.rows import ExecutionRow, NodeRow
from piton.domain.status import LIVE_NODE_STATUSES, ExecutionStatus, NodeStatus

_COMPLETED: Final = "N6"


@dataclass(frozen=True, slots=True)
class NodeEnd:
    """How a node stands in the end. `attempt` is its last one, 0 if there was none."""

    status: NodeStatus
    reason: str | None = None
    result: Json = None
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Ending:
    """How an execution ended; `node` is the one that ended it. Nodes by id, gates included."""

    status: ExecutionStatus
    reason: str | None
    node: str | None
    nodes: Mapping[str, NodeEnd]

    def __str__(self) -> str:
        why = f" with {self.reason}" if self.reason else ""
        where = f" at {self.node}" if self.node else ""
        return f"{self.status}{why}{where}"


def ending(
    execution: ExecutionRow | None, rows: Iterable[NodeRow], result: Callable[[NodeRow], Json]
) -> Ending:
    """Read all rows of an execution; `result` tells what to compare of a node that has ended.

    Raises `Violation` when it has not ended, when anything under it is live, when a node completed
    twice or when a history does not give the stored state.
    """
    if execution is None or not execution.terminal:
        raise Violation("the execution has not ended")
    _check_history(
        "the execution", lambda: replay_execution(execution.log), ExecutionState.of(execution)
    )
    nodes = {row.node_id: _node_end(row, result) for row in rows}
    return Ending(execution.status, execution.reason, execution.node, nodes)


def _node_end(row: NodeRow, result: Callable[[NodeRow], Json]) -> NodeEnd:
    if row.status in LIVE_NODE_STATUSES:
        raise Violation(f"{row.node_id} is {row.status} under an execution that has ended")
    if Counter(entry.transition for entry in row.log)[_COMPLETED] > 1:
        raise Violation(f"{row.node_id} completed more than once")
    _check_history(row.node_id, lambda: replay_node(row.log), NodeState.of(row))
    return NodeEnd(row.status, row.reason, result(row) if row.terminal else None, row.attempt)


def _check_history(whose: str, replayed: Callable[[], object], stored: object) -> None:
    try:
        gives = replayed()
    except Bug as error:
        raise Violation(f"the history of {whose} cannot be: {error}") from error
    if gives != stored:
        raise Violation(f"the history of {whose} does not give its stored state")
