"""The row is the outbox: what is stored is sent, and what is not stored is not.

The other arms write twice: the row, and before or after it the message, by the writer's own hand.
A process that dies between the two loses the event, or announces what never happened.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import pytest

from piton.domain.messages import Dispatch, Event, Message
from piton.domain.status import EventType, ExecutionStatus, NodeStatus
from piton.ports import Outcome
from piton.services.relay import Change, messages_of
from piton.storage import evaluate
from piton.storage.algebra import Args, Operation
from piton.storage.keys import Key
from piton.storage.views import NodeView
from tests.support.actors import Fault, SteppedStore
from tests.support.chaos import settle
from tests.support.engine import Engine
from tests.support.plans import Behaviour, single

CRASH_POINTS = [
    (step, fault) for step in range(12) for fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER)
]


class Arm(Enum):
    """Who sends what a write lets out."""

    OUTBOX = "the reader of the feed"
    STORE_THEN_PUBLISH = "the writer, after the write"
    PUBLISH_THEN_STORE = "the writer, before the write"


class DualWriter(SteppedStore):
    """A store whose writer publishes by its own hand. It may die between the two."""

    def __init__(self, engine: Engine, arm: Arm, publish: Callable[[Message], None]) -> None:
        super().__init__(engine.rows, engine.stage)
        self._engine = engine
        self._arm = arm
        self._publish = publish

    def apply(self, operation: Operation, key: Key, args: Args) -> Outcome:
        if self._arm is Arm.PUBLISH_THEN_STORE:
            self._publish_all(operation, key, args)
            return super().apply(operation, key, args)
        messages = self._let_out(operation, key, args)
        outcome = super().apply(operation, key, args)
        self._engine.stage.turn()
        for message in messages:
            self._publish(message)
        return outcome

    def _publish_all(self, operation: Operation, key: Key, args: Args) -> None:
        for message in self._let_out(operation, key, args):
            self._publish(message)

    def _let_out(self, operation: Operation, key: Key, args: Args) -> list[Message]:
        before = dict(self._engine.rows.get_raw(key, NodeView.FULL.value) or {})
        after = evaluate.apply(operation, before, args)
        return messages_of(Change(before, after)) if after is not None else []


def die_at(engine: Engine, arm: Arm, step: int, fault: Fault) -> list[Message]:
    """Let a worker run one node and die at a step. Returns what was sent since it began."""
    [parcel] = settle(engine, held=lambda message: isinstance(message, Dispatch))
    published: list[Message] = []
    if arm is not Arm.OUTBOX:
        engine.work._store = DualWriter(engine, arm, published.append)
    worker = engine.deliver(parcel)
    engine.flight.clear()
    for turn in range(100):
        if not worker.ended:
            engine.stage.step(worker, fault if turn == step else Fault.NONE)
    if arm is Arm.OUTBOX:
        before = len(engine.sent)
        engine.collect()
        published = engine.sent[before:]
    return published


def announces_completion(messages: list[Message]) -> bool:
    return any(isinstance(m, Event) and m.type is EventType.NODE_COMPLETED for m in messages)


def outcomes(arm: Arm) -> set[tuple[bool, bool]]:
    """For every moment at which a worker can die: is the completion stored, is it announced?"""
    found = set()
    for step, fault in CRASH_POINTS:
        with Engine(single(Behaviour())) as engine:
            published = die_at(engine, arm, step, fault)
            stored = engine.nodes()["n0"].status is NodeStatus.COMPLETED
            found.add((stored, announces_completion(published)))
    return found


def test_the_outbox_announces_exactly_what_is_stored() -> None:
    assert outcomes(Arm.OUTBOX) == {(False, False), (True, True)}


def test_storing_and_then_publishing_loses_the_event() -> None:
    assert (True, False) in outcomes(Arm.STORE_THEN_PUBLISH)


def test_publishing_and_then_storing_announces_what_never_happened() -> None:
    assert (False, True) in outcomes(Arm.PUBLISH_THEN_STORE)


@pytest.mark.parametrize(
    ("arm", "status"),
    [
        (Arm.OUTBOX, ExecutionStatus.COMPLETED),
        (Arm.STORE_THEN_PUBLISH, ExecutionStatus.RUNNING),
    ],
)
def test_only_the_outbox_gets_an_execution_on_without_a_watchdog(
    arm: Arm, status: ExecutionStatus
) -> None:
    stuck = set()
    for step, fault in CRASH_POINTS:
        with Engine(single(Behaviour())) as engine:
            published = die_at(engine, arm, step, fault)
            if engine.nodes()["n0"].status is not NodeStatus.COMPLETED:
                continue
            engine.collect()
            engine.flight.clear()
            for message in published:
                engine.post(message)
            settle(engine, held=lambda _: False)
            stuck.add(engine.execution().status)
    assert stuck == {status, ExecutionStatus.COMPLETED}
