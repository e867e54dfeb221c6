"""Playing one scenario from beginning to end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from local.simulator.audit import audit
from local.simulator.bodies import RESULT_LIMIT, ScriptedTasks
from local.simulator.conditions import evaluate
from local.simulator.engine import POOLS
from local.simulator.faults import Kind
from local.simulator.host import Violation
from local.simulator.oracle import Outcome, inputs_of, taken_sources
from local.simulator.scenario import Scenario
from local.simulator.strands import Strands
from local.simulator.world import Conditions, Workload, World
from piton.adapters.conditions import check_condition
from piton.domain.canonical import Json
from piton.domain.compile import compile_graph
from piton.domain.rows import ExecutionRow
from piton.domain.settings import Settings
from piton.storage.algebra import Operation


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a scenario. `violation` is None when nothing was wrong.

    `ends` counts executions by status and, where there is one, reason; `outcomes` counts
    operations by whether they applied.
    """

    seed: int
    calls: int
    violation: str | None
    struck: Counter[Kind]
    outcomes: Counter[tuple[str, bool]]
    ends: Counter[str]
    trace: tuple[str, ...] = ()


def play(
    scenario: Scenario,
    strands: Strands,
    mutations: Mapping[str, Operation] | None = None,
    *,
    trace: bool = False,
) -> Played:
    """Run a scenario in a world of its own and audit what is left."""
    settings = Settings(inline_bytes=scenario.inline_bytes, result_limit_bytes=RESULT_LIMIT)
    conditions = Conditions(
        seed=str(scenario.seed),
        faults=scenario.faults,
        tempo=scenario.tempo,
        skews=scenario.skews,
        settings=settings,
        mutations=mutations or {},
        recovery=scenario.recovery,
        trace=trace,
    )
    world = World(_workload(scenario), conditions, strands)
    violation: str | None = None
    try:
        world.run()
        audit(scenario, world)
    except Violation as found:
        violation = str(found)
    finally:
        world.close()
    return Played(
        scenario.seed,
        world.host.calls,
        violation,
        Counter(fault.kind for fault in world.host.plan.struck),
        world.rows.outcomes,
        Counter(map(_end, world.watch.rows.executions.values())),
        tuple(world.host.trace or ()),
    )


def _workload(scenario: Scenario) -> Workload:
    specs = {node.id: node.spec for node in scenario.nodes}

    def inputs(node_id: str, outcomes: Mapping[str, Outcome]) -> Json:
        spec = specs[node_id]
        taken = taken_sources(spec, outcomes, evaluate)
        return inputs_of(spec, dict(scenario.input), taken, outcomes)

    graph = compile_graph(
        "simulated",
        list(specs.values()),
        pools=POOLS,
        check_condition=check_condition,
        timeout_s=scenario.timeout_s,
        max_in_degree=scenario.max_in_degree,
    )
    return Workload(
        graph,
        partial(ScriptedTasks, scenario.plans),
        scenario.input,
        inputs,
        scenario.executions,
        scenario.rivals,
        scenario.deadline_s,
    )


def _end(row: ExecutionRow) -> str:
    return f"{row.status} {row.reason}" if row.reason else row.status.value
