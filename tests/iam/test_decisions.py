"""The evaluator agrees with every decision that AWS documents, and refuses what it cannot judge."""

from typing import Any

import pytest

from tests.iam.account import Account, TableKeys
from tests.iam.conditions import Condition
from tests.iam.documented import Documented, documented_decisions
from tests.iam.expressions import attributes, partition_value
from tests.iam.patterns import Undecidable
from tests.iam.policy import VERSION, Principal, Request, decide, parse_policy
from tests.iam.requests import authorizations

ROWS = documented_decisions()
ACCOUNT = Account("123456789012", "us-west-2", {"t": TableKeys(("pk", "sk"), {"i": ("g", "h")})})
ROLE = Principal("AWS", "arn:aws:iam::123456789012:role/r")


def statement(**elements: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*", **elements}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_documented_decision(row: Documented) -> None:
    assert row.decided is row.allowed


def test_the_table_is_large_enough_and_holds_both_answers() -> None:
    assert len(ROWS) >= 60
    assert {row.allowed for row in ROWS} == {True, False}
    assert len({row.page for row in ROWS}) >= 10


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({"Version": "2008-10-17", "Statement": []}, id="older version"),
        pytest.param({"Version": VERSION, "Statement": [], "Grant": 1}, id="policy element"),
        pytest.param({"Version": VERSION, "Statement": statement(Until="x")}, id="element"),
        pytest.param({"Version": VERSION, "Statement": statement(Effect="Maybe")}, id="effect"),
        pytest.param({"Version": VERSION, "Statement": statement(NotAction="x")}, id="two actions"),
        pytest.param(
            {"Version": VERSION, "Statement": statement(NotPrincipal="*")}, id="NotPrincipal"
        ),
        pytest.param(
            {"Version": VERSION, "Statement": statement(Principal={"Federated": "x"})},
            id="federated principal",
        ),
    ],
)
def test_a_policy_that_is_not_understood_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(Undecidable):
        parse_policy(document)


@pytest.mark.parametrize(
    ("operator", "key", "value"),
    [
        ("StringMatches", "aws:username", "x"),
        ("ForSomeValues:StringEquals", "dynamodb:Attributes", "x"),
        (":StringEquals", "aws:username", "x"),
        ("BinaryEquals", "aws:username", "eA=="),
        ("StringEquals", "dynamodb:Unheard", "x"),
        ("StringEquals", "aws:PrincipalTag/unheard", "x"),
        ("StringEquals", "dynamodb:Attributes", "x"),
        ("Null", "aws:username", "perhaps"),
        ("NumericEquals", "s3:max-keys", "${aws:username}"),
    ],
)
def test_case_65_an_unknown_condition_is_refused(operator: str, key: str, value: str) -> None:
    with pytest.raises(Undecidable):
        Condition(operator, key, (value,))


def test_a_deny_that_rests_on_a_missing_variable_is_refused() -> None:
    deny = statement(Effect="Deny", Resource="arn:aws:s3:::b/${aws:username}")
    request = Request("s3:GetObject", "arn:aws:s3:::b/x", {})
    with pytest.raises(Undecidable):
        decide(request, parse_policy({"Version": VERSION, "Statement": deny}))


def test_the_value_of_a_variable_holds_no_wildcards() -> None:
    own = statement(Resource="arn:aws:s3:::b/${aws:username}/*")
    request = Request("s3:GetObject", "arn:aws:s3:::b/eve/x", {"aws:username": ("*",)})
    assert not decide(request, parse_policy({"Version": VERSION, "Statement": own})).allowed


@pytest.mark.parametrize(
    ("service", "operation", "params"),
    [
        ("dynamodb", "ExecuteStatement", {"Statement": "SELECT * FROM t"}),
        ("dynamodb", "GetItem", {"TableName": "unheard", "Key": {"pk": {"S": "a"}}}),
        ("dynamodb", "Query", {"TableName": "t", "IndexName": "unheard"}),
        ("sqs", "CreateQueue", {"QueueUrl": "https://sqs/1/q"}),
        ("events", "PutRule", {}),
        ("events", "PutEvents", {"Entries": []}),
        ("iam", "CreateRole", {}),
        (
            "dynamodb",
            "Query",
            {
                "TableName": "t",
                "KeyConditionExpression": "begins_with(pk, :a)",
                "ExpressionAttributeValues": {":a": {"S": "a"}},
            },
        ),
    ],
)
def test_a_call_that_is_not_understood_is_refused(
    service: str, operation: str, params: dict[str, Any]
) -> None:
    with pytest.raises(Undecidable):
        authorizations(service, operation, params, ACCOUNT, ROLE)


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("SET a = :x, #b = if_not_exists(c, :y) REMOVE d ADD e :z", {"a", "beta", "c", "d", "e"}),
        ("attribute_not_exists(a) AND (size(b) < :n OR NOT c IN (:x, :y))", {"a", "b", "c"}),
        ("a.b[0].c, #b.a, d[3]", {"a", "beta", "d"}),
        ("a BETWEEN :x AND :y", {"a"}),
        ("set a = list_append(a, :x) - :y", {"a"}),
        ("size = :x", {"size"}),
    ],
)
def test_the_top_level_attributes_of_an_expression(expression: str, named: set[str]) -> None:
    assert attributes(expression, {"#b": "beta"}) == named


@pytest.mark.parametrize("expression", ["a = 'x'", "a = #unheard", "unheard(a)", "a = :x;", "a[b]"])
def test_what_is_no_expression_is_refused(expression: str) -> None:
    with pytest.raises(Undecidable):
        attributes(expression, {})


@pytest.mark.parametrize("expression", ["pk = :p", ":p = pk", "sk > :s AND pk = :p", "#pk = :p"])
def test_the_partition_that_a_key_condition_demands(expression: str) -> None:
    assert partition_value(expression, {"#pk": "pk"}, "pk") == ":p"


def test_a_transaction_asks_for_each_action_on_its_own() -> None:
    update = {"TableName": "t", "Key": {"pk": {"S": "a"}, "sk": {"S": "b"}}}
    params = {
        "TransactItems": [
            {"Update": {**update, "UpdateExpression": "SET x = :x"}},
            {"ConditionCheck": {**update, "ConditionExpression": "attribute_exists(y)"}},
        ]
    }
    first, second = authorizations("dynamodb", "TransactWriteItems", params, ACCOUNT, ROLE)
    assert (first.action, second.action) == ("dynamodb:UpdateItem", "dynamodb:ConditionCheckItem")
    assert first.context["dynamodb:attributes"] == ("pk", "sk", "x")
    assert second.context["dynamodb:attributes"] == ("pk", "sk", "y")
    assert first.context["dynamodb:enclosingoperation"] == ("TransactWriteItems",)
    assert "dynamodb:returnvalues" not in first.context
