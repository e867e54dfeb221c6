"""Edge conditions: which compile, what counts as true, and what is a fault."""

import pytest

from piton.adapters.conditions import check_condition, evaluate_condition
from piton.domain.canonical import Json
from piton.domain.frontier import ConditionFault


@pytest.mark.parametrize(
    "text",
    [
        "total",
        "lines[?amount > `10`] | [0]",
        "not_null(a, b, c)",
        "sort_by(lines, &amount)[0].id",
        "a == 'b' && !c || d",
        "@",
    ],
)
def test_conditions_that_compile(text: str) -> None:
    assert check_condition(text) is None


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "not JMESPath: "),
        ("  ", "not JMESPath: "),
        ("a.[", "not JMESPath: "),
        ("'open", "not JMESPath: "),
        ("a ==", "not JMESPath: "),
        ("(" * 5000 + "a", "nested too deeply"),
        ("sum_of(a)", "there is no function sum_of()"),
        ("a[?starts(b, 'x')]", "there is no function starts()"),
        ("length(a, b)", "length() takes 1 argument(s)"),
        ("contains(a)", "contains() takes 2 argument(s)"),
        ("not_null()", "not_null() takes 1 argument(s) or more"),
        ("&a", "an expression reference has no value of its own"),
    ],
)
def test_conditions_that_do_not(text: str, fault: str) -> None:
    found = check_condition(text)
    assert found is not None
    assert found.startswith(fault)
    assert "\n" not in found


@pytest.mark.parametrize("value", [None, False, "", [], {}])
def test_false_values(value: Json) -> None:
    assert evaluate_condition("value", {"value": value}) is False


@pytest.mark.parametrize("value", [True, 0, 0.0, -1, " ", "false", [None], {"a": None}])
def test_true_values(value: Json) -> None:
    assert evaluate_condition("value", {"value": value}) is True


@pytest.mark.parametrize("document", [None, [], "text", 7, {"other": 1}])
def test_a_missing_value_is_false(document: Json) -> None:
    assert evaluate_condition("value.inner", document) is False


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ("length(a)", {"a": 5}),
        ("a > `1`", {"a": "x"}),
        ("sort_by(a, &b)", {"a": [{"b": 1}, {"b": "x"}]}),
        ("join(',', a)", {"a": [1]}),
        ("sum(a)", {"a": ["x"]}),
        ("unknown(a)", {"a": 1}),
        ("a.[", {}),
    ],
)
def test_what_does_not_fit_the_document_is_a_fault(text: str, document: Json) -> None:
    with pytest.raises(ConditionFault):
        evaluate_condition(text, document)


def test_a_fault_does_not_repeat_the_document() -> None:
    with pytest.raises(ConditionFault) as caught:
        evaluate_condition("length(secret)", {"secret": 123456})
    assert "123456" not in str(caught.value)
