"""Racing dispatchers, completions and finalisers: one winner each, and guards that bite.

Every race runs twice: as it is, and with one guard taken out of the declared operation. The
second arm has to fail, or the race would prove nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from piton.domain.messages import Dispatch, Event, Message
from piton.domain.rows import NodeRow
from piton.domain.status import EventType, ExecutionStatus, Reason
from piton.storage import operations
from piton.storage.algebra import AtMost, Eq, Guard, NotExists, Operation, SizeBelow, SizeIs
from tests.support.actors import Actor
from tests.support.chaos import (
    Script,
    check_end,
    check_history,
    check_one_end,
    drive,
    race,
    scripts,
    settle,
)
from tests.support.engine import EPOCH, Engine
from tests.support.plans import Behaviour, Plan, join_of, plans, single

BITES = settings(
    max_examples=2000,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
DEADLINE = EPOCH + 60_000


def without(operation: Operation, *attributes: str) -> Operation:
    """The same write without its guards on these attributes, or without any.

    What stands in their place always holds and takes the same arguments.
    """

    def weakened(guard: Guard) -> Guard:
        if attributes and guard.attribute not in attributes:
            return guard
        if isinstance(guard, Eq | AtMost | SizeIs | SizeBelow):
            return SizeBelow("never_there", guard.operand)
        return NotExists("never_there")

    return replace(operation, guard=tuple(map(weakened, operation.guard)))


def transitions(engine: Engine, node_id: str) -> list[str]:
    """Every transition of a node that was ever committed, in order."""
    found: list[str] = []
    for record in engine.feed:
        if record.new.get("node_id") == node_id:
            old = NodeRow.from_attributes(record.old).log if record.old else ()
            new = NodeRow.from_attributes(record.new).log
            found += [entry.transition for entry in new[len(old) :]]
    return found


def ends_of_nodes(message: Message) -> bool:
    return isinstance(message, Event) and message.type is EventType.NODE_COMPLETED


# --- Dispatchers ---------------------------------------------------------------------------


DISPATCHERS = given(width=st.integers(2, 4), gate_width=st.sampled_from([2, 256]), script=scripts())


def race_of_dispatchers(width: int, gate_width: int, script: Script) -> None:
    """All predecessors of a join finish together, every message comes twice, two sweeps help."""
    with Engine(join_of(width, gate_width)) as engine:
        for parcel in settle(engine, held=ends_of_nodes):
            engine.deliver(parcel, keep=True)
            engine.deliver(parcel)
        engine.clock.now = engine.execution().due_at or 0
        engine.start_sweep()
        engine.start_sweep()
        race(engine, script)
        drive(engine, Script())
        assert transitions(engine, "join") == ["N1", "N4", "N6"]
        check_end(engine)


def test_a_join_is_dispatched_once_however_many_predecessors_finish_together() -> None:
    DISPATCHERS(race_of_dispatchers)()


def test_dispatch_without_its_guard_goes_out_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "QUEUE_JOIN", without(operations.QUEUE_JOIN))
    with pytest.raises(AssertionError):
        BITES(DISPATCHERS(race_of_dispatchers))()


# --- Attempts ------------------------------------------------------------------------------

STEPS = st.integers(0, 12)
ONE_NODE = st.sampled_from(
    [single(Behaviour()), single(Behaviour(stumbles=1)), single(Behaviour(breaks=True))]
)
ATTEMPTS = given(plan=ONE_NODE, first=STEPS, second=STEPS)
JUDGEMENTS = given(plan=ONE_NODE, sweep=STEPS, worker=STEPS)


def is_dispatch(message: Message) -> bool:
    return isinstance(message, Dispatch)


def claimed_then_stalled(engine: Engine, steps: int) -> Actor:
    """A worker takes the first dispatch, goes some steps and then stands still."""
    [parcel] = settle(engine, held=is_dispatch)
    worker = engine.deliver(parcel, keep=True)
    go(engine, worker, steps)
    engine.clock.now += engine.settings.lease_ms + 1
    return worker


def go(engine: Engine, actor: Actor, steps: int = 1000) -> None:
    for _ in range(steps):
        if not actor.ended:
            engine.stage.step(actor)
            check_history(engine.collect())


def only_one_outcome(engine: Engine) -> None:
    ends = [t for t in transitions(engine, "n0") if t in ("N6", "N8")]
    assert len(ends) == 1
    check_end(engine)


def race_of_attempts(plan: Plan, first: int, second: int) -> None:
    """A worker stands still, loses its lease to another one, and wakes up in the midst of it."""
    with Engine(plan) as engine:
        stalled = claimed_then_stalled(engine, first)
        go(engine, engine.start_sweep())
        latest = engine.flight[-1]
        engine.clock.now = max(engine.clock.now, latest.visible_at)
        go(engine, engine.deliver(latest), second)
        go(engine, stalled)
        drive(engine, Script())
        only_one_outcome(engine)


def race_of_judgements(plan: Plan, sweep: int, worker: int) -> None:
    """A sweep takes a worker for dead, and meanwhile the worker gets on."""
    with Engine(plan) as engine:
        stalled = claimed_then_stalled(engine, 3)
        judge = engine.start_sweep()
        go(engine, judge, sweep)
        go(engine, stalled, worker)
        go(engine, judge)
        drive(engine, Script())
        only_one_outcome(engine)


def test_one_attempt_records_the_outcome_of_a_node() -> None:
    ATTEMPTS(race_of_attempts)()


def test_a_worker_that_got_on_is_not_taken_for_dead() -> None:
    JUDGEMENTS(race_of_judgements)()


@pytest.mark.parametrize(
    ("name", "attribute"),
    [
        ("CLAIM", "node_status"),
        ("COMPLETE", "node_fence"),
        ("RETRY", "node_fence"),
    ],
)
def test_attempts_without_a_guard_get_into_each_others_way(
    monkeypatch: pytest.MonkeyPatch, name: str, attribute: str
) -> None:
    monkeypatch.setattr(operations, name, without(getattr(operations, name), attribute))
    with pytest.raises(AssertionError):
        BITES(ATTEMPTS(race_of_attempts))()


def test_a_sweep_that_forgets_which_lease_it_saw_takes_the_living_for_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hasty = without(operations.RETRY_STALLED, "node_lease_until")
    monkeypatch.setattr(operations, "RETRY_STALLED", hasty)
    with pytest.raises(AssertionError):
        BITES(JUDGEMENTS(race_of_judgements))()


# --- Finalisers ----------------------------------------------------------------------------


FINALISERS = given(
    plan=plans(max_nodes=3),
    script=scripts(),
    cancels=st.integers(0, 2),
    sweeps=st.integers(0, 2),
    finished=st.booleans(),
)


def race_of_finalisers(
    plan: Plan, script: Script, cancels: int, sweeps: int, *, finished: bool
) -> None:
    """The deadline has passed, all nodes have ended if `finished`, and everybody has a say."""
    zoned = datetime.fromtimestamp(DEADLINE / 1000, UTC).isoformat()
    with Engine(plan, deadline_at=zoned) as engine:
        for parcel in settle(engine, held=ends_the_execution(engine) if finished else is_dispatch):
            engine.deliver(parcel, keep=True)
            engine.deliver(parcel)
        engine.clock.now = DEADLINE
        for _ in range(sweeps):
            engine.start_sweep()
        for _ in range(cancels):
            engine.start_cancel()
        race(engine, script)
        drive(engine, Script())
        check_one_end(engine)
        execution = engine.execution()
        if execution.status is ExecutionStatus.CANCELLED and finished:
            # The sweep takes in what had ended before it looks at the deadline.
            assert execution.reason == Reason.CANCELLED_BY_CALLER
        elif finished:
            check_end(engine)


def ends_the_execution(engine: Engine) -> Callable[[Message], bool]:
    """Tell the messages whose handling ends the execution or is all that it waits for."""
    fatal = {node_id for _, node_id in engine.expected.fatal}

    def held(message: Message) -> bool:
        return isinstance(message, Event) and (
            message.detail.get("ordinal") in engine.graph.sinks
            or (message.type is EventType.NODE_FAILED and message.detail["node_id"] in fatal)
        )

    return held


def test_an_execution_ends_once_whoever_ends_it() -> None:
    FINALISERS(race_of_finalisers)()


@pytest.mark.parametrize(
    "name", ["COMPLETE_EXECUTION", "FAIL_EXECUTION", "CANCEL_EXECUTION", "PASS_DEADLINE"]
)
def test_an_execution_without_a_guard_ends_twice(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(operations, name, without(getattr(operations, name)))
    with pytest.raises(AssertionError):
        BITES(FINALISERS(race_of_finalisers))()
