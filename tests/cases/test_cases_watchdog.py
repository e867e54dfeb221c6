"""Public failure cases, section B: watchdog and heartbeats."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from itertools import pairwise, product

import pytest

from piton.contracts import StartExecutionInput
from piton.domain.retry import RetryPolicy
from piton.domain.rows import ExecutionRef, Value
from piton.domain.settings import DAY, MINUTE, Settings
from piton.domain.status import (
    TERMINAL_NODE_STATUSES,
    EventType,
    ExecutionStatus,
    NodeStatus,
    Reason,
)
from piton.ports import Applied, Counter, Refused
from piton.storage import keys
from piton.storage.algebra import Args, Item, Operation
from piton.storage.operations import OPERATIONS
from piton.storage.sqlite import SqliteStore
from tests.support.cases import (
    about_to_record,
    chain,
    dispatches,
    go,
    is_dispatch,
    is_event,
    parcels,
    set_attributes,
    sweep_when_due,
    transitions,
)
from tests.support.chaos import Script, check_end, drive, race, settle
from tests.support.engine import EPOCH, OPERATOR, PLENTY_MS, Engine
from tests.support.plans import INPUT, WORKFLOW_ID, Behaviour
from tests.support.store import make_ref, sample_args, seed

NODE_OPERATIONS = [operation for operation in OPERATIONS if operation.item is Item.NODE]
ENDED_NODES = sorted(TERMINAL_NODE_STATUSES)


def name_of_value(value: Operation | NodeStatus) -> str:
    return value.name if isinstance(value, Operation) else value.value


@pytest.mark.parametrize(
    ("operation", "status"), list(product(NODE_OPERATIONS, ENDED_NODES)), ids=name_of_value
)
def test_case_09_no_operation_touches_a_node_that_has_ended(
    operation: Operation, status: NodeStatus
) -> None:
    """Not even one that names its fence and its lease."""
    args: Args = sample_args(operation)
    key = keys.node(make_ref(), 5)
    state: dict[str, Value] = {
        "node_status": status.value,
        "node_fence": args.get("fence", 3),
        "node_lease_until": args.get("seen_lease", 1),
        "node_not_before": 0,
        "node_sends": args.get("seen_sends", 0),
        "node_resolved": frozenset({7, 8}),
    }
    with closing(SqliteStore()) as store:
        seed(store, Item.NODE, key, state)
        assert store.apply(operation, key, args) == Refused()


@pytest.mark.parametrize("later", range(10))
def test_case_09_a_success_outlives_the_sweep_that_took_its_worker_for_dead(later: int) -> None:
    """The worker records its result while the sweep, which read the old row, judges it."""
    with Engine(chain(Behaviour())) as engine:
        [parcel] = settle(engine, held=is_dispatch)
        worker = engine.deliver(parcel)
        about_to_record(engine, worker)
        engine.clock.now += engine.settings.lease_ms + 1
        engine.clock.now = max(engine.clock.now, engine.execution().due_at or 0)
        sweep = engine.start_sweep()
        go(engine, sweep, later)
        recorded = engine.nodes()["n0"].status is NodeStatus.RUNNING
        go(engine, worker)
        go(engine, sweep)
        if recorded:
            assert transitions(engine, "n0") == ["N1", "N4", "N6"]
        drive(engine, Script())
        assert engine.nodes()["n0"].status is NodeStatus.COMPLETED
        check_end(engine)


@pytest.mark.parametrize("beats", [1, 5])
def test_case_11_a_renewed_lease_is_left_alone_and_a_lapsed_one_reconciles(beats: int) -> None:
    settings = Settings()
    with Engine(chain(Behaviour())) as engine:
        [parcel] = settle(engine, held=is_dispatch)
        worker = engine.deliver(parcel)
        go(engine, worker, 3)
        for _ in range(beats):
            engine.clock.now += settings.lease_ms
            renew(engine)
            engine.clock.now += settings.lease_ms
            for _ in range(2):
                sweep_now(engine)
            assert transitions(engine, "n0") == ["N1", "N4"]
            renew(engine)
        # One moment later the lease has run out: taken for dead by mistake, as the body lives.
        engine.clock.now = engine.nodes()["n0"].lease_until
        sweep_now(engine)
        assert transitions(engine, "n0") == ["N1", "N4"]
        engine.clock.now += 1
        sweep_now(engine)
        assert transitions(engine, "n0") == ["N1", "N4", "N7"]
        go(engine, worker)
        assert engine.figures.counts[Counter.STALE_WRITE_REFUSED] == 1
        drive(engine, Script())
        check_end(engine)


def renew(engine: Engine) -> None:
    """What the worker's heartbeat writes."""
    row = engine.nodes()["n0"]
    operation = next(each for each in OPERATIONS if each.name == "node.renew_lease")
    args = {"fence": row.fence, "lease_until": engine.clock.now + engine.settings.lease_ms}
    assert isinstance(engine.rows.apply(operation, keys.node(engine.ref, 0), args), Applied)


def sweep_now(engine: Engine) -> None:
    """A sweep that finds the execution due, whenever it would have been."""
    set_attributes(engine.rows, keys.meta(engine.ref), Item.META, due_at=engine.clock.now)
    go(engine, engine.start_sweep())


def test_case_12_time_in_the_queue_is_no_time_of_the_attempt() -> None:
    """A backlog of two timeouts: nothing fails, and the run clock begins with the claim."""
    with Engine(chain(Behaviour())) as engine:
        [parcel] = settle(engine, held=is_dispatch)
        backlog = 2 * engine.settings.stall_factor * engine.settings.node_timeout_ms
        until = engine.clock.now + backlog
        while engine.clock.now < until:
            sweep_when_due(engine)
        row = engine.nodes()["n0"]
        assert (row.status, row.attempt, row.fence) == (NodeStatus.QUEUED, 1, 1)
        # Nobody even tried to judge it by the clock of an attempt.
        assert engine.figures.counts[Counter.STALE_WRITE_REFUSED] == 0
        worker = engine.deliver(parcel)
        go(engine, worker, 3)
        assert engine.nodes()["n0"].claimed_at == engine.clock.now
        sweep_now(engine)
        go(engine, worker)
        drive(engine, Script())
        assert transitions(engine, "n0") == ["N1", "N4", "N6"]
        check_end(engine)


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
def test_case_15_an_ended_execution_costs_the_watchdog_nothing(end: str) -> None:
    with Engine(chain(Behaviour(breaks=end == "failed"))) as engine:
        if end == "cancelled":
            settle(engine, held=is_dispatch)
            go(engine, engine.start_cancel())
        settle(engine, held=lambda _: False)
        assert engine.execution().status is ExecutionStatus(end)
        repairs = engine.figures.counts.copy()
        written = len(engine.feed)
        for _ in range(24 * 60):
            engine.clock.now += MINUTE
            engine.sweep.run(10, lambda: PLENTY_MS)
        engine.collect()
        assert engine.execution().due_at is None
        # One move on the list at most, and the retirement from it.
        assert len(engine.feed) - written <= 3
        assert parcels(engine, lambda _: True) == []
        changed = {name for name, value in engine.figures.counts.items() if value != repairs[name]}
        assert changed == {Counter.SWEPT, Counter.RETIRED}


def another(engine: Engine) -> ExecutionRef:
    """One more execution of the same workflow."""
    asked = StartExecutionInput.model_validate({"workflow": WORKFLOW_ID, "input": INPUT})
    return engine.commands.start_execution(OPERATOR, asked).execution.ref


SPOILED: Mapping[str, tuple[Item, dict[str, Value]]] = {
    "an unknown status": (Item.NODE, {"node_status": "nonsense"}),
    "no fence": (Item.NODE, {"node_fence": "x"}),
    "another definition": (Item.META, {"exec_definition_hash": "0" * 64}),
    "a version that is gone": (Item.META, {"exec_workflow_version": 99}),
}


def spoil(engine: Engine, how: str) -> None:
    item, values = SPOILED[how]
    key = keys.node(engine.ref, 0) if item is Item.NODE else keys.meta(engine.ref)
    set_attributes(engine.rows, key, item, **values)


@pytest.mark.parametrize("how", sorted(SPOILED))
def test_case_16_a_row_that_no_sweep_can_read_keeps_no_other_from_being_swept(how: str) -> None:
    """The spoiled execution is parked, which raises the alarm; what is behind it is repaired."""
    with Engine(chain(Behaviour())) as engine:
        settle(engine, held=is_dispatch)
        spoil(engine, how)
        engine.clock.now += MINUTE
        behind = another(engine)
        engine.clock.now += 10 * MINUTE
        report = engine.sweep.run(10, lambda: PLENTY_MS)
        assert (report.swept, report.failed) == (2, 1)
        [row] = engine.rows.query_nodes(behind)
        assert row.status is NodeStatus.QUEUED
        assert engine.execution().parked == Reason.SWEEP_FAILED
        assert engine.figures.counts[Counter.PARKED] == 1


def test_case_16_a_node_without_attempts_left_ends_its_execution_alone() -> None:
    """The stalled node of the report: no retries, so the sweep has to fail it."""
    with Engine(chain(Behaviour(), retry=RetryPolicy(1, 0.0, 0.0))) as engine:
        [parcel] = settle(engine, held=is_dispatch)
        go(engine, engine.deliver(parcel), 3)
        engine.stage.clear()
        behind = another(engine)
        engine.clock.now += 10 * MINUTE
        report = engine.sweep.run(10, lambda: PLENTY_MS)
        assert (report.swept, report.failed) == (2, 0)
        assert engine.nodes()["n0"].status is NodeStatus.FAILED
        [other] = engine.rows.query_nodes(behind)
        assert other.status is NodeStatus.QUEUED


@pytest.mark.parametrize("kind", ["deadline", "timeout"])
def test_case_17_what_is_sent_again_and_again_ends_at_its_time(kind: str) -> None:
    """No worker ever takes the node: repeats are bounded, an alarm is raised, time ends it."""
    end = EPOCH + 2 * DAY
    zoned = datetime.fromtimestamp(end / 1000, UTC).isoformat() if kind == "deadline" else None
    with Engine(chain(Behaviour()), Settings(default_life_ms=2 * DAY), deadline_at=zoned) as engine:
        settle(engine, held=is_dispatch)
        while not engine.execution().terminal:
            engine.flight.clear()
            sweep_when_due(engine)
            assert engine.clock.now <= end + engine.settings.sweep_slowest_ms
        execution = engine.execution()
        expected = {
            "deadline": (ExecutionStatus.CANCELLED, Reason.DEADLINE_PASSED),
            "timeout": (ExecutionStatus.FAILED, Reason.TIMED_OUT),
        }[kind]
        assert (execution.status, execution.reason) == expected
        assert engine.figures.counts[Counter.PARKED] == 1
        sent = len(dispatches(engine, "n0"))
        assert sent <= 6 + 2 * DAY // engine.settings.sweep_slowest_ms


@pytest.mark.parametrize("how", sorted(SPOILED))
@pytest.mark.parametrize("kind", ["deadline", "timeout"])
def test_case_17_a_sweep_that_fails_every_time_ends_at_its_time_too(kind: str, how: str) -> None:
    end = EPOCH + DAY
    zoned = datetime.fromtimestamp(end / 1000, UTC).isoformat() if kind == "deadline" else None
    with Engine(chain(Behaviour()), Settings(default_life_ms=DAY), deadline_at=zoned) as engine:
        settle(engine, held=is_dispatch)
        spoil(engine, how)
        for _ in range(200):
            if not engine.execution().terminal:
                engine.clock.now = max(engine.clock.now, engine.execution().due_at or 0)
                engine.sweep.run(10, lambda: PLENTY_MS)
        execution = engine.execution()
        assert execution.terminal
        assert end <= (execution.finished_at or 0) <= end + engine.settings.sweep_slowest_ms
        assert execution.parked == Reason.SWEEP_FAILED


@pytest.mark.parametrize("minutes", [1, 31, 240])
def test_case_18_a_message_that_waits_is_repeated_seldom_and_runs_once(minutes: int) -> None:
    """A queue does not tell how far behind it is: repeats keep their distance and their fence."""
    with Engine(chain(Behaviour())) as engine:
        settle(engine, held=is_dispatch)
        until = engine.clock.now + minutes * MINUTE
        while engine.clock.now < until:
            sweep_when_due(engine)
        sent = dispatches(engine, "n0")
        assert {(each.fence, each.attempt) for each in sent} == {(1, 1)}
        times = sorted(
            {int(str(r.new["node_sent_at"])) for r in engine.feed if "node_sent_at" in r.new}
        )
        assert len(times) == len(sent)
        for sends, (earlier, later) in enumerate(pairwise(times)):
            assert later - earlier >= min(MINUTE << sends, engine.settings.sweep_slowest_ms)
        for parcel in parcels(engine, is_dispatch):
            engine.deliver(parcel)
        race(engine, Script())
        drive(engine, Script())
        assert len(engine.bodies_run) == 1
        assert engine.figures.counts[Counter.CLAIM_REFUSED] == len(sent) - 1
        check_end(engine)


def test_case_18_nothing_is_sent_while_the_first_message_is_young() -> None:
    with Engine(chain(Behaviour())) as engine:
        settle(engine, held=is_dispatch)
        engine.clock.now += engine.settings.first_resend_ms - 1
        sweep_now(engine)
        assert len(dispatches(engine, "n0")) == 1
        assert not is_event(EventType.NODE_FAILED)(engine.sent[-1])
