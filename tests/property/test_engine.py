"""Whatever happens on the way, an execution comes to what a sequential run of it comes to.

The real services run on the embedded store. Hypothesis chooses the workflow, who goes first
before every store call, what is delivered when, and what is lost, repeated or killed.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from piton.domain.status import ExecutionStatus, NodeStatus, Reason
from tests.support.actors import Fault
from tests.support.chaos import (
    BREAKDOWNS,
    MESSAGES,
    PASSERS_BY,
    Disturbance,
    Script,
    check_end,
    check_one_end,
    check_peace,
    drive,
    scripts,
)
from tests.support.engine import EPOCH, Engine
from tests.support.plans import Behaviour, Plan, plans, single


def attempts_as_planned(engine: Engine) -> bool:
    """True when nothing but the plan's own stumbles cost an attempt."""
    behaviours = engine.plan.behaviours
    return all(
        row.attempt <= 1 + behaviours[node_id].stumbles
        for node_id, row in engine.nodes().items()
        if node_id in behaviours
    )


@given(plans(max_nodes=9), scripts())
def test_any_order_of_messages_comes_to_the_same_end(plan: Plan, script: Script) -> None:
    with Engine(plan) as engine:
        drive(engine, script)
        check_end(engine)
        assert attempts_as_planned(engine)


@given(plans(), scripts(*MESSAGES, *PASSERS_BY, most=8))
def test_lost_and_repeated_messages_cost_only_time(plan: Plan, script: Script) -> None:
    with Engine(plan) as engine:
        drive(engine, script)
        check_end(engine)


@given(plans(), scripts(*BREAKDOWNS, *MESSAGES, *PASSERS_BY, most=8))
def test_crashes_and_lost_answers_cost_only_time(plan: Plan, script: Script) -> None:
    with Engine(plan) as engine:
        drive(engine, script)
        check_end(engine)


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.NONE])
@pytest.mark.parametrize("step", range(8))
def test_a_sweep_that_starts_an_execution_may_fail_anywhere(step: int, fault: Fault) -> None:
    with Engine(single(Behaviour())) as engine:
        engine.collect()
        engine.flight.clear()
        engine.clock.now = engine.execution().due_at or 0
        sweep = engine.start_sweep()
        for turn in range(100):
            if not sweep.ended:
                engine.stage.step(sweep, fault if turn == step else Fault.NONE)
        drive(engine, Script())
        check_end(engine)


@given(plans(), scripts(Disturbance.REPEATED, most=10))
def test_a_write_that_the_client_repeats_costs_no_attempt(plan: Plan, script: Script) -> None:
    with Engine(plan) as engine:
        drive(engine, script)
        check_end(engine)
        assert attempts_as_planned(engine)


@given(
    plans(),
    scripts(*BREAKDOWNS, *MESSAGES, *PASSERS_BY),
    st.lists(st.integers(0, 60), min_size=1, max_size=2),
)
def test_a_cancel_at_any_moment_leaves_one_end_and_nothing_alive(
    plan: Plan, script: Script, cancels: list[int]
) -> None:
    more = [(step, Disturbance.CANCEL, 0) for step in cancels]
    with Engine(plan) as engine:
        drive(engine, Script(script.order, [*script.disturbances, *more]))
        execution = engine.execution()
        event(execution.status.value)
        if execution.status is ExecutionStatus.CANCELLED:
            check_peace(engine)
            assert execution.reason == Reason.CANCELLED_BY_CALLER
        else:
            check_end(engine)


@given(plans(), scripts(*BREAKDOWNS, *MESSAGES, *PASSERS_BY), st.integers(1, 200))
def test_a_deadline_ends_only_what_had_not_ended_by_itself(
    plan: Plan, script: Script, seconds: int
) -> None:
    deadline = EPOCH + 1000 * seconds
    zoned = datetime.fromtimestamp(deadline / 1000, UTC).isoformat()
    with Engine(plan, deadline_at=zoned) as engine:
        drive(engine, script)
        check_one_end(engine)
        execution = engine.execution()
        event(execution.status.value)
        if given_up(engine, deadline):
            event("a node was given up")
        elif execution.status is ExecutionStatus.CANCELLED:
            check_peace(engine)
            assert execution.reason == Reason.DEADLINE_PASSED
            assert (execution.finished_at or 0) >= deadline
        else:
            check_end(engine)


def given_up(engine: Engine, deadline: int) -> bool:
    """True when an attempt failed after the deadline: there is no time for another one."""
    return any(
        row.status is NodeStatus.FAILED and row.finished_at >= deadline
        for row in engine.nodes().values()
    )
