"""One run with the crashes that are planned for it, and what it left behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from local.crashtest.ending import Ending, ending
from local.crashtest.points import Point
from local.crashtest.subject import Subject
from local.simulator.host import Call, Violation
from local.simulator.scenario import Tempo
from local.simulator.strands import Strands
from local.simulator.world import Conditions, World
from piton.domain.canonical import Json
from piton.domain.rows import NodeRow
from piton.storage.algebra import Operation
from piton.storage.views import ExecutionView, NodeView

SEED: Final = "crashtest"


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
    end, violation = None, None
    try:
        world.run()
        end = _ending(world)
    except Violation as found:
        violation = str(found)
    finally:
        world.close()
    struck = len(world.host.plan.struck)
    return Trial(tuple(calls), struck, end, violation, tuple(world.host.trace or ()))


def _ending(world: World) -> Ending:
    if len(world.refs) != 1:
        raise Violation(f"{len(world.refs)} executions came of one request")
    ref = world.refs[0]
    stored = world.rows.base.get_execution(ref, ExecutionView.FULL)
    if stored is not None and stored.terminal and stored.due_at is not None:
        raise Violation("the watchdog still watches the execution, which has ended")
    outcomes = world.watch.rows.outcomes(ref)

    def result(row: NodeRow) -> Json:
        return outcomes[row.node_id].result

    return ending(stored, world.rows.base.query_nodes(ref, NodeView.FULL), result)
