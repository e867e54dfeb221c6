"""What DynamoDB is sent: texts that depend on the operation alone, and no spare value."""

import re

import pytest

from piton.domain.errors import Bug
from piton.domain.rows import Value
from piton.storage.algebra import (
    AddToSet,
    Append,
    Arg,
    AtMost,
    Const,
    Eq,
    Exists,
    In,
    Increment,
    Item,
    NotExists,
    Operation,
    Remove,
    Set,
    SetIfMissing,
    SizeBelow,
    SizeIs,
)
from piton.storage.expressions import expressions
from piton.storage.operations import COMPLETE, OPERATIONS
from tests.support.store import Given, sample_args

EVERYTHING = Operation(
    "everything",
    Item.NODE,
    (
        Eq("a", Arg("x")),
        In("b", ("one", "two")),
        Exists("c"),
        NotExists("d"),
        AtMost("e", Arg("n")),
        SizeIs("f", Arg("n")),
        SizeBelow("g", Const(9)),
    ),
    (
        Set("h", Arg("x")),
        SetIfMissing("i", Const("once")),
        Remove("j"),
        Increment("k", 2),
        AddToSet("l", Arg("n")),
        Append("m", Arg("x")),
    ),
)


def test_every_part_of_the_language_has_its_expression() -> None:
    texts = expressions(EVERYTHING, {"x": "X", "n": 4})
    assert texts.condition == (
        "a = :a0 AND b IN (:c0, :c1) AND attribute_exists(c) AND attribute_not_exists(d)"
        " AND e <= :a1 AND size(f) = :a1 AND (attribute_not_exists(g) OR size(g) < :c2)"
    )
    assert texts.update == (
        "SET h = :a0, i = if_not_exists(i, :c3), m = list_append(if_not_exists(m, :c5), :a3)"
        " REMOVE j ADD k :c4, l :a2"
    )
    assert texts.values({"x": "X", "n": 4}) == {
        ":a0": {"S": "X"},
        ":a1": {"N": "4"},
        ":a2": {"NS": ["4"]},
        ":a3": {"L": [{"S": "X"}]},
        ":c0": {"S": "one"},
        ":c1": {"S": "two"},
        ":c2": {"N": "9"},
        ":c3": {"S": "once"},
        ":c4": {"N": "2"},
        ":c5": {"L": []},
    }


@pytest.mark.parametrize("given", Given)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_case_43_no_placeholder_is_spare_or_missing(operation: Operation, given: Given) -> None:
    args = sample_args(operation, given)
    texts = expressions(operation, args)
    named = re.findall(r":\w+", f"{texts.condition} {texts.update}")
    assert set(named) == set(texts.values(args))


def test_texts_are_compiled_once_and_do_not_hold_values() -> None:
    first = sample_args(COMPLETE)
    other = {**first, "result": "another result", "fence": 99}
    assert expressions(COMPLETE, first) is expressions(COMPLETE, other)
    assert "another result" not in expressions(COMPLETE, other).update
    without = sample_args(COMPLETE, Given.NEEDED)
    assert "node_result " not in expressions(COMPLETE, without).update


@pytest.mark.parametrize(
    "args",
    [{}, {"x": "X"}, {"x": "X", "n": None}, {"x": "X", "n": 4, "spare": 1}],
)
def test_arguments_that_do_not_fit_are_a_bug(args: dict[str, str | int | None]) -> None:
    with pytest.raises(Bug):
        expressions(EVERYTHING, args)


@pytest.mark.parametrize("name", ["a.b", "a-b", "a[0]", "#a", "", "a = :x, b"])
def test_a_name_that_would_change_the_expression_is_a_bug(name: str) -> None:
    operation = Operation("odd", Item.NODE, (NotExists(name),), (Remove("x"),))
    with pytest.raises(Bug, match="cannot stand"):
        expressions(operation, {})


@pytest.mark.parametrize("value", ["text", True, None, [1]])
def test_only_whole_numbers_go_into_sets(value: Value) -> None:
    operation = Operation("add", Item.NODE, (NotExists("a"),), (AddToSet("b", Arg("x")),))
    with pytest.raises(Bug):
        expressions(operation, {"x": value}).values({"x": value})
