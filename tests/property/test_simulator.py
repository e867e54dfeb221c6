"""The simulator itself: repeatable, right about a sound engine, and not blind to a broken one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from local.simulator.campaign import run_campaign, run_seeds
from local.simulator.faults import Fault, Kind, Place
from local.simulator.generate import generate
from local.simulator.play import play
from local.simulator.scenario import Behaviour, BodyPlan, NodePlan, Scenario, Tempo
from local.simulator.shrink import shrink
from local.simulator.strands import Strands
from local.simulator.world import ONE_OF_EACH
from piton.domain.compile import Need
from piton.domain.settings import MINUTE, Settings
from piton.domain.status import EdgeOn
from piton.storage import operations as op
from piton.storage.algebra import Eq, NotExists, Operation, SizeBelow

CHUNKS = [range(start, start + 20) for start in range(0, 200, 20)]


def chain(*faults: Fault) -> Scenario:
    body = (BodyPlan(Behaviour.RETURNS, 100),)
    nodes = (NodePlan("a", body), NodePlan("b", body, (Need("a"),)))
    return Scenario(0, nodes, faults, {"n": 1}, tempo=Tempo.LOCKSTEP, skews=ONE_OF_EACH)


@pytest.mark.parametrize("seeds", CHUNKS, ids=str)
def test_no_seed_breaks_a_promise(seeds: range) -> None:
    summary = run_seeds(seeds)
    assert summary.violations == {}
    assert summary.seeds == len(seeds)


def test_a_seed_is_the_same_run_every_time(strands: Strands) -> None:
    for seed in range(10):
        once, again = (play(generate(seed), strands, trace=True) for _ in range(2))
        assert once == again


def test_seeds_run_side_by_side_come_to_the_same_sum() -> None:
    together, alone = run_campaign(range(60), 2), run_seeds(range(60))
    assert (together.steps, together.struck, together.outcomes) == (
        alone.steps,
        alone.struck,
        alone.outcomes,
    )


def test_every_kind_of_fault_every_operation_and_every_end_occurs() -> None:
    summary = run_seeds(range(400))
    assert set(summary.struck) == set(Kind)
    simulated = {operation.name for operation in op.OPERATIONS} - {"workflow.register"}
    assert simulated <= {name for name, applied in summary.outcomes if applied}
    assert ("idempotency.claim", False) in summary.outcomes
    assert {
        "completed",
        "cancelled CANCELLED_BY_CALLER",
        "cancelled DEADLINE_PASSED",
        "failed TIMED_OUT",
        "failed EDGE_CONDITION_ERROR",
        "failed LEASE_EXPIRED",
        "failed NODE_HUNG",
        "failed NODE_TIMEOUT",
        "failed DELIVERY_EXHAUSTED",
        "failed TASK_NOT_FOUND",
    } <= set(summary.ends)


def test_clocks_are_wrong_to_both_sides_and_by_as_much_as_is_assumed() -> None:
    bound = Settings().clock_skew_ms
    worlds = [
        [skew for skews in generate(seed).skews.values() for skew in skews] for seed in range(200)
    ]
    assert {min(skews) for skews in worlds} >= {-bound}
    assert {max(skews) for skews in worlds} >= {bound}
    assert any(max(skews) - min(skews) == 2 * bound for skews in worlds)
    assert all(abs(skew) <= bound for skews in worlds for skew in skews)


def test_workflows_have_every_feature() -> None:
    scenarios = [generate(seed) for seed in range(200)]
    needs = [need for scenario in scenarios for node in scenario.nodes for need in node.needs]
    bodies = [
        body.behaviour
        for scenario in scenarios
        for node in scenario.nodes
        for body in node.attempts
    ]
    widths = [
        (len({need.node for need in node.needs}), scenario.max_in_degree)
        for scenario in scenarios
        for node in scenario.nodes
    ]
    assert {need.on for need in needs} == set(EdgeOn)
    assert any(need.when for need in needs)
    assert set(bodies) == set(Behaviour)
    assert any(1 < width <= most for width, most in widths)
    assert any(width > most for width, most in widths)
    assert {scenario.tempo for scenario in scenarios} == set(Tempo)


def test_a_run_without_faults_takes_every_step_once(strands: Strands) -> None:
    played = play(chain(), strands)
    assert played.violation is None
    counts = {name: n for (name, applied), n in played.outcomes.items() if applied}
    assert counts["node.claim"] == counts["node.complete"] == 2
    assert "node.retry_stalled" not in counts
    assert "node.resend" not in counts


def test_a_crash_between_claim_and_record_costs_one_attempt(strands: Strands) -> None:
    crash = Fault(Kind.CRASH_AFTER, Place.WORKER, 2)
    played = play(chain(crash), strands)
    assert played.violation is None
    counts = {name: n for (name, applied), n in played.outcomes.items() if applied}
    assert counts["node.claim"] == 3
    assert counts["node.retry_stalled"] == 1


def test_a_lost_dispatch_costs_no_attempt(strands: Strands) -> None:
    played = play(chain(Fault(Kind.MESSAGE_LOST, Place.DISPATCH, 1)), strands)
    assert played.violation is None
    counts = {name: n for (name, applied), n in played.outcomes.items() if applied}
    assert counts["node.claim"] == 2
    assert counts["node.resend"] == 1


def straggling(skew_ms: int) -> Iterator[Scenario]:
    """A step runner stops before each of its writes, just as its execution is cancelled.

    The one who notes the end is behind, the one who waits for stragglers ahead. The message that
    would clean up behind the step runner is lost.
    """
    lost = tuple(Fault(Kind.MESSAGE_LOST, Place.DISPATCH, number) for number in (1, 2))
    skews = {**ONE_OF_EACH, Place.COMMANDS: (-skew_ms,), Place.WATCHDOG: (skew_ms,)}
    for call, commit in product(range(1, 9), range(3, 9)):
        paused = Fault(Kind.PAUSED, Place.STEP_RUNNER, call, 55_000)
        cancel = Fault(Kind.CANCEL, Place.COMMIT, commit)
        sweep = Fault(Kind.SWEEP, Place.COMMIT, commit + 1)
        yield replace(chain(paused, cancel, sweep, *lost), skews=skews)


def test_no_straggler_outlives_the_list_while_clocks_are_as_good_as_assumed(
    strands: Strands,
) -> None:
    skew_ms = Settings().clock_skew_ms
    assert [v for s in straggling(skew_ms) if (v := play(s, strands).violation)] == []


def test_worse_clocks_than_assumed_leave_something_behind(strands: Strands) -> None:
    assert any(play(scenario, strands).violation for scenario in straggling(8 * MINUTE))


def weakened(operation: Operation, attribute: str) -> dict[str, Operation]:
    guard = tuple(
        (
            SizeBelow("never_there", part.operand)
            if isinstance(part, Eq)
            else NotExists("never_there")
        )
        if part.attribute == attribute
        else part
        for part in operation.guard
    )
    return {operation.name: replace(operation, guard=guard)}


@pytest.mark.parametrize(
    ("operation", "attribute"),
    [
        (op.QUEUE_SINGLE, "node_status"),
        (op.QUEUE_ROOT, "node_status"),
        (op.CLAIM, "node_status"),
        (op.COMPLETE, "node_status"),
        (op.COMPLETE, "node_fence"),
        (op.COMPLETE_EXECUTION, "exec_status"),
        (op.FAIL_EXECUTION, "exec_status"),
        (op.CANCEL_EXECUTION, "exec_status"),
    ],
    ids=lambda part: getattr(part, "name", part),
)
def test_an_engine_without_a_guard_is_found_out(
    strands: Strands, operation: Operation, attribute: str
) -> None:
    mutations = weakened(operation, attribute)
    found = (play(generate(seed), strands, mutations).violation for seed in range(400))
    assert any(found)


def test_what_fails_is_shrunk_to_what_matters(strands: Strands) -> None:
    mutations = weakened(op.QUEUE_SINGLE, "node_status")

    def fails(scenario: Scenario) -> bool:
        return play(scenario, strands, mutations).violation is not None

    seed = next(seed for seed in range(400) if fails(generate(seed)) and generate(seed).faults)
    scenario = generate(seed)
    small = shrink(scenario, fails)
    assert fails(small)
    assert len(small.nodes) <= len(scenario.nodes)
    for number in range(len(small.faults)):
        rest = small.faults[:number] + small.faults[number + 1 :]
        assert not fails(replace(small, faults=rest))
