"""Decides who goes next and what goes wrong, and judges how it all came out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeVar

from hypothesis import strategies as st

from piton.domain.errors import Bug
from piton.domain.messages import Message
from piton.domain.replay import ExecutionState, NodeState, replay_execution, replay_node
from piton.domain.rows import META_SK, NODE_SK_PREFIX, ExecutionRow, NodeRow
from piton.domain.status import ExecutionStatus, NodeStatus, Reason
from piton.storage.algebra import Table
from piton.storage.sqlite import FeedRecord
from tests.support.actors import Actor, Fault
from tests.support.engine import Engine, Parcel

T = TypeVar("T")

SIDE_BY_SIDE: Final = 3
MOST_STEPS: Final = 20_000
_BURSTS: Final = (0, 0, 1, 2, 4, 8, 16, 32)


class Disturbance(Enum):
    """What may happen besides the next step of an actor or the next delivery."""

    LOSE = "a message is lost"
    REPEAT = "a message is delivered and stays on its way"
    CRASH_BEFORE = Fault.CRASH_BEFORE
    CRASH_AFTER = Fault.CRASH_AFTER
    UNANSWERED = Fault.UNANSWERED
    REPEATED = Fault.REPEATED
    UNAVAILABLE = Fault.UNAVAILABLE
    SWEEP = "a sweep begins"
    RESUME = "an operator resumes"
    CANCEL = "an operator cancels"
    JUMP = "time passes, longer than a lease"


MESSAGES: Final = (Disturbance.LOSE, Disturbance.REPEAT)
PASSERS_BY: Final = (Disturbance.SWEEP, Disturbance.RESUME, Disturbance.JUMP)
BREAKDOWNS: Final = tuple(d for d in Disturbance if isinstance(d.value, Fault))


@dataclass
class Script:
    """All decisions of a run.

    Each byte of `order` chooses an actor or a message and for how many steps it goes before the
    others: long bursts are what lets one actor overtake another that stands still. 0 is one step
    of the oldest, and when the bytes run out the oldest always goes first. `disturbances` are due
    at a step.
    """

    order: bytes = b""
    disturbances: Sequence[tuple[int, Disturbance, int]] = ()
    _used: int = field(default=0, init=False)
    _favourite: object = field(default=None, init=False)
    _burst: int = field(default=0, init=False)

    def choose(self, options: Sequence[T]) -> T:
        """Return who goes next."""
        if len(options) == 1:
            return options[0]
        if self._burst > 0:
            for option in options:
                if option is self._favourite:
                    self._burst -= 1
                    return option
        if self._used >= len(self.order):
            return options[0]
        decision = self.order[self._used]
        self._used += 1
        self._burst = _BURSTS[decision >> 5]
        chosen = options[(decision & 31) % len(options)]
        self._favourite = chosen
        return chosen

    def follow(self, actor: Actor) -> None:
        """A message that was chosen has become an actor; its burst goes on."""
        self._favourite = actor


def scripts(*kinds: Disturbance, most: int = 6, last_step: int = 120) -> st.SearchStrategy[Script]:
    """Scripts with any order and at most `most` disturbances of these kinds."""
    disturbance = st.tuples(st.integers(0, last_step), st.sampled_from(kinds), st.integers(0, 3))
    return st.builds(
        Script,
        order=st.binary(min_size=160, max_size=160),
        disturbances=st.lists(disturbance, max_size=most) if kinds else st.just(()),
    )


def drive(engine: Engine, script: Script) -> None:
    """Run the execution to its end and until nobody has to look at it any more."""
    due = sorted(script.disturbances, key=lambda entry: entry[0])
    for step in range(MOST_STEPS):
        check_history(engine.collect())
        if due and due[0][0] <= step and _disturb(engine, due[0][1], due[0][2]):
            due.pop(0)
        elif not _go_on(engine, script) and not _wait(engine):
            return
    raise AssertionError(f"no end after {MOST_STEPS} steps")


def settle(engine: Engine, held: Callable[[Message], bool]) -> list[Parcel]:
    """Deliver everything but what is to be held, one after the other. Returns what is held."""
    while True:
        check_history(engine.collect())
        free = [parcel for parcel in engine.flight if not held(parcel.message)]
        if not free:
            return list(engine.flight)
        engine.clock.now = max(engine.clock.now, free[0].visible_at)
        engine.deliver(free[0])
        race(engine, Script())


def race(engine: Engine, script: Script) -> None:
    """Let the actors on the stage run to their ends, in the order of the script."""
    while engine.stage.actors:
        engine.stage.step(script.choose(engine.stage.actors))
        check_history(engine.collect())


def _go_on(engine: Engine, script: Script) -> bool:
    actors = engine.stage.actors
    parcels = engine.visible() if len(actors) < SIDE_BY_SIDE else []
    if not actors and not parcels:
        return False
    options: list[Actor | Parcel] = [*actors, *parcels]
    chosen = script.choose(options)
    if isinstance(chosen, Parcel):
        script.follow(engine.deliver(chosen))
    else:
        engine.stage.step(chosen)
    return True


def _wait(engine: Engine) -> bool:
    """Turn the clock to whatever comes next. False when nothing does."""
    due_at = engine.execution().due_at
    times = [parcel.visible_at for parcel in engine.flight]
    if due_at is not None:
        times.append(due_at)
    if not times:
        return False
    engine.clock.now = max(engine.clock.now, min(times))
    if due_at is not None and due_at <= engine.clock.now:
        engine.start_sweep()
    return True


def _disturb(engine: Engine, kind: Disturbance, which: int) -> bool:
    """Carry out a disturbance. False when there is nothing that it could befall yet."""
    actors, parcels = engine.stage.actors, engine.visible()
    match kind:
        case Disturbance.LOSE | Disturbance.REPEAT if parcels:
            parcel = parcels[which % len(parcels)]
            if kind is Disturbance.LOSE:
                engine.flight.remove(parcel)
            else:
                engine.deliver(parcel, keep=True)
        case Disturbance.SWEEP:
            engine.start_sweep()
        case Disturbance.RESUME:
            engine.start_resume()
        case Disturbance.CANCEL:
            engine.start_cancel()
        case Disturbance.JUMP:
            engine.clock.now += engine.settings.lease_ms + 1
        case Disturbance(value=Fault() as fault) if actors:
            actor: Actor = actors[which % len(actors)]
            engine.stage.step(actor, fault)
        case _:
            return False
    return True


# --- Judging -------------------------------------------------------------------------------


def check_history(records: Sequence[FeedRecord]) -> None:
    """Every committed row is what its history says, only adds to it, and is kept for a time."""
    for record in records:
        try:
            if record.sk == META_SK:
                _check_execution(record)
            elif is_node(record):
                _check_node(record)
        except Bug as error:
            raise AssertionError("a committed row has an illegal history") from error
        assert record.table is Table.WORKFLOWS or "expires_at" in record.new


def _check_execution(record: FeedRecord) -> None:
    row = ExecutionRow.from_attributes(record.new)
    assert replay_execution(row.log) == ExecutionState.of(row)
    if record.old:
        log = ExecutionRow.from_attributes(record.old).log
        assert row.log[: len(log)] == log


def _check_node(record: FeedRecord) -> None:
    row = NodeRow.from_attributes(record.new)
    assert replay_node(row.log) == NodeState.of(row)
    if record.old:
        old = NodeRow.from_attributes(record.old)
        assert row.log[: len(old.log)] == old.log
        if row.log != old.log and row.log[-1].reason == Reason.LEASE_EXPIRED:
            assert old.lease_until < row.log[-1].at


def is_node(record: FeedRecord) -> bool:
    """Tell a node's row from the others."""
    return record.sk.startswith(NODE_SK_PREFIX)


def check_end(engine: Engine) -> None:
    """The execution came to what a sequential run of its plan comes to."""
    execution, expected = engine.execution(), engine.expected
    if expected.fatal:
        assert execution.status is ExecutionStatus.FAILED
        assert (execution.reason, execution.node) in expected.fatal
    else:
        assert execution.status is ExecutionStatus.COMPLETED
        assert execution.reason is None
        check_nodes(engine, decided=True)
    check_peace(engine)


def check_nodes(engine: Engine, *, decided: bool) -> None:
    """Every node that has ended by itself ended as planned; all have if `decided`."""
    rows = engine.nodes()
    for node_id in engine.plan.behaviours:
        row = rows.get(node_id)
        status = row.status if row else NodeStatus.PENDING
        outcome = engine.expected.outcomes.get(node_id)
        if status in (NodeStatus.PENDING, NodeStatus.CANCELLED):
            assert not decided or outcome is None, f"{node_id} is {status}"
            continue
        assert row is not None
        assert outcome is not None, f"{node_id} is {status} and nothing led to it"
        assert status is outcome.status, f"{node_id} is {status}"
        if status is NodeStatus.COMPLETED:
            assert row.result_hash
            assert engine.payload(row) == outcome.result


def check_peace(engine: Engine) -> None:
    """What holds at the end of every run whose nodes were not given up at its deadline."""
    assert engine.violations == []
    check_one_end(engine)
    check_nodes(engine, decided=False)


def check_one_end(engine: Engine) -> None:
    """The execution has ended once, said so once, and left nothing alive behind."""
    execution = engine.execution()
    assert execution.terminal
    assert execution.due_at is None
    assert [str(event.type) for event in engine.terminal_events()] == [
        f"workflow.{execution.status}"
    ]
    assert all(row.terminal or row.status is NodeStatus.PENDING for row in engine.nodes().values())
    # A root that ended before the execution runs could not finish it.
    starts = [record.seq for record in engine.feed if record.new.get("exec_status") == "running"]
    started = min(starts, default=math.inf)
    assert all(record.seq > started for record in engine.feed if is_node(record))
    parked = {record.new.get("exec_parked") for record in engine.feed}
    assert Reason.SWEEP_FAILED.value not in parked
