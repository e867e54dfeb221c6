"""What every store promises. Each test runs on each of them."""

from collections.abc import Sequence
from typing import Final

import pytest

from piton.domain.errors import Bug, ErrorCode, Rejected
from piton.domain.rows import ExecutionRef, Value
from piton.ports import Applied, Refused, Store, Write
from piton.storage import keys
from piton.storage import operations as op
from piton.storage.algebra import (
    AddToSet,
    Append,
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
    Operation,
    Remove,
    Returns,
    Set,
    SetIfMissing,
    SizeBelow,
    SizeIs,
)
from piton.storage.views import ExecutionView, NodeView
from tests.support.store import LOG, NOW, creation, make_ref, sample_args, seed

REF: Final = make_ref()
KEY: Final = keys.node(REF, 5)
BORN: Final[dict[str, Value]] = {"node_id": "n", "expires_at": 1}


def probe(store: Store, operation: Operation, state: dict[str, Value]) -> bool:
    seed(store, Item.NODE, KEY, state)
    return isinstance(store.apply(operation, KEY, {}), Applied)


# --- Guards and changes --------------------------------------------------------------------

PAIR: Final = frozenset({3, 4})


@pytest.mark.parametrize(
    ("guard", "state", "holds"),
    [
        (Eq("a", Const("x")), {"a": "x"}, True),
        (Eq("a", Const("x")), {"a": "y"}, False),
        (Eq("a", Const("x")), {}, False),
        (Eq("a", Const(1)), {"a": 1}, True),
        (Eq("a", Const(1)), {"a": "1"}, False),
        (Eq("a", Const(1)), {"a": True}, False),
        (In("a", ("x", "y")), {"a": "y"}, True),
        (In("a", ("x", "y")), {"a": "z"}, False),
        (In("a", ("x", "y")), {}, False),
        (Exists("a"), {"a": ""}, True),
        (Exists("a"), {"b": 1}, False),
        (Exists("a"), {}, False),
        (NotExists("a"), {}, True),
        (NotExists("a"), {"b": 1}, True),
        (NotExists("a"), {"a": 0}, False),
        (AtMost("a", Const(5)), {"a": 4}, True),
        (AtMost("a", Const(5)), {"a": 5}, True),
        (AtMost("a", Const(5)), {"a": 6}, False),
        (AtMost("a", Const(5)), {"a": -6}, True),
        (AtMost("a", Const(5)), {"a": "4"}, False),
        (AtMost("a", Const(5)), {}, False),
        (SizeIs("a", Const(2)), {"a": PAIR}, True),
        (SizeIs("a", Const(1)), {"a": PAIR}, False),
        (SizeIs("a", Const(3)), {"a": PAIR}, False),
        (SizeIs("a", Const(0)), {}, False),
        (SizeBelow("a", Const(3)), {"a": PAIR}, True),
        (SizeBelow("a", Const(2)), {"a": PAIR}, False),
        (SizeBelow("a", Const(1)), {}, True),
        (SizeBelow("a", Const(1)), {"b": 1}, True),
    ],
)
def test_guards(store: Store, guard: Guard, state: dict[str, Value], holds: bool) -> None:  # noqa: FBT001
    operation = Operation("test.guard", Item.NODE, (guard,), (Set("mark", Const(1)),))
    assert probe(store, operation, state) is holds
    marked = store.get_raw(KEY, ["mark"]) or {}
    assert marked == ({"mark": 1} if holds else {})


def test_all_guards_must_hold(store: Store) -> None:
    guards = (Eq("a", Const(1)), Eq("b", Const(2)))
    operation = Operation("test.guards", Item.NODE, guards, (Set("mark", Const(1)),))
    assert not probe(store, operation, {"a": 1, "b": 3})
    seed(store, Item.NODE, KEY, {"b": 2})
    assert store.apply(operation, KEY, {}) == Applied()


@pytest.mark.parametrize(
    ("change", "state", "after"),
    [
        (Set("a", Const("x")), {}, {"a": "x"}),
        (Set("a", Const("x")), {"a": 1, "b": 2}, {"a": "x", "b": 2}),
        (SetIfMissing("a", Const("x")), {}, {"a": "x"}),
        (SetIfMissing("a", Const("x")), {"a": "y"}, {"a": "y"}),
        (Remove("a"), {"a": 1, "b": 2}, {"b": 2}),
        (Remove("a"), {"b": 2}, {"b": 2}),
        (Increment("a"), {}, {"a": 1}),
        (Increment("a"), {"a": 41}, {"a": 42}),
        (Increment("a", -2), {"a": 1}, {"a": -1}),
        (AddToSet("a", Const(3)), {}, {"a": frozenset({3})}),
        (AddToSet("a", Const(3)), {"a": PAIR}, {"a": PAIR}),
        (AddToSet("a", Const(12)), {"a": PAIR}, {"a": PAIR | {12}}),
        (Append("a", Const("x")), {}, {"a": ["x"]}),
        (Append("a", Const("x")), {"a": ["x", {"t": 1}]}, {"a": ["x", {"t": 1}, "x"]}),
    ],
)
def test_changes(
    store: Store, change: Change, state: dict[str, Value], after: dict[str, Value]
) -> None:
    operation = Operation("test.change", Item.NODE, (NotExists("never"),), (change,))
    assert probe(store, operation, state)
    assert (store.get_raw(KEY, ["a", "b"]) or {}) == after


def test_changes_see_the_item_as_it_was(store: Store) -> None:
    changes = (Set("phase", Const("new")), Increment("runs"), Append("entries", Const("entry")))
    operation = Operation("test.several", Item.NODE, (Eq("phase", Const("old")),), changes)
    assert probe(store, operation, {"phase": "old", "runs": 1})
    assert store.apply(operation, KEY, {}) == Refused()
    found = store.get_raw(KEY, ["phase", "runs", "entries"])
    assert found == {"phase": "new", "runs": 2, "entries": ["entry"]}


@pytest.mark.parametrize(
    "value",
    [0, -1, 10**37, "", "text", "\u00e9\U0001f600", True, b"\x00\xff", PAIR, [1, "a", [None]]],
)
def test_values_are_stored_as_they_are(store: Store, value: Value) -> None:
    seed(store, Item.NODE, KEY, {"a": value})
    found = store.get_raw(KEY, ["a"])
    assert found == {"a": value}
    assert type(found["a"]) is type(value)


@pytest.mark.parametrize(
    "change",
    [Increment("a"), AddToSet("a", Const(1))],
    ids=lambda change: type(change).__name__,
)
def test_a_change_of_another_kind_of_value_is_a_bug(store: Store, change: Change) -> None:
    seed(store, Item.NODE, KEY, {"a": "text"})
    operation = Operation("test.kind", Item.NODE, (NotExists("never"),), (change,))
    with pytest.raises(Bug):
        store.apply(operation, KEY, {})
    assert store.get_raw(KEY, ["a"]) == {"a": "text"}


# --- What a write answers ------------------------------------------------------------------


def test_a_repeated_resolution_returns_the_whole_set_again(store: Store) -> None:
    for source, resolved in ((1, {1}), (2, {1, 2}), (2, {1, 2})):
        outcome = store.apply(op.RESOLVE_TAKEN, KEY, {**BORN, "source": source})
        assert isinstance(outcome, Applied)
        assert outcome.returned["node_resolved"] == frozenset(resolved)
        assert "node_declined" not in outcome.returned
    outcome = store.apply(op.RESOLVE_DECLINED, KEY, {**BORN, "source": 3})
    assert isinstance(outcome, Applied)
    assert outcome.returned["node_resolved"] == frozenset({1, 2, 3})
    assert outcome.returned["node_declined"] == frozenset({3})


def test_only_what_was_asked_for_comes_back(store: Store) -> None:
    seed(store, Item.NODE, KEY, {"secret": "x"})
    change = (Set("a", Const(1)), Remove("b"))
    quiet = Operation("test.quiet", Item.NODE, (NotExists("never"),), change)
    loud = Operation(
        "test.loud", Item.NODE, (NotExists("never"),), change, returns=Returns.UPDATED_NEW
    )
    assert store.apply(quiet, KEY, {}) == Applied({})
    assert store.apply(loud, KEY, {}) == Applied({"a": 1})


def test_an_operation_goes_to_its_own_table_only(store: Store) -> None:
    with pytest.raises(Bug):
        store.apply(op.RESOLVE_TAKEN, keys.workflow("acme", "w", 1), {**BORN, "source": 1})


def test_arguments_must_be_the_declared_ones(store: Store) -> None:
    with pytest.raises(Bug, match="lacks"):
        store.apply(op.RESOLVE_TAKEN, KEY, BORN)
    with pytest.raises(Bug, match="does not take"):
        store.apply(op.RESOLVE_TAKEN, KEY, {**BORN, "source": 1, "spare": 1})


# --- Transactions --------------------------------------------------------------------------


def input_write(ref: ExecutionRef) -> Write:
    return Write(op.STORE_INPUT, keys.execution_input(ref), sample_args(op.STORE_INPUT))


def test_a_transaction_writes_all(store: Store) -> None:
    assert store.transact([creation(REF), input_write(REF)]) == Applied()
    assert store.get_execution(REF) is not None
    assert store.get_raw(keys.execution_input(REF), ["input_hash"]) is not None


def test_a_transaction_writes_nothing_when_one_guard_fails(store: Store) -> None:
    assert store.transact([input_write(REF)]) == Applied()
    assert store.transact([creation(REF), input_write(REF)]) == Refused()
    assert store.get_execution(REF) is None


def test_a_repeated_transaction_is_refused(store: Store) -> None:
    writes = [creation(REF), input_write(REF)]
    assert store.transact(writes) == Applied()
    assert store.transact(writes) == Refused()


def test_a_transaction_on_one_item_twice_is_a_bug(store: Store) -> None:
    with pytest.raises(Bug):
        store.transact([creation(REF), creation(REF)])
    assert store.get_execution(REF) is None


def test_an_operation_is_written_alone_or_in_a_transaction_but_not_both_ways(store: Store) -> None:
    write = creation(REF)
    with pytest.raises(Bug):
        store.apply(write.operation, write.key, write.args)
    with pytest.raises(Bug):
        store.transact([Write(op.RESOLVE_TAKEN, KEY, {**BORN, "source": 1})])
    assert store.query_nodes(REF) == []


# --- Reads of an execution -----------------------------------------------------------------


def resolve(store: Store, ref: ExecutionRef, ordinals: Sequence[int]) -> None:
    for ordinal in ordinals:
        args: dict[str, Value] = {"node_id": f"n{ordinal}", "expires_at": 1, "source": 0}
        assert isinstance(store.apply(op.RESOLVE_TAKEN, keys.node(ref, ordinal), args), Applied)


def test_what_is_missing_is_none(store: Store) -> None:
    assert store.get_execution(REF) is None
    assert store.get_nodes(REF, [1, 2]) == {}
    assert store.get_nodes(REF, [1]) == {}
    assert store.get_nodes(REF, []) == {}
    assert store.query_nodes(REF) == []
    assert store.get_raw(KEY, ["node_id"]) is None


def test_an_item_without_the_asked_attributes_is_not_missing(store: Store) -> None:
    seed(store, Item.NODE, KEY, {"a": 1})
    assert store.get_raw(KEY, ["b"]) == {}
    assert store.get_raw(KEY, ["pk", "sk", "a"]) == {"pk": KEY.pk, "sk": KEY.sk, "a": 1}


def test_views_show_what_they_name(store: Store) -> None:
    store.transact([creation(REF)])
    control = store.get_execution(REF)
    full = store.get_execution(REF, ExecutionView.FULL)
    assert control is not None
    assert full is not None
    assert (control.workflow_id, control.actor, control.log) == ("w", "", ())
    assert full.actor == "actor of execution.create"
    assert [entry.transition for entry in full.log] == ["N1"]


def test_node_views_show_what_they_name(store: Store) -> None:
    seed(store, Item.NODE, KEY, {"node_status": "running", "node_fence": 3})
    assert store.apply(op.COMPLETE, KEY, sample_args(op.COMPLETE)) == Applied()
    for view, has_result, has_log in (
        (NodeView.CONTROL, False, False),
        (NodeView.RESULT, True, False),
        (NodeView.FULL, True, True),
    ):
        [queried] = store.query_nodes(REF, view)
        assert store.get_nodes(REF, [5], view) == {5: queried}
        assert (queried.result is not None, bool(queried.log)) == (has_result, has_log)


def test_nodes_come_by_ordinal(store: Store) -> None:
    ordinals = [0, 3, 9, 10, 99, 100, 10_255]
    resolve(store, REF, [100, 9, 0, 10_255, 3, 99, 10])
    found = store.get_nodes(REF, [3, 10_255, 3, 4])
    assert sorted(found) == [3, 10_255]
    assert found[3].node_id == "n3"
    assert [row.ordinal for row in store.query_nodes(REF)] == ordinals
    assert [row.ordinal for row in store.query_nodes(REF, after=9)] == ordinals[3:]
    assert [row.ordinal for row in store.query_nodes(REF, after=8, limit=2)] == [9, 10]
    assert store.query_nodes(REF, after=10_255) == []


def test_many_nodes_are_read_at_once(store: Store) -> None:
    resolve(store, REF, range(0, 250, 2))
    found = store.get_nodes(REF, range(250))
    assert sorted(found) == list(range(0, 250, 2))


def test_a_query_of_nodes_sees_nothing_else(store: Store) -> None:
    longer, other = make_ref(execution_id="01K0X"), make_ref(tenant="acme-2")
    for ref in (REF, longer, other):
        store.transact([creation(ref), input_write(ref)])
        resolve(store, ref, [1])
    [row] = store.query_nodes(REF, NodeView.FULL)
    assert row.ordinal == 1


# --- Lists ---------------------------------------------------------------------------------


def create_many(
    store: Store, tenant: str, count: int, workflow_ids: Sequence[str] = ("w",)
) -> list[str]:
    """Create executions and return their ids, newest first."""
    refs = [make_ref(tenant, f"E{number:04d}") for number in range(count)]
    for number, ref in enumerate(refs):
        workflow_id = workflow_ids[number % len(workflow_ids)]
        position = f"{NOW + number:013d}#{ref.execution_id}"
        store.transact([creation(ref, workflow_id=workflow_id, position=position)])
    return [ref.execution_id for ref in reversed(refs)]


def walk(
    store: Store,
    tenant: str,
    limit: int,
    *,
    status: str | None = None,
    workflow_id: str | None = None,
) -> list[list[str]]:
    """Read a list page by page."""
    pages: list[list[str]] = []
    token: str | None = None
    while True:
        page = store.list_executions(
            tenant, status=status, workflow_id=workflow_id, limit=limit, token=token
        )
        pages.append(list(page.items))
        token = page.next_token
        if token is None:
            return pages


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8])
def test_executions_are_listed_newest_first_in_full_pages(store: Store, limit: int) -> None:
    ids = create_many(store, "acme", 7)
    create_many(store, "acme-2", 2)
    pages = walk(store, "acme", limit)
    assert [id_ for page in pages for id_ in page] == ids
    assert all(len(page) == limit for page in pages[:-1])
    assert pages[-1]


def test_lists_are_filtered(store: Store) -> None:
    ids = create_many(store, "acme", 9, workflow_ids=("v", "w", "x"))
    running = [id_ for id_ in ids if int(id_[1:]) % 2]
    for id_ in running:
        started = store.apply(op.START, keys.meta(make_ref("acme", id_)), {"now": NOW, "log": LOG})
        assert started == Applied()
    w = ids[1::3]
    assert walk(store, "acme", 2, workflow_id="w") == [w[:2], w[2:]]
    assert walk(store, "acme", 50, status="running") == [running]
    assert walk(store, "acme", 50, status="running", workflow_id="w") == [
        [id_ for id_ in running if id_ in w]
    ]
    assert walk(store, "acme", 50, workflow_id="nothing") == [[]]


def test_an_empty_list_is_one_empty_page(store: Store) -> None:
    assert walk(store, "nobody", 10) == [[]]


def test_page_tokens_belong_to_one_list(store: Store) -> None:
    create_many(store, "acme", 3)
    create_many(store, "acme-2", 3)
    page = store.list_executions("acme", status=None, workflow_id=None, limit=1, token=None)
    token = page.next_token
    assert token is not None
    flipped = token[:-2] + ("A" if token[-2] != "A" else "B") + token[-1]
    for tenant, status, bad in (
        ("acme-2", None, token),
        ("acme", "running", token),
        ("acme", None, flipped),
        ("acme", None, token[:-4]),
        ("acme", None, token + "AAAA"),
        ("acme", None, "not a token"),
        ("acme", None, ""),
        ("acme", None, "A" * 5000),
        ("acme", None, "\u00e9"),
    ):
        with pytest.raises(Rejected) as refused:
            store.list_executions(tenant, status=status, workflow_id=None, limit=1, token=bad)
        assert refused.value.code is ErrorCode.INVALID_INPUT


# --- The due list --------------------------------------------------------------------------


def due_ids(store: Store, now: int, limit: int = 100) -> list[str]:
    return [entry.ref.execution_id for entry in store.due(now, limit)]


def test_the_longest_overdue_come_first(store: Store) -> None:
    refs = [make_ref(f"tenant-{number % 3}", f"E{number:02d}") for number in range(20)]
    assert len({keys.due_shard(ref) for ref in refs}) > 1
    order = sorted(range(20), key=lambda number: number * 7 % 20)
    for number, ref in enumerate(refs):
        store.transact([creation(ref, due_at=NOW + number * 7 % 20)])
    assert due_ids(store, NOW + 100) == [refs[number].execution_id for number in order]
    assert due_ids(store, NOW + 4) == [refs[number].execution_id for number in order[:5]]
    assert due_ids(store, NOW + 100, limit=3) == [refs[n].execution_id for n in order[:3]]
    assert due_ids(store, NOW - 1) == []
    [first] = store.due(NOW, 100)
    assert (first.ref, first.due_at) == (refs[0], NOW)


def test_deferred_and_retired_executions_leave_the_due_list(store: Store) -> None:
    deferred, retired = make_ref(execution_id="A"), make_ref(execution_id="B")
    store.transact([creation(deferred)])
    store.transact([creation(retired)])
    defer: dict[str, Value] = {"seen_due_at": NOW, "due_at": NOW + 10}
    assert store.apply(op.DEFER, keys.meta(deferred), defer) == Applied()
    assert store.apply(op.DEFER, keys.meta(deferred), defer) == Refused()
    end: dict[str, Value] = {"now": NOW, "due_at": NOW, "log": LOG, "reason": "R"}
    assert store.apply(op.CANCEL_EXECUTION, keys.meta(retired), end) == Applied()
    assert store.apply(op.RETIRE, keys.meta(retired), {"seen_due_at": NOW}) == Applied()
    assert due_ids(store, NOW) == []
    assert due_ids(store, NOW + 10) == ["A"]
