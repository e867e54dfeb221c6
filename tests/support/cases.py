"""Steps that the tests of the public failure cases share."""

from __future__ import annotations

import json
from collections.abc import Callable

from piton.adapters.publisher import SOURCE
from piton.contracts import ExecutionEvent, NodeEvent, parse_event
from piton.domain.compile import Need, NodeSpec
from piton.domain.messages import Dispatch, Event, Message
from piton.domain.retry import RetryPolicy
from piton.domain.rows import ExecutionRef, NodeRow, Value
from piton.domain.status import EventType
from piton.ports import Applied
from piton.services.relay import Change, messages_of
from piton.storage.algebra import Arg, Item, NotExists, Operation, Set
from piton.storage.keys import Key
from piton.storage.sqlite import SqliteStore
from tests.support.actors import Actor, Fault
from tests.support.chaos import check_history
from tests.support.engine import Engine, Parcel
from tests.support.plans import Behaviour, Plan

AT_ONCE = RetryPolicy(100, 0.0, 0.0)


def chain(*behaviours: Behaviour, retry: RetryPolicy = AT_ONCE) -> Plan:
    """Nodes `n0`, `n1` ... one after another."""
    specs = [
        NodeSpec(f"n{i}", task="body", retry=retry, needs=(Need(f"n{i - 1}"),) if i else ())
        for i in range(len(behaviours))
    ]
    return Plan(tuple(specs), {f"n{i}": behaviour for i, behaviour in enumerate(behaviours)})


def is_dispatch(message: Message) -> bool:
    """Tell dispatches from events."""
    return isinstance(message, Dispatch)


def is_event(*types: EventType) -> Callable[[Message], bool]:
    """Return what tells events of these types."""
    return lambda message: isinstance(message, Event) and message.type in types


def go(engine: Engine, actor: Actor, steps: int = 1000, fault: Fault = Fault.NONE) -> None:
    """Let one actor go on for some store calls, each with this fault, or to its end."""
    for _ in range(steps):
        if actor.ended:
            return
        engine.stage.step(actor, fault)
        check_history(engine.collect())


def go_with_fault(engine: Engine, actor: Actor, step: int, fault: Fault) -> bool:
    """Let an actor go to its end with a fault at one step. False when it ended before."""
    go(engine, actor, step)
    if actor.ended:
        return False
    go(engine, actor, 1, fault)
    go(engine, actor)
    return True


def about_to_record(engine: Engine, worker: Actor) -> None:
    """Let a worker run its body and stand still right before it records the outcome."""
    before = len(engine.bodies_run)
    while len(engine.bodies_run) == before:
        go(engine, worker, 1)
    go(engine, worker, 1)
    assert not worker.ended


def sweep_when_due(engine: Engine) -> None:
    """Turn the clock to the moment at which the execution is due and sweep it."""
    due_at = engine.execution().due_at
    assert due_at is not None
    engine.clock.now = max(engine.clock.now, due_at)
    go(engine, engine.start_sweep())


def dispatches(engine: Engine, node_id: str) -> list[Dispatch]:
    """Every dispatch of a node that was ever sent."""
    return [m for m in engine.sent if isinstance(m, Dispatch) and m.node_id == node_id]


def parcels(engine: Engine, held: Callable[[Message], bool]) -> list[Parcel]:
    """What is on its way, of one kind."""
    return [parcel for parcel in engine.flight if held(parcel.message)]


def transitions(engine: Engine, node_id: str) -> list[str]:
    """Every transition of a node that was ever committed, in order."""
    found: list[str] = []
    for record in engine.feed:
        if record.new.get("node_id") == node_id:
            old = NodeRow.from_attributes(record.old).log if record.old else ()
            new = NodeRow.from_attributes(record.new).log
            found += [entry.transition for entry in new[len(old) :]]
    return found


def runs_of(engine: Engine, node_id: str) -> int:
    """How often the body of a node has started."""
    return sum(run == node_id for run, _ in engine.bodies_run)


def let_out(engine: Engine) -> list[Message]:
    """What the whole change stream lets out, read again from its beginning."""
    return [
        message for record in engine.feed for message in messages_of(Change(record.old, record.new))
    ]


def set_attributes(store: SqliteStore, key: Key, item: Item, **values: Value) -> None:
    """Spoil a stored row, which no operation of the engine does."""
    changes = tuple(Set(name, Arg(name)) for name in values)
    spoil = Operation("test.spoil", item, (NotExists("never"),), changes)
    assert isinstance(store.apply(spoil, key, values), Applied)


def envelope_of(event: Event, ref: ExecutionRef) -> NodeEvent | ExecutionEvent:
    """An event as the step runner reads it, about another execution if `ref` names one."""
    detail = {**event.detail, "tenant": ref.tenant, "execution_id": ref.execution_id}
    return parse_event(
        json.dumps({"source": SOURCE, "detail-type": event.type.value, "detail": detail})
    )
