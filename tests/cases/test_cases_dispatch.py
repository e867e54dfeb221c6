"""Public failure cases, section A: dispatched twice."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given

from piton.domain.errors import Stale
from piton.domain.messages import Dispatch
from piton.domain.rows import NODE_SK_PREFIX
from piton.domain.status import EventType, NodeStatus
from piton.ports import Counter
from piton.services.dead_letters import DeadLetters
from piton.services.dispatching import Dispatching
from tests.support.actors import Actor
from tests.support.cases import (
    about_to_record,
    chain,
    dispatches,
    go,
    is_dispatch,
    is_event,
    parcels,
    sweep_when_due,
    transitions,
)
from tests.support.chaos import (
    MESSAGES,
    PASSERS_BY,
    Disturbance,
    Script,
    check_end,
    drive,
    scripts,
    settle,
)
from tests.support.engine import PLENTY_MS, CountedNames, Engine
from tests.support.plans import Behaviour, Plan, plans

SWEEP_STEPS = 12


@pytest.mark.parametrize("behind", ["queued", "running"])
@pytest.mark.parametrize("read", range(SWEEP_STEPS))
def test_case_02_a_sweep_that_decides_on_an_old_row_changes_nothing(read: int, behind: str) -> None:
    """The node's worker gets to its end while the sweep stands between any two of its calls."""
    with Engine(chain(Behaviour())) as engine:
        [parcel] = settle(engine, held=is_dispatch)
        worker = None
        if behind == "running":
            worker = engine.deliver(parcel)
            go(engine, worker, 3)
            engine.clock.now += engine.settings.lease_ms + 1
        engine.clock.now = max(engine.clock.now, (engine.execution().due_at or 0) + 60_000)
        sweep = engine.start_sweep()
        go(engine, sweep, read)
        fence = engine.nodes()["n0"].fence
        go(engine, worker or engine.deliver(parcel))
        done = engine.nodes()["n0"]
        go(engine, sweep)
        if done.status is NodeStatus.COMPLETED:
            assert engine.nodes()["n0"].log == done.log
            assert all(each.fence == fence for each in dispatches(engine, "n0"))
        drive(engine, Script())
        assert transitions(engine, "n0").count("N6") == 1
        check_end(engine)


def test_case_02_the_sweeps_write_meets_the_version_that_was_read() -> None:
    """Two sweeps read one row: the second one's write is refused, whatever it was to be."""
    with Engine(chain(Behaviour())) as engine:
        settle(engine, held=is_dispatch)
        engine.flight.clear()
        engine.clock.now += engine.settings.first_resend_ms * 2
        row = engine.nodes()["n0"]
        dispatching = Dispatching(engine.rows, engine.clock, CountedNames(), engine.figures)
        assert dispatching.send_again(engine.ref, row)
        assert not dispatching.send_again(engine.ref, row)
        engine.collect()
        assert len(dispatches(engine, "n0")) == 2


@pytest.mark.parametrize("claimed", range(8))
def test_case_03_a_second_message_finds_nothing_to_claim(claimed: int) -> None:
    """The worker holds the message, in any state of its work, when the sweep sends another."""
    with Engine(chain(Behaviour())) as engine:
        [parcel] = settle(engine, held=is_dispatch)
        worker = engine.deliver(parcel)
        engine.clock.now += 2 * engine.settings.first_resend_ms
        sweep_when_due(engine)
        go(engine, worker, claimed)
        again = parcels(engine, is_dispatch)
        assert len(again) == 1
        assert {each.fence for each in dispatches(engine, "n0")} == {1}
        go(engine, engine.deliver(again[0]))
        go(engine, worker)
        drive(engine, Script())
        assert len(engine.bodies_run) == 1
        assert engine.figures.counts[Counter.CLAIM_REFUSED] == 1
        assert transitions(engine, "n0") == ["N1", "N4", "N6"]
        check_end(engine)


@pytest.mark.parametrize("overtaken", range(8))
def test_case_05_a_duplicate_start_is_benign(overtaken: int) -> None:
    """Neither of two starts fails, and everything behind them goes on without a sweep."""
    with Engine(chain(Behaviour(), Behaviour())) as engine:
        [parcel] = settle(engine, held=is_event(EventType.START_REQUESTED))
        first, second = engine.deliver(parcel, keep=True), engine.deliver(parcel)
        go(engine, first, overtaken)
        go(engine, second)
        go(engine, first)
        assert settle(engine, held=lambda _: False) == []
        assert engine.execution().terminal
        assert engine.figures.counts[Counter.EXECUTION_STARTED] == 1
        assert [run for run, _ in engine.bodies_run] == ["n0", "n1"]
        assert transitions(engine, "n0") == ["N1", "N4", "N6"]


def second_generation(engine: Engine) -> tuple[Actor, Dispatch, Dispatch]:
    """The first attempt is about to record its outcome; the second one's dispatch is sent."""
    [parcel] = settle(engine, held=is_dispatch)
    worker = engine.deliver(parcel)
    about_to_record(engine, worker)
    engine.clock.now += engine.settings.lease_ms + 1
    sweep_when_due(engine)
    first, second = dispatches(engine, "n0")
    engine.flight.clear()
    return worker, first, second


@pytest.mark.parametrize("live", ["queued", "running", "completed"])
@pytest.mark.parametrize("what", ["dispatch", "dead letter", "failure", "success"])
def test_case_07_news_of_another_generation_is_dropped_and_counted(what: str, live: str) -> None:
    """Whatever an attempt of the past still has to say, the live one is left alone."""
    with Engine(chain(Behaviour(stumbles=int(what == "failure")))) as engine:
        past, first, second = second_generation(engine)
        worker = engine.stage.add("live", lambda: engine.work.run(second, PLENTY_MS))
        go(engine, worker, {"queued": 0, "running": 3, "completed": 1000}[live])
        before = engine.nodes()["n0"]
        assert (before.status, before.fence) == (NodeStatus(live), second.fence)
        dispatching = Dispatching(engine.rows, engine.clock, CountedNames(), engine.figures)
        letters = DeadLetters(engine.rows, engine.workflows, dispatching, engine.clock)
        match what:
            case "dispatch":
                with pytest.raises(Stale):
                    engine.work.run(first, PLENTY_MS)
                assert engine.figures.counts[Counter.CLAIM_REFUSED] == 1
            case "dead letter":
                with pytest.raises(Stale):
                    letters.undeliverable(first)
            case _:
                go(engine, past)
                assert engine.figures.counts[Counter.STALE_WRITE_REFUSED] == 1
        assert engine.nodes()["n0"] == before
        go(engine, past)
        go(engine, worker)
        drive(engine, Script())
        assert engine.nodes()["n0"].attempt == 2
        check_end(engine)


@given(plans(), scripts(*MESSAGES, *PASSERS_BY, Disturbance.REPEATED, most=8))
def test_case_08_a_node_has_one_row(plan: Plan, script: Script) -> None:
    """However often and by whomever it is queued: its key is its place in the definition."""
    with Engine(plan) as engine:
        drive(engine, script)
        places: dict[str, set[str]] = defaultdict(set)
        born: dict[str, int] = defaultdict(int)
        for record in engine.feed:
            if record.sk.startswith(NODE_SK_PREFIX):
                places[str(record.new["node_id"])].add(record.sk)
                born[record.sk] += record.old is None
        assert all(len(keys) == 1 for keys in places.values())
        assert len({key for keys in places.values() for key in keys}) == len(places)
        assert set(born.values()) <= {1}


def test_case_08_names_that_sort_or_fold_alike_are_different_rows() -> None:
    specs = chain(*[Behaviour() for _ in range(4)]).specs
    names = ["a", "A", "a-", "a_"]
    renamed = dict(zip((spec.id for spec in specs), names, strict=True))
    plan = Plan(
        tuple(
            replace(
                spec,
                id=renamed[spec.id],
                needs=tuple(replace(need, node=renamed[need.node]) for need in spec.needs),
            )
            for spec in specs
        ),
        {name: Behaviour() for name in names},
    )
    with Engine(plan) as engine:
        drive(engine, Script())
        rows = engine.nodes()
        assert [rows[name].ordinal for name in names] == list(range(4))
        check_end(engine)
