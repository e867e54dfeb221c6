"""The meaning of the write language, guard by guard and change by change."""

from __future__ import annotations

import copy

import pytest

from piton.domain.errors import Bug
from piton.domain.rows import Attributes, Value
from piton.storage import evaluate
from piton.storage.algebra import (
    AddToSet,
    Append,
    Arg,
    Args,
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

ALWAYS = NotExists("never_there")


def holds(guard: Guard, item: Attributes | None, args: Args | None = None) -> bool:
    operation = Operation("probe", Item.NODE, (guard,), ())
    return evaluate.apply(operation, item, args or {}) is not None


def written(
    item: Attributes | None, *changes: Change, args: Args | None = None
) -> dict[str, Value] | None:
    return evaluate.apply(Operation("probe", Item.NODE, (ALWAYS,), changes), item, args or {})


@pytest.mark.parametrize(
    ("guard", "item", "expected"),
    [
        (Exists("a"), {"a": ""}, True),
        (Exists("a"), {}, False),
        (Exists("a"), None, False),
        (NotExists("a"), {"b": 1}, True),
        (NotExists("a"), None, True),
        (NotExists("a"), {"a": 0}, False),
        (Eq("a", Const("x")), {"a": "x"}, True),
        (Eq("a", Const("x")), {"a": "y"}, False),
        (Eq("a", Const("x")), {}, False),
        (Eq("a", Const(1)), {"a": "1"}, False),
        (Eq("a", Const(1)), {"a": True}, False),
        (Eq("a", Const([1])), {"a": [True]}, False),
        (Eq("a", Const({"k": [1, "x"]})), {"a": {"k": [1, "x"]}}, True),
        (Eq("a", Const({"k": 1})), {"a": {"k": 1, "l": 2}}, False),
        (Eq("a", Const(frozenset({1, 2}))), {"a": frozenset({2, 1})}, True),
        (In("a", ("x", "y")), {"a": "y"}, True),
        (In("a", ("x", "y")), {"a": "z"}, False),
        (In("a", ("x", "y")), {}, False),
        (AtMost("a", Const(5)), {"a": 5}, True),
        (AtMost("a", Const(5)), {"a": 6}, False),
        (AtMost("a", Const(5)), {}, False),
        (AtMost("a", Const(5)), {"a": "4"}, False),
        (SizeIs("a", Const(2)), {"a": frozenset({1, 2})}, True),
        (SizeIs("a", Const(2)), {"a": frozenset({1})}, False),
        (SizeIs("a", Const(0)), {}, False),
        (SizeIs("a", Const(1)), {"a": ["x"]}, True),
        (SizeBelow("a", Const(1)), {}, True),
        (SizeBelow("a", Const(1)), None, True),
        (SizeBelow("a", Const(2)), {"a": frozenset({1})}, True),
        (SizeBelow("a", Const(2)), {"a": frozenset({1, 2})}, False),
        (SizeBelow("a", Const(0)), {}, True),
    ],
    ids=repr,
)
def test_guards(guard: Guard, item: Attributes | None, expected: bool) -> None:  # noqa: FBT001
    assert holds(guard, item) is expected


def test_every_guard_must_hold() -> None:
    operation = Operation("probe", Item.NODE, (Exists("a"), Exists("b")), (Set("c", Const(1)),))
    assert evaluate.apply(operation, {"a": 1}, {}) is None
    assert evaluate.apply(operation, {"a": 1, "b": 2}, {}) == {"a": 1, "b": 2, "c": 1}


@pytest.mark.parametrize(
    ("change", "item", "expected"),
    [
        (Set("a", Const(1)), None, {"a": 1}),
        (Set("a", Const(1)), {"a": 2, "b": 3}, {"a": 1, "b": 3}),
        (SetIfMissing("a", Const(1)), {}, {"a": 1}),
        (SetIfMissing("a", Const(1)), {"a": 2}, {"a": 2}),
        (Remove("a"), {"a": 1}, {}),
        (Remove("a"), None, {}),
        (Increment("a"), None, {"a": 1}),
        (Increment("a", 5), {"a": 2}, {"a": 7}),
        (AddToSet("a", Const(3)), None, {"a": frozenset({3})}),
        (AddToSet("a", Const(3)), {"a": frozenset({1})}, {"a": frozenset({1, 3})}),
        (AddToSet("a", Const(3)), {"a": frozenset({3})}, {"a": frozenset({3})}),
        (Append("a", Const("x")), None, {"a": ["x"]}),
        (Append("a", Const("x")), {"a": ["w"]}, {"a": ["w", "x"]}),
    ],
    ids=repr,
)
def test_changes(change: Change, item: Attributes | None, expected: Attributes) -> None:
    before = copy.deepcopy(item)
    assert written(item, change) == expected
    assert item == before


@pytest.mark.parametrize(
    ("change", "item"),
    [
        (Increment("a"), {"a": "1"}),
        (Increment("a"), {"a": True}),
        (AddToSet("a", Const(1)), {"a": [1]}),
        (AddToSet("a", Const("1")), {}),
        (Append("a", Const(1)), {"a": "text"}),
        (Set("a", Const(frozenset())), {}),
    ],
    ids=repr,
)
def test_a_change_of_another_type_is_a_bug(change: Change, item: Attributes) -> None:
    with pytest.raises(Bug):
        written(item, change)


@pytest.mark.parametrize("guard", [SizeIs("a", Const(1)), SizeBelow("a", Const(1))], ids=repr)
def test_only_what_has_elements_has_a_size(guard: Guard) -> None:
    with pytest.raises(Bug):
        holds(guard, {"a": 1})


def test_a_left_out_optional_argument_drops_its_change() -> None:
    changes = (Set("a", Arg("a", optional=True)), Set("b", Arg("b")))
    assert written({}, *changes, args={"b": 1}) == {"b": 1}
    assert written({}, *changes, args={"b": 1, "a": None}) == {"b": 1}
    assert written({}, *changes, args={"b": 1, "a": 2}) == {"a": 2, "b": 1}


@pytest.mark.parametrize("args", [{}, {"b": None}, {"b": 1, "c": 2}], ids=repr)
def test_arguments_other_than_the_declared_ones_are_a_bug(args: Args) -> None:
    with pytest.raises(Bug, match="probe"):
        written({}, Set("b", Arg("b")), args=args)


def test_an_operation_without_a_guard_cannot_be_declared() -> None:
    with pytest.raises(Bug, match="guard"):
        Operation("probe", Item.NODE, (), (Set("a", Const(1)),))


def test_returned_attributes_are_those_named_by_the_changes_as_they_are_now() -> None:
    changes = (
        Set("a", Arg("a", optional=True)),
        SetIfMissing("kept", Const("new")),
        AddToSet("members", Const(1)),
        Remove("gone"),
    )
    item: Attributes = {"kept": "old", "members": frozenset({1}), "gone": 1, "other": 1}
    for returns, expected in (
        (Returns.UPDATED_NEW, {"kept": "old", "members": frozenset({1})}),
        (Returns.NONE, {}),
    ):
        operation = Operation("probe", Item.NODE, (ALWAYS,), changes, returns=returns)
        after = evaluate.apply(operation, item, {})
        assert after is not None
        assert evaluate.returned(operation, after, {}) == expected
