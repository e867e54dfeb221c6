"""What the rules are about: the rows as they stand, changes of them, and bodies that begin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from local.simulator.oracle import Outcome
from piton.domain import canonical
from piton.domain.canonical import Json
from piton.domain.graph import Graph
from piton.domain.rows import ExecutionRef, ExecutionRow, NodeRow
from piton.domain.settings import Settings
from piton.domain.status import NodeStatus
from piton.tasks import Context, Inputs

Claim = tuple[ExecutionRef, str, int]
"""An attempt, by the fence under which it was claimed: execution, node and fence."""


@dataclass
class Rows:
    """Every row as it stands, kept up to date from the change stream.

    `leases` has the end of the lease as last written for each claim, `late_claims` those that
    were committed after their execution had ended. `left_queued` are nodes, with their fence, that
    were queued or waiting when it ended. `ends` has the true time at which nodes, by id, and their
    execution, as "", were recorded to have ended.
    """

    graph: Graph
    blob: Callable[[str], bytes | None]
    now: Callable[[], int] = lambda: 0
    settings: Settings = field(default_factory=Settings)
    executions: dict[ExecutionRef, ExecutionRow] = field(default_factory=dict)
    nodes: dict[tuple[ExecutionRef, int], NodeRow] = field(default_factory=dict)
    expires_at: dict[tuple[str, str], int] = field(default_factory=dict)
    leases: dict[Claim, int] = field(default_factory=dict)
    late_claims: set[Claim] = field(default_factory=set)
    left_queued: set[Claim] = field(default_factory=set)
    ends: dict[tuple[ExecutionRef, str], int] = field(default_factory=dict)

    def take_execution(self, change: ExecutionChange) -> None:
        """Take in a change of an execution."""
        self.executions[change.ref] = change.new
        if change.new.terminal and not (change.old and change.old.terminal):
            self.ends[change.ref, ""] = self.now()
            self.left_queued |= {
                (change.ref, row.node_id, row.fence)
                for row in self.of(change.ref).values()
                if row.status in (NodeStatus.QUEUED, NodeStatus.WAITING)
            }

    def take(self, change: NodeChange) -> None:
        """Take in a change of a node."""
        new, claim = change.new, (change.ref, change.new.node_id, change.new.fence)
        self.nodes[change.ref, new.ordinal] = new
        if new.terminal:
            self.ends[change.ref, new.node_id] = self.now()
        if new.status is not NodeStatus.RUNNING:
            return
        self.leases[claim] = new.lease_until
        execution = self.executions.get(change.ref)
        claimed = change.old.status is not NodeStatus.RUNNING
        if claimed and (execution is None or execution.terminal):
            self.late_claims.add(claim)

    def of(self, ref: ExecutionRef) -> dict[str, NodeRow]:
        """Rows of one execution's nodes, by id."""
        return {row.node_id: row for (owner, _), row in self.nodes.items() if owner == ref}

    def outcomes(self, ref: ExecutionRef) -> dict[str, Outcome]:
        """How the nodes that have ended did so, by id."""
        return {
            node_id: Outcome(row.status, self._result(row), row.reason)
            for node_id, row in self.of(ref).items()
            if row.terminal
        }

    def _result(self, row: NodeRow) -> Json:
        if row.result is not None:
            return canonical.loads(row.result)
        body = self.blob(row.result_ref) if row.result_ref else None
        return None if body is None else canonical.loads(body.decode())


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A node's row before and after a commit."""

    ref: ExecutionRef
    old: NodeRow
    new: NodeRow

    def __str__(self) -> str:
        return f"{self.ref.execution_id}/{self.new.node_id}"


@dataclass(frozen=True, slots=True)
class ExecutionChange:
    """META before and after a commit; `old` is None when it was created."""

    ref: ExecutionRef
    old: ExecutionRow | None
    new: ExecutionRow


@dataclass(frozen=True, slots=True)
class BodyStart:
    """A body that begins, with what it was given, at `now` by the clock of its process."""

    ref: ExecutionRef
    context: Context
    inputs: Inputs
    now: int

    @property
    def claim(self) -> Claim:
        """The attempt that it is the body of."""
        return self.ref, self.context.node_id, self.context.fence
