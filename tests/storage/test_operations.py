"""Every declared operation, carried out by each store: its guard, its changes, its answer."""

from collections.abc import Mapping

import pytest

from piton.domain.rows import ExecutionRow, NodeRow, Value
from piton.ports import Applied, Refused, Store, Write
from piton.storage import evaluate
from piton.storage.algebra import Args, Item, Operation
from piton.storage.keys import Key
from piton.storage.operations import OPERATIONS
from tests.support.store import (
    Given,
    creation,
    key_of,
    make_ref,
    prefilled,
    sample_args,
    satisfying,
    seed,
    violations,
)


def carry_out(store: Store, operation: Operation, key: Key, args: Args) -> Applied | Refused:
    if operation.transactional:
        return store.transact([Write(operation, key, args)])
    return store.apply(operation, key, args)


def stored(store: Store, operation: Operation, key: Key) -> dict[str, Value] | None:
    names = operation.attributes | set(prefilled(operation))
    found = store.get_raw(key, sorted(names))
    return None if found is None else dict(found)


@pytest.mark.parametrize("given", Given)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_case_43_every_operation_applies(store: Store, operation: Operation, given: Given) -> None:
    key, args = key_of(operation.item), sample_args(operation, given)
    before = {**prefilled(operation), **satisfying(operation.guard, args)}
    seed(store, operation.item, key, before)

    outcome = carry_out(store, operation, key, args)

    after = evaluate.apply(operation, before, args)
    assert after is not None
    assert outcome == Applied(evaluate.returned(operation, after, args))
    assert stored(store, operation, key) == after


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_case_43_every_operation_is_refused(store: Store, operation: Operation) -> None:
    args = sample_args(operation)
    tried = 0
    for number, violation in enumerate(violations(operation.guard, args)):
        key = key_of(operation.item, make_ref(execution_id=f"e{number}"))
        if operation.item is Item.WORKFLOW or operation.item is Item.IDEMPOTENCY:
            key = key_of(operation.item, make_ref(tenant=f"tenant-{number}"))
        seed(store, operation.item, key, violation.state)
        before: Mapping[str, Value] | None = stored(store, operation, key)

        outcome = carry_out(store, operation, key, args)

        assert outcome == Refused(), f"{violation} let {operation.name} through"
        assert stored(store, operation, key) == before
        tried += 1
    assert tried >= len(operation.guard)


@pytest.mark.parametrize(
    "operation",
    [operation for operation in OPERATIONS if operation.item is Item.NODE],
    ids=lambda operation: operation.name,
)
def test_what_an_operation_writes_reads_back_as_a_row(store: Store, operation: Operation) -> None:
    ref = make_ref()
    key, args = key_of(operation.item, ref), sample_args(operation)
    seed(store, operation.item, key, satisfying(operation.guard, args))
    carry_out(store, operation, key, args)
    [row] = store.query_nodes(ref)
    assert isinstance(row, NodeRow)
    assert row.ordinal == 5


def test_a_created_execution_reads_back_as_a_row(store: Store) -> None:
    ref = make_ref()
    assert store.transact([creation(ref)]) == Applied()
    row = store.get_execution(ref)
    assert isinstance(row, ExecutionRow)
    assert row.ref == ref
