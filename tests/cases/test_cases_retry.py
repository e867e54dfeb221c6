"""Public failure cases, section D: retry, timeout, cancel."""

from __future__ import annotations

import asyncio
import json
import math
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from piton.contracts import StartExecutionInput
from piton.domain.compile import PoolLimits
from piton.domain.errors import Rejected
from piton.domain.retry import RetryPolicy
from piton.domain.rows import ExecutionRef
from piton.domain.status import EventType, ExecutionStatus, NodeStatus, Reason
from piton.ports import Counter
from piton.services.relay import Change, messages_of
from piton.storage.views import ExecutionView, NodeView
from piton.tasks import Context, Inputs, Permanent, Registry, Task, Transient
from tests.support.actors import Fault
from tests.support.cases import (
    about_to_record,
    chain,
    dispatches,
    go,
    go_with_fault,
    is_dispatch,
    is_event,
    runs_of,
    sweep_when_due,
    transitions,
)
from tests.support.chaos import Script, check_end, check_one_end, drive, settle
from tests.support.embedded import OPERATOR as ADA
from tests.support.embedded import Embedded
from tests.support.engine import OPERATOR, PLENTY_MS, Engine
from tests.support.plans import INPUT, WORKFLOW_ID, Behaviour

SECRET = "iban DE89 3704 0044 0532 0130 00"


@pytest.mark.parametrize("body", ["succeeds", "fails", "fails for good"])
@pytest.mark.parametrize("second", range(9))
def test_case_38_the_first_attempt_writes_nothing_once_there_is_a_second(
    second: int, body: str
) -> None:
    """It wakes up at any moment of the second one: one chain, and it is the second one's."""
    behaviour = Behaviour(stumbles=int(body == "fails"), breaks=body == "fails for good")
    with Engine(chain(behaviour, Behaviour())) as engine:
        [parcel] = settle(engine, held=is_dispatch)
        first = engine.deliver(parcel)
        about_to_record(engine, first)
        engine.clock.now += engine.settings.lease_ms + 1
        sweep_when_due(engine)
        [again] = settle(engine, held=is_dispatch)
        worker = engine.deliver(again)
        go(engine, worker, second)
        before = engine.nodes()
        go(engine, first)
        assert engine.nodes() == before
        assert engine.figures.counts[Counter.STALE_WRITE_REFUSED] == 1
        go(engine, worker)
        drive(engine, Script())
        assert engine.nodes()["n0"].attempt == 2
        assert len(dispatches(engine, "n1")) == (0 if body == "fails for good" else 1)
        check_end(engine)


@pytest.mark.parametrize("second", range(9))
def test_case_38_the_first_attempt_is_told_when_it_wants_to_go_on(second: int) -> None:
    """Its heartbeat is refused at any moment of the second attempt, and it gives up there."""
    with Engine(chain(Behaviour(), Behaviour())) as engine:
        [parcel] = settle(engine, held=is_dispatch)
        first = engine.deliver(parcel)
        while not engine.bodies_run:
            go(engine, first, 1)
        engine.clock.now += engine.settings.lease_ms + 1
        sweep_when_due(engine)
        [again] = settle(engine, held=is_dispatch)
        worker = engine.deliver(again)
        go(engine, worker, second)
        before, written = engine.nodes(), len(engine.feed)
        steps = 0
        while not first.ended:
            go(engine, first, 1)
            steps += 1
        # The refused heartbeat is all that it still asks of the store.
        assert steps <= 2
        assert (engine.nodes(), len(engine.feed)) == (before, written)
        go(engine, worker)
        drive(engine, Script())
        assert len(dispatches(engine, "n1")) == 1
        check_end(engine)


@pytest.mark.parametrize("cancelled", range(10))
@pytest.mark.parametrize("stumbles", [1, 3])
def test_case_39_a_failure_after_the_cancellation_runs_nothing_again(
    stumbles: int, cancelled: int
) -> None:
    """The worker is at any step of an attempt that is going to fail in passing."""
    with Engine(chain(Behaviour(stumbles=stumbles), Behaviour())) as engine:
        [parcel] = settle(engine, held=is_dispatch)
        worker = engine.deliver(parcel)
        go(engine, worker, cancelled)
        go(engine, engine.start_cancel())
        go(engine, worker)
        ran = len(engine.bodies_run)
        drive(engine, Script())
        assert len(engine.bodies_run) == ran <= 1
        assert engine.execution().status is ExecutionStatus.CANCELLED
        assert engine.nodes()["n0"].status is NodeStatus.CANCELLED
        assert dispatches(engine, "n1") == []
        check_one_end(engine)


@pytest.mark.parametrize("end", ["completes", "fails"])
@pytest.mark.parametrize("first", ["cancel", "end"])
@pytest.mark.parametrize("step", range(9))
def test_case_40_of_cancel_and_end_one_wins_and_the_other_is_told(
    step: int, first: str, end: str
) -> None:
    with Engine(chain(Behaviour(breaks=end == "fails"))) as engine:
        [parcel] = settle(engine, held=is_event(EventType.NODE_COMPLETED, EventType.NODE_FAILED))
        told: list[str] = []

        def cancel() -> None:
            try:
                answer = engine.commands.cancel_execution(OPERATOR, engine.ref.execution_id, None)
                told.append(answer.status)
            except Rejected as refusal:
                told.append(refusal.code)

        if first == "cancel":
            ahead = engine.stage.add("cancel", cancel)
            go(engine, ahead, step)
            go(engine, engine.deliver(parcel))
        else:
            ahead = engine.deliver(parcel)
            go(engine, ahead, step)
            go(engine, engine.stage.add("cancel", cancel))
        go(engine, ahead)
        drive(engine, Script())
        status = engine.execution().status
        expected = "cancelled" if status is ExecutionStatus.CANCELLED else "EXECUTION_ENDED"
        assert told == [expected]
        check_one_end(engine)


@pytest.mark.parametrize("late", ["retryable", "permanent"])
def test_case_41_a_late_failure_leaves_the_result_as_it_is(late: str) -> None:
    """The first attempt fails after the second one has completed the node."""
    with Engine(chain(Behaviour(stumbles=1), Behaviour())) as engine:
        [parcel] = settle(engine, held=is_dispatch)
        first = engine.deliver(parcel)
        if late == "permanent":
            engine.plan = chain(Behaviour(breaks=True), Behaviour())
        about_to_record(engine, first)
        engine.plan = chain(Behaviour(), Behaviour())
        engine.clock.now += engine.settings.lease_ms + 1
        sweep_when_due(engine)
        settle(engine, held=lambda _: False)
        done = engine.nodes()["n0"]
        assert (done.status, done.attempt) == (NodeStatus.COMPLETED, 2)
        go(engine, first)
        assert engine.nodes()["n0"] == done
        assert settle(engine, held=lambda _: False) == []
        assert runs_of(engine, "n0") == 2


@pytest.mark.parametrize("base_s", [0.5, 4.0, 899.0, 1801.0, 3600.0])
def test_case_42_the_next_attempt_comes_at_its_time_without_a_sweep(base_s: float) -> None:
    """Beyond the longest delay of a queue too: what comes early is put back until its time."""
    plan = chain(Behaviour(stumbles=2), Behaviour(), retry=RetryPolicy(5, base_s, base_s))
    with Engine(plan) as engine:
        settle(engine, held=lambda _: False)
        sent = dispatches(engine, "n0")
        assert [each.attempt for each in sent] == [1, 2, 3]
        log = engine.nodes()["n0"].log
        due = [entry.not_before for entry in log if entry.transition == "N7"]
        claims = [entry.at for entry in log if entry.transition == "N4"][1:]
        for wanted, claimed in zip(due, claims, strict=True):
            assert wanted is not None
            assert wanted <= claimed < wanted + 1000
        assert due[0] == log[0].at + int(base_s * 500)
        # The middle of the jitter, as far as a queue can hide a message.
        assert sent[1].delay_s == min(math.ceil(base_s / 2), 900)
        assert engine.execution().status is ExecutionStatus.COMPLETED
        assert engine.figures.counts[Counter.SWEPT] == 0


def end_with(error: BaseException) -> Callable[[Context, Inputs], NoReturn]:
    def body(context: Context, inputs: Inputs) -> NoReturn:
        del context, inputs
        raise error

    return body


def exits(context: Context, inputs: Inputs) -> str:
    """A wrapper of the usual kind: prints what went wrong and leaves with code 0."""
    del context, inputs
    sys.exit(0)


async def cancels_itself(context: Context, inputs: Inputs) -> None:
    del context, inputs
    raise asyncio.CancelledError(SECRET)


ENDINGS: dict[str, tuple[Any, str]] = {
    "error": (end_with(ValueError(SECRET)), Reason.TASK_ERROR),
    "os error": (end_with(OSError(SECRET)), Reason.TASK_ERROR),
    "transient": (end_with(Transient("MODEL_BUSY", SECRET)), "MODEL_BUSY"),
    "permanent": (end_with(Permanent("BAD_DOCUMENT", SECRET)), "BAD_DOCUMENT"),
    "exit": (exits, Reason.TASK_ERROR),
    "interrupt": (end_with(KeyboardInterrupt(SECRET)), Reason.TASK_ERROR),
    "generator exit": (end_with(GeneratorExit(SECRET)), Reason.TASK_ERROR),
    "cancelled": (cancels_itself, Reason.TASK_ERROR),
}


@pytest.mark.usefixtures("metrics_named")
@pytest.mark.parametrize("ending", sorted(ENDINGS))
def test_case_44_a_body_that_ends_in_an_error_has_failed_whatever_it_says(ending: str) -> None:
    """By a code. Its text is in no row and in no message."""
    body, reason = ENDINGS[ending]
    tasks = Registry()
    tasks.add(Task("ends", body, RetryPolicy(1, 0.0, 0.0), None))
    with Embedded(tasks, {"default": PoolLimits(50)}) as engine:
        engine.register(json.dumps({"id": "w", "nodes": [{"id": "a", "task": "ends"}]}))
        ref = ExecutionRef(str(ADA.tenant), engine.start("w", {}))
        engine.run_to_end()
        row = engine.rows.query_nodes(ref, NodeView.FULL)[0]
        execution = engine.rows.get_execution(ref, ExecutionView.FULL)
        assert execution is not None
        assert (row.status, row.reason) == (NodeStatus.FAILED, str(reason))
        assert (execution.status, execution.reason) == (ExecutionStatus.FAILED, str(reason))
        for record in engine.rows.read_feed(0, 1000):
            assert SECRET not in repr(record)
            assert SECRET not in repr(messages_of(Change(record.old, record.new)))


@pytest.mark.parametrize("fault", [Fault.REPEATED, Fault.UNANSWERED])
@pytest.mark.parametrize("step", range(10))
def test_case_48_a_worker_that_meets_its_own_claim_goes_on(step: int, fault: Fault) -> None:
    """A claim or an outcome that was stored, and whose answer was lost, is known as one's own."""
    with Engine(chain(Behaviour(), Behaviour())) as engine:
        [parcel] = settle(engine, held=is_dispatch)
        hit = go_with_fault(engine, engine.deliver(parcel), step, fault)
        if fault is Fault.REPEATED:
            settle(engine, held=lambda _: False)
            assert transitions(engine, "n0") == ["N1", "N4", "N6"]
            assert engine.figures.counts[Counter.STALE_WRITE_REFUSED] == 0
            assert engine.execution().status is ExecutionStatus.COMPLETED
        drive(engine, Script())
        assert hit or engine.nodes()["n0"].attempt == 1
        check_end(engine)


def test_case_48_a_caller_that_repeats_itself_gets_the_execution_it_started() -> None:
    """In any state of that execution, and never an answer that it is in progress."""
    with Engine(chain(Behaviour(stumbles=1))) as engine:
        asked = StartExecutionInput.model_validate(
            {"workflow": WORKFLOW_ID, "input": INPUT, "idempotency": {"document": "invoice-1"}}
        )
        first = engine.commands.start_execution(OPERATOR, asked)
        for _ in range(3):
            again = engine.commands.start_execution(OPERATOR, asked)
            assert again.execution.ref == first.execution.ref
            assert not again.created
            engine.sweep.run(10, lambda: PLENTY_MS)
            engine.clock.now += 60_000
