"""Strands, fault plans, the shrinker and the oracle."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.simulator.conditions import evaluate
from local.simulator.faults import Fault, FaultPlan, Kind, Place
from local.simulator.oracle import Outcome, judge
from local.simulator.shrink import minimal
from local.simulator.strands import Strand, Strands
from piton.domain.canonical import Json
from piton.domain.compile import Need, NodeSpec
from piton.domain.frontier import ConditionFault
from piton.domain.status import EdgeOn, NodeStatus

# --- Strands -------------------------------------------------------------------------------


def test_strands_run_one_at_a_time_and_only_when_resumed() -> None:
    strands = Strands()
    seen: list[str] = []
    running: list[Strand] = []

    def count(name: str, number: int) -> None:
        for i in range(3):
            seen.append(f"{name}{i}")
            running[number].pause()

    running += [strands.new(lambda: count("a", 0)), strands.new(lambda: count("b", 1))]
    for turn in (0, 1, 1, 0, 0, 1):
        running[turn].resume()
    assert seen == ["a0", "b0", "b1", "a1", "a2", "b2"]
    assert not any(strand.has_ended() for strand in running)
    for strand in running:
        strand.resume()
        assert strand.has_ended()
    strands.close()


def test_a_killed_strand_unwinds_and_no_handling_of_errors_sees_it() -> None:
    strands = Strands()
    seen: list[str] = []

    def body() -> None:
        try:
            try:
                strand.pause()
            except Exception:  # noqa: BLE001
                seen.append("swallowed")
        finally:
            seen.append("unwound")

    strand = strands.new(body)
    strand.resume()
    strand.kill()
    assert strand.has_ended()
    assert seen == ["unwound"]
    unborn = strands.new(lambda: seen.append("ran"))
    unborn.kill()
    assert unborn.has_ended()
    assert seen == ["unwound"]
    strands.close()


def test_what_a_strand_raises_reaches_whoever_resumed_it() -> None:
    strands = Strands()

    def body() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        strands.new(body).resume()
    strands.close()


def test_threads_are_used_again() -> None:
    strands = Strands()
    names = []
    for _ in range(5):
        strands.new(lambda: names.append(threading.get_ident())).resume()
    assert len(set(names)) == 1
    strands.close()


# --- Faults --------------------------------------------------------------------------------


def test_a_fault_strikes_once_at_its_event() -> None:
    lost = Fault(Kind.MESSAGE_LOST, Place.DISPATCH, 2)
    paused = Fault(Kind.PAUSED, Place.WORKER, 2, 50)
    plan = FaultPlan([lost, paused])
    assert [plan.next(Place.DISPATCH) for _ in range(4)] == [[], [lost], [], []]
    assert plan.next(Place.EVENT) == []
    assert plan.struck == [lost]


# --- Shrinking -----------------------------------------------------------------------------


@given(st.sets(st.integers(0, 40), max_size=12), st.sets(st.integers(0, 40), max_size=4))
def test_nothing_that_is_kept_can_be_left_out(items: set[int], needed: set[int]) -> None:
    if not needed <= items:
        needed = set()
    kept = minimal(sorted(items), lambda part: needed <= set(part))
    assert set(kept) == needed


# --- The oracle ----------------------------------------------------------------------------


def specs(**needs: list[Need]) -> list[NodeSpec]:
    return [NodeSpec(name, task="t", needs=tuple(edges)) for name, edges in needs.items()]


def runs_with(*failing: str) -> object:
    def runs(spec: NodeSpec, inputs: Json) -> Outcome:
        del inputs
        if spec.id in failing:
            return Outcome(NodeStatus.FAILED, reason="NO_LUCK")
        return Outcome(NodeStatus.COMPLETED, {"v": 7})

    return runs


def statuses(nodes: list[NodeSpec], *failing: str) -> dict[str, str]:
    verdict = judge(nodes, {}, evaluate, runs_with(*failing))  # type: ignore[arg-type]
    return {name: outcome.status.value for name, outcome in verdict.outcomes.items()}


def test_a_node_runs_when_any_edge_is_taken_and_is_skipped_when_none_is() -> None:
    nodes = specs(
        a=[],
        b=[Need("a", when="v < `5`")],
        c=[Need("a", when="v >= `5`")],
        d=[Need("b"), Need("c")],
        e=[Need("b")],
    )
    assert statuses(nodes) == {
        "a": "completed",
        "b": "skipped",
        "c": "completed",
        "d": "completed",
        "e": "skipped",
    }


def test_nothing_behind_a_fatal_failure_is_reached() -> None:
    nodes = specs(a=[], b=[Need("a")], c=[], d=[Need("b"), Need("c")])
    verdict = judge(nodes, {}, evaluate, runs_with("a"))  # type: ignore[arg-type]
    assert dict(verdict.fatal) == {"a": "NO_LUCK"}
    assert set(verdict.outcomes) == {"a", "c"}


def test_a_failure_with_an_edge_to_take_it_up_is_not_fatal() -> None:
    nodes = specs(a=[], b=[Need("a", EdgeOn.FAILURE)], c=[Need("a")])
    assert statuses(nodes, "a") == {"a": "failed", "b": "completed", "c": "skipped"}


def test_inputs_hold_the_results_of_taken_predecessors_only() -> None:
    nodes = specs(a=[], b=[], c=[Need("a"), Need("b", EdgeOn.FAILURE)], d=[Need("a")])
    verdict = judge(nodes, {"n": 1}, evaluate, runs_with("b"))  # type: ignore[arg-type]
    assert verdict.inputs["c"] == {"execution": {"n": 1}, "nodes": {"a": {"v": 7}}}


def test_a_condition_that_cannot_be_evaluated_is_fatal_and_resolves_nothing() -> None:
    nodes = specs(a=[], b=[Need("a", when="length(v)")], c=[Need("a")])
    verdict = judge(nodes, {}, evaluate, runs_with())  # type: ignore[arg-type]
    assert dict(verdict.fatal) == {"a": "EDGE_CONDITION_ERROR"}
    assert set(verdict.outcomes) == {"a"}


@pytest.mark.parametrize(
    ("when", "document", "expected"),
    [
        ("v >= `7`", {"v": 7}, True),
        ("v < `7`", {"v": 7}, False),
        ("v < `7`", {"reason": "X"}, False),
        ("nothing", {"v": 7}, False),
        ("reason == 'X'", {"reason": "X"}, True),
        ("reason == 'X'", {"v": 1}, False),
    ],
)
def test_conditions(when: str, document: Json, *, expected: bool) -> None:
    assert evaluate(when, document) is expected


def test_a_condition_of_another_form_is_no_condition_of_a_scenario() -> None:
    with pytest.raises(ConditionFault):
        evaluate("length(v)", {"v": 1})
    with pytest.raises(ValueError, match="no condition"):
        evaluate("a.b.c", {})
