"""Public failure cases, section F: the services underneath and their clocks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from piton.domain.messages import Event
from piton.domain.status import EventType
from tests.support.actors import Actor
from tests.support.cases import (
    chain,
    dispatches,
    go,
    is_dispatch,
    parcels,
    sweep_when_due,
    transitions,
)
from tests.support.chaos import Script, check_end, drive, settle
from tests.support.engine import ACTED_ON, Engine, TurnedClock
from tests.support.plans import Behaviour, join_of

# The last two are the difference of a clock that is five minutes behind and one that is ahead.
SKEWS_MS = [-300_000, -20_000, 20_000, 300_000, -600_000, 600_000]


class SkewedClock(TurnedClock):
    """Wall-clock time is off by `skew_ms` for whoever goes now; the time that passes is not."""

    skew_ms = 0

    def now_ms(self) -> int:
        return self.now + self.skew_ms


@pytest.mark.parametrize("lost", [*sorted(ACTED_ON), "all"])
def test_case_59_events_that_a_bus_swallowed_are_made_up_for(lost: str) -> None:
    """It answers success and delivers none of one kind, or none at all, for ever."""
    plan = join_of(3) if lost != EventType.NODE_FAILED else chain(Behaviour(breaks=True))
    with Engine(plan) as engine:
        while engine.execution().due_at is not None:
            swallow(engine, lost)
            settle(engine, held=lambda message: isinstance(message, Event) and lost == "all")
            swallow(engine, lost)
            if engine.execution().due_at is not None:
                sweep_when_due(engine)
        drive(engine, Script())
        check_end(engine)


def swallow(engine: Engine, lost: str) -> None:
    engine.collect()
    engine.flight[:] = [
        parcel
        for parcel in engine.flight
        if not (isinstance(parcel.message, Event) and lost in {"all", parcel.message.type.value})
    ]


def go_skewed(engine: Engine, skew_ms: int, actor: Callable[[], Actor], steps: int = 1000) -> Actor:
    """Let an actor go whose own clock is wrong."""
    assert isinstance(engine.clock, SkewedClock)
    engine.clock.skew_ms = skew_ms
    started = actor()
    go(engine, started, steps)
    engine.clock.skew_ms = 0
    return started


def check_one_writer(engine: Engine) -> None:
    drive(engine, Script())
    fences = [entry.fence for entry in engine.nodes()["n0"].log if entry.fence is not None]
    assert fences == sorted(fences)
    assert transitions(engine, "n0").count("N6") == 1
    assert len(dispatches(engine, "n1")) == 1
    check_end(engine)


@pytest.mark.parametrize("skew_ms", SKEWS_MS)
@pytest.mark.parametrize("second", range(9))
def test_case_64_a_sweep_whose_clock_is_wrong_costs_an_attempt_at_most(
    second: int, skew_ms: int
) -> None:
    """It judges a worker whose clock is right, at any step of that worker."""
    with Engine(chain(Behaviour(), Behaviour()), clock=SkewedClock()) as engine:
        [parcel] = settle(engine, held=is_dispatch)
        worker = engine.deliver(parcel)
        go(engine, worker, second)
        engine.clock.now += engine.settings.sweep_soonest_ms - 1
        go_skewed(engine, skew_ms, engine.start_sweep)
        go(engine, worker)
        check_one_writer(engine)
        assert engine.nodes()["n0"].attempt == 1 + ("N7" in transitions(engine, "n0"))


@pytest.mark.parametrize("skew_ms", SKEWS_MS)
@pytest.mark.parametrize("second", range(9))
def test_case_64_a_worker_whose_clock_is_wrong_keeps_to_its_fence(
    second: int, skew_ms: int
) -> None:
    """Its lease ends too early or too late, and a second worker with a right clock joins in."""
    with Engine(chain(Behaviour(), Behaviour()), clock=SkewedClock()) as engine:
        [parcel] = settle(engine, held=is_dispatch)
        worker = go_skewed(engine, skew_ms, lambda: engine.deliver(parcel, keep=True), second)
        engine.clock.now += 2 * engine.settings.lease_ms
        go(engine, engine.start_sweep())
        for copy in parcels(engine, is_dispatch):
            if copy.visible_at <= engine.clock.now:
                go(engine, engine.deliver(copy))
        go_skewed(engine, skew_ms, lambda: worker)
        check_one_writer(engine)
