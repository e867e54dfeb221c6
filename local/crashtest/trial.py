"""One run with the crashes that are planned for it, and what it left behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from local.crashtest.points import Point
from local.crashtest.subject import Subject
from local.simulator.host import Call, Violation
from local.simulator.scenario import Tempo
from local.simulator.strands import Strands
from local.simulator.world import Conditions, World
from piton.domain.canonical import Json
from piton.domain.replay import ExecutionState, NodeState, replay_execution, replay_node
from piton.domain.rows import ExecutionRef
from piton.domain.status import LIVE_NODE_STATUSES, ExecutionStatus, NodeStatus
from piton.storage.algebra import Operation
from piton.storage.views import ExecutionView, NodeView

SEED: Final = "crashtest"
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


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of a run. `ending` is None after a violation; `struck` are crashes that came."""

    calls: tuple[Call, ...]
    struck: int
    ending: Ending | None
    violation: str | None
    trace: tuple[str, ...] = ()


def attempt(
    subject: Subject,
    strands: Strands,
    points: Sequence[Point] = (),
    *,
    seed: str = SEED,
    mutations: Mapping[str, Operation] | None = None,
    trace: bool = False,
) -> Trial:
    """Run the workflow with crashes at `points`, to the end of all that recovers it.

    Each point counts the calls of this run. `mutations` replaces operations of the store by name.
    """
    conditions = Conditions(
        seed=seed,
        faults=[point.fault() for point in points],
        tempo=Tempo.LOCKSTEP,
        mutations=mutations or {},
        retention=False,
        trace=trace,
    )
    world = World(subject.workload(), conditions, strands)
    world.host.asked = calls = list[Call]()
    ending, violation = None, None
    try:
        world.run()
        ending = _ending(world)
    except Violation as found:
        violation = str(found)
    finally:
        world.close()
    struck = len(world.host.plan.struck)
    return Trial(tuple(calls), struck, ending, violation, tuple(world.host.trace or ()))


def _ending(world: World) -> Ending:
    if len(world.refs) != 1:
        raise Violation(f"{len(world.refs)} executions came of one request")
    ref = world.refs[0]
    stored = world.rows.base.get_execution(ref, ExecutionView.FULL)
    if stored is None or not stored.terminal or stored.due_at is not None:
        raise Violation("the execution has not ended, or the watchdog still watches it")
    if replay_execution(stored.log) != ExecutionState.of(stored):
        raise Violation("the execution's history does not give its stored state")
    return Ending(stored.status, stored.reason, stored.node, _nodes(world, ref))


def _nodes(world: World, ref: ExecutionRef) -> dict[str, NodeEnd]:
    outcomes = world.watch.rows.outcomes(ref)
    nodes: dict[str, NodeEnd] = {}
    for row in world.rows.base.query_nodes(ref, NodeView.FULL):
        if row.status in LIVE_NODE_STATUSES:
            raise Violation(f"{row.node_id} is {row.status} under an execution that has ended")
        if replay_node(row.log) != NodeState.of(row):
            raise Violation(f"the history of {row.node_id} does not give its stored state")
        if Counter(entry.transition for entry in row.log)[_COMPLETED] > 1:
            raise Violation(f"{row.node_id} completed more than once")
        result = outcomes[row.node_id].result if row.terminal else None
        nodes[row.node_id] = NodeEnd(row.status, row.reason, result, row.attempt)
    return nodes
