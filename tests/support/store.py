"""Items, arguments and states from which the declared operations are tried out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from piton.domain.names import Tenant
from piton.domain.retry import RetryPolicy
from piton.domain.rows import AttemptPolicy, ExecutionRef, LogEntry, Value
from piton.ports import Applied, Store, Write
from piton.storage import keys
from piton.storage import operations as op
from piton.storage.algebra import (
    Arg,
    Args,
    AtMost,
    Eq,
    Exists,
    Guard,
    In,
    Item,
    NotExists,
    Operation,
    Remove,
    Set,
    SizeBelow,
    SizeIs,
    value_of,
)
from piton.storage.keys import Key

NOW: Final = 1_760_000_000_000
LOG: Final = LogEntry("N1", NOW, fence=1).to_value()
POLICY: Final = AttemptPolicy(60_000, RetryPolicy()).to_value()

_SAMPLES: Final[Mapping[str, Value]] = {
    "log": LOG,
    "policy": POLICY,
    "source": 7,
    "in_degree": 2,
    "fence": 3,
    "percent": 40,
    "seen_sends": 1,
    "workflow_version": 1,
    "nodes": 12,
    "now": NOW,
    "not_before": NOW + 500,
    "lease_until": NOW + 30_000,
    "seen_lease": NOW - 1,
    "due_at": NOW + 60_000,
    "seen_due_at": NOW - 2,
    "ends_by": NOW + 90_000,
    "deadline": NOW + 80_000,
    "expires_at": NOW // 1000,
}
"""Arguments that are not text."""


def make_ref(tenant: str = "acme", execution_id: str = "01K0") -> ExecutionRef:
    return ExecutionRef(tenant, execution_id)


def key_of(item: Item, ref: ExecutionRef | None = None) -> Key:
    """Return the key of some item of this kind."""
    ref = ref or make_ref()
    match item:
        case Item.META:
            return keys.meta(ref)
        case Item.INPUT:
            return keys.execution_input(ref)
        case Item.NODE:
            return keys.node(ref, 5)
        case Item.IDEMPOTENCY:
            return keys.idempotency(Tenant(ref.tenant), "invoice-1", 1)
        case Item.WORKFLOW:
            return keys.workflow(ref.tenant, "w", 1)


class Given(Enum):
    """Which arguments a call has."""

    ALL = "all arguments"
    NEEDED = "needed arguments"


def sample_args(operation: Operation, given: Given = Given.ALL) -> Args:
    """Return fitting arguments, with or without the optional ones."""
    known = {
        part.operand
        for part in (*operation.guard, *operation.changes)
        if hasattr(part, "operand") and isinstance(part.operand, Arg)
    }
    names = {arg.name for arg in known if given is Given.ALL or not arg.optional}
    return {name: _sample(operation, name) for name in names}


def _sample(operation: Operation, name: str) -> Value:
    if operation is op.REGISTER_WORKFLOW and name == "body":
        return b"\x00\x01compressed\xff"
    return _SAMPLES.get(name, f"{name} of {operation.name}")


def seed(store: Store, item: Item, key: Key, attributes: Mapping[str, Value]) -> None:
    """Bring a new item into a state."""
    if attributes:
        changes = tuple(Set(name, Arg(name)) for name in attributes)
        planted = Operation("test.seed", item, (NotExists("never"),), changes)
        assert isinstance(store.apply(planted, key, attributes), Applied)


def satisfying(guards: tuple[Guard, ...], args: Args) -> dict[str, Value]:
    """Return attributes under which every guard holds, with all that may be missing missing."""
    state: dict[str, Value] = {}
    for guard in guards:
        match guard:
            case Eq(name, operand) | AtMost(name, operand):
                state[name] = value_of(operand, args)
            case In(name, values):
                state[name] = values[-1]
            case Exists(name):
                state[name] = "there"
            case SizeIs(name, operand):
                state[name] = frozenset(range(_number(value_of(operand, args))))
            case NotExists() | SizeBelow():
                continue
    return state


@dataclass(frozen=True)
class Violation:
    """One guard and a state that fails it and no other one."""

    guard: Guard
    state: Mapping[str, Value]


def violations(guards: tuple[Guard, ...], args: Args) -> Iterator[Violation]:
    """Return, for each guard, every kind of state that it has to refuse."""
    holds = satisfying(guards, args)
    for guard in guards:
        for wrong in _refused_values(guard, args):
            yield Violation(guard, {**holds, guard.attribute: wrong})
        if not isinstance(guard, NotExists | SizeBelow):
            rest = {name: value for name, value in holds.items() if name != guard.attribute}
            yield Violation(guard, rest)


def _refused_values(guard: Guard, args: Args) -> list[Value]:
    match guard:
        case Eq(_, operand):
            value = value_of(operand, args)
            return [value + 1, value - 1] if isinstance(value, int) else ["another"]
        case In():
            return ["another"]
        case NotExists():
            return ["there"]
        case AtMost(_, operand):
            return [_number(value_of(operand, args)) + 1]
        case SizeIs(_, operand):
            size = _number(value_of(operand, args))
            return [frozenset(range(size - 1)), frozenset(range(size + 1))]
        case SizeBelow(_, operand):
            return [frozenset(range(_number(value_of(operand, args))))]
        case Exists():
            return []


def _number(value: Value) -> int:
    assert isinstance(value, int)
    return value


def prefilled(operation: Operation) -> dict[str, Value]:
    """Return what the changes would find: a value to remove, a list to append to, a number."""
    removed = [change.attribute for change in operation.changes if isinstance(change, Remove)]
    return dict.fromkeys(removed, "to be removed")


def creation(
    ref: ExecutionRef, *, due_at: int = NOW, workflow_id: str = "w", position: str | None = None
) -> Write:
    """Return the write that creates an execution's META row."""
    args = dict(sample_args(op.CREATE_EXECUTION, Given.NEEDED))
    args |= {
        "workflow_id": workflow_id,
        "root_id": ref.execution_id,
        "due_shard": keys.due_shard(ref),
        "due_at": due_at,
        "tenant_pk": keys.tenant_partition(ref.tenant),
        "tenant_sk": position or ref.execution_id,
    }
    return Write(op.CREATE_EXECUTION, keys.meta(ref), args)
