"""Any operation over any item does on every store what its declaration means."""

from collections.abc import Callable, Mapping
from itertools import count
from typing import Final, TypeVar

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from piton.domain.rows import Value
from piton.ports import Applied, Refused, Store
from piton.storage import evaluate, keys
from piton.storage.algebra import (
    AddToSet,
    Append,
    Arg,
    AtMost,
    Change,
    Const,
    Eq,
    Exists,
    Guard,
    In,
    Increment,
    Item,
    NotExists,
    Operand,
    Operation,
    Remove,
    Returns,
    Set,
    SetIfMissing,
    SizeBelow,
    SizeIs,
)
from tests.support.store import make_ref, seed

Part = TypeVar("Part")

# The first letter is the kind of value, so that every guard and change meets its own kind.
NAMES: Final = ("n1", "n2", "s1", "s2", "r1", "r2", "l1", "l2")
NUMBERS: Final = st.integers(-3, 3)
TEXTS: Final = st.sampled_from(["", "a", "b"])
KINDS: Final[Mapping[str, st.SearchStrategy[Value]]] = {
    "n": NUMBERS,
    "s": TEXTS,
    "r": st.frozensets(NUMBERS, min_size=1, max_size=3),
    "l": st.lists(NUMBERS | TEXTS, max_size=2),
}
VALUES: Final = {name: KINDS[name[0]] for name in NAMES}
STATES: Final = st.fixed_dictionaries({}, optional=dict(VALUES))
ARGUMENTS: Final = st.fixed_dictionaries({f"arg_{name}": VALUES[name] for name in NAMES})


def operands(name: str) -> st.SearchStrategy[Operand]:
    argument: st.SearchStrategy[Operand] = st.just(Arg(f"arg_{name}"))
    return argument if name[0] == "l" else argument | st.builds(Const, VALUES[name])


def guards(name: str) -> st.SearchStrategy[Guard]:
    any_kind = st.one_of(
        st.just(Exists(name)),
        st.just(NotExists(name)),
        st.builds(Eq, st.just(name), operands(name)),
    )
    sizes = st.builds(Const, st.integers(1, 4))
    own_kind: Mapping[str, st.SearchStrategy[Guard]] = {
        "n": st.builds(AtMost, st.just(name), operands(name)),
        "s": st.builds(In, st.just(name), st.tuples(TEXTS, TEXTS)),
        "r": st.builds(SizeIs, st.just(name), sizes) | st.builds(SizeBelow, st.just(name), sizes),
        "l": st.builds(SizeIs, st.just(name), sizes),
    }
    return any_kind | own_kind[name[0]]


def changes(name: str) -> st.SearchStrategy[Change]:
    any_kind = st.one_of(
        st.just(Remove(name)),
        st.builds(Set, st.just(name), operands(name)),
        st.builds(SetIfMissing, st.just(name), operands(name)),
    )
    own_kind: Mapping[str, st.SearchStrategy[Change]] = {
        "n": st.builds(Increment, st.just(name), NUMBERS),
        "s": st.builds(Set, st.just(name), operands(name)),
        "r": st.builds(AddToSet, st.just(name), st.builds(Const, NUMBERS)),
        "l": st.builds(Append, st.just(name), st.builds(Const, TEXTS)),
    }
    return any_kind | own_kind[name[0]]


def some(
    parts: Callable[[str], st.SearchStrategy[Part]], most: int
) -> st.SearchStrategy[tuple[Part, ...]]:
    """Return parts for up to `most` different attributes."""
    names = st.lists(st.sampled_from(NAMES), min_size=1, max_size=most, unique=True)
    return names.flatmap(lambda chosen: st.tuples(*map(parts, chosen)))


OPERATIONS: Final = st.builds(
    Operation,
    st.just("test.any"),
    st.just(Item.NODE),
    some(guards, 2),
    some(changes, 5),
    returns=st.sampled_from(Returns),
)
_numbers = count()


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(operation=OPERATIONS, state=STATES, arguments=ARGUMENTS)
def test_any_operation_means_what_it_declares(
    store: Store,
    operation: Operation,
    state: Mapping[str, Value],
    arguments: Mapping[str, Value],
) -> None:
    key = keys.node(make_ref(execution_id=f"E{next(_numbers)}"), 0)
    seed(store, Item.NODE, key, state)
    parts = (*operation.guard, *operation.changes)
    taken = {
        part.operand.name
        for part in parts
        if hasattr(part, "operand") and isinstance(part.operand, Arg)
    }
    args = {name: value for name, value in arguments.items() if name in taken}

    for _ in range(2):
        expected = evaluate.apply(operation, state, args)
        outcome = store.apply(operation, key, args)
        if expected is None:
            assert outcome == Refused()
        else:
            assert outcome == Applied(evaluate.returned(operation, expected, args))
            state = expected
        assert (store.get_raw(key, NAMES) or {}) == state
