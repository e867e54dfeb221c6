"""Schema, resolvers, answers and clients say the same."""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final

import pytest
from graphql import (
    EnumTypeDefinitionNode,
    FieldDefinitionNode,
    InputObjectTypeDefinitionNode,
    NonNullTypeNode,
    ObjectTypeDefinitionNode,
    build_schema,
    parse,
    validate,
)
from pydantic import BaseModel

from handlers import commands, queries
from local import workflow_schema
from local.appsync import PRELUDE
from local.client import Api
from local.front import SCHEMA
from piton.contracts import IdempotencyInput, ScopeInput, StartExecutionInput
from piton.domain.errors import ErrorCode
from piton.domain.graph import NodeKind
from piton.domain.status import ExecutionStatus, NodeStatus
from piton.services.views import AttemptOutcome
from tests.support.api import ApiUnderTest, every_event, recorded
from tests.support.story import TOP, Story, asking

SDL: Final = SCHEMA.read_text()
DOCUMENT: Final = parse(SDL)
TYPES: Final[Mapping[str, ObjectTypeDefinitionNode]] = {
    node.name.value: node
    for node in DOCUMENT.definitions
    if isinstance(node, ObjectTypeDefinitionNode)
}
INPUTS: Final = {
    node.name.value: node
    for node in DOCUMENT.definitions
    if isinstance(node, InputObjectTypeDefinitionNode)
}
ENUMS: Final = {
    node.name.value: {value.name.value for value in node.values}
    for node in DOCUMENT.definitions
    if isinstance(node, EnumTypeDefinitionNode)
}
ROOTS: Final = ("Query", "Mutation")
ON_DEMAND: Final = {("Execution", name) for name in ("nodes", "input", "output", "history")}
HANDLED: Final = {**commands.fields.resolvers, **queries.fields.resolvers}
SEEN_BY_IAM: Final = {"aws_cognito_user_pools", "aws_iam"}


def fields_of(type_name: str) -> dict[str, FieldDefinitionNode]:
    return {field.name.value: field for field in TYPES[type_name].fields}


def plain_fields(type_name: str) -> set[str]:
    return {name for name in fields_of(type_name) if (type_name, name) not in ON_DEMAND}


def test_the_schema_is_valid_graphql() -> None:
    build_schema(PRELUDE + SDL)


def test_every_field_that_needs_a_resolver_has_a_handler_and_no_other_has() -> None:
    roots = {(root, name) for root in ROOTS for name in fields_of(root)}
    assert set(HANDLED) == roots | ON_DEMAND


def test_mutations_and_queries_are_handled_apart() -> None:
    assert {type_name for type_name, _ in commands.fields.resolvers} == {"Mutation"}
    assert "Mutation" not in {type_name for type_name, _ in queries.fields.resolvers}


def test_every_field_has_a_recorded_event() -> None:
    infos = [recorded(name)["info"] for name in every_event()]
    assert {(info["parentTypeName"], info["fieldName"]) for info in infos} == set(HANDLED)


def test_both_kinds_of_caller_reach_every_type_and_root_field() -> None:
    for name, node in TYPES.items():
        if name in ROOTS:
            for field in node.fields:
                assert {each.name.value for each in field.directives} == SEEN_BY_IAM, field.name
        else:
            assert {each.name.value for each in node.directives} == SEEN_BY_IAM, name


def test_the_schema_leaves_defaults_to_the_handlers() -> None:
    for node in INPUTS.values():
        assert all(field.default_value is None for field in node.fields)
    for type_node in TYPES.values():
        for field in type_node.fields:
            assert all(argument.default_value is None for argument in field.arguments)


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("ErrorCode", ErrorCode),
        ("ExecutionStatus", ExecutionStatus),
        ("NodeStatus", NodeStatus),
        ("AttemptOutcome", AttemptOutcome),
    ],
)
def test_enumerations_are_those_of_the_code(name: str, members: type[Enum]) -> None:
    assert ENUMS[name] == {member.name for member in members}


def test_gates_are_not_shown() -> None:
    assert ENUMS["NodeKind"] == {NodeKind.TASK.name, NodeKind.LAMBDA.name}


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("StartExecutionInput", StartExecutionInput),
        ("IdempotencyInput", IdempotencyInput),
        ("ScopeInput", ScopeInput),
    ],
)
def test_inputs_are_those_of_the_contracts(name: str, model: type[BaseModel]) -> None:
    required = {
        field.alias or own: field.is_required() for own, field in model.model_fields.items()
    }
    assert required == {
        field.name.value: isinstance(field.type, NonNullTypeNode) for field in INPUTS[name].fields
    }


# --- Answers -------------------------------------------------------------------------------


@pytest.fixture
def story(api: ApiUnderTest) -> Story:
    told = Story(api)
    told.queue(TOP, "top")
    told.claim(TOP)
    return told


def check(type_name: str, answer: Mapping[str, Any]) -> None:
    assert set(answer) == plain_fields(type_name), type_name
    for name, field in fields_of(type_name).items():
        if name in answer and isinstance(field.type, NonNullTypeNode):
            assert answer[name] is not None, f"{type_name}.{name}"


def test_an_execution_has_the_fields_of_its_type(api: ApiUnderTest, story: Story) -> None:
    execution = api.call(asking("get_execution", story.id))
    check("Execution", execution)
    check("Scope", execution["scope"])
    check("ExecutionPage", api.call(asking("list_executions")))


def test_a_node_has_the_fields_of_its_type(api: ApiUnderTest, story: Story) -> None:
    page = api.call(asking("execution_nodes", story.id))
    check("NodePage", page)
    for node in page["items"]:
        check("Node", node)
    (attempt,) = page["items"][TOP]["attempts"]
    check("Attempt", attempt)
    check("LogReference", attempt["log"])


def test_history_has_the_fields_of_its_type(api: ApiUnderTest, story: Story) -> None:
    page = api.call(asking("execution_history", story.id))
    check("HistoryPage", page)
    for entry in page["items"]:
        check("HistoryEntry", entry)


def test_a_workflow_has_the_fields_of_its_type(api: ApiUnderTest) -> None:
    check("Workflow", api.call(asking("get_workflow")))
    page = api.call(asking("list_workflows"))
    check("WorkflowPage", page)
    check("WorkflowSummary", page["items"][0])


def test_payloads_have_no_field_beyond_their_type(api: ApiUnderTest) -> None:
    started = api.call(recorded("start_execution"))
    assert set(started) <= plain_fields("StartExecutionPayload")
    resumed = api.call(recorded("resume_execution"))
    assert set(resumed) <= plain_fields("ExecutionPayload")
    check("Error", resumed["error"])
    assert set(api.register()) <= plain_fields("WorkflowPayload")


# --- Clients and files ---------------------------------------------------------------------


class Sent(Api):
    """A client whose requests go nowhere."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:9/graphql", "token")
        self.queries: list[str] = []

    def execute(self, query: str, variables: Mapping[str, Any]) -> dict[str, Any]:
        del variables
        self.queries.append(query)
        empty: dict[str, Any] = {"items": [], "nextToken": None}
        execution = {"nodes": empty, "history": empty, "input": None, "output": None}
        payload = {"error": None, "execution": execution, "workflow": {}, "created": True}
        return {
            "getExecution": execution,
            **{name: dict(payload) for name in fields_of("Mutation")},
        }


def requests() -> Iterator[str]:
    client = Sent()
    client.start({"workflow": "w"})
    client.resume("x")
    client.cancel("x")
    client.register("x")
    client.execution("x", payloads=True)
    client.nodes("x")
    client.history("x")
    yield from client.queries


def test_the_clients_requests_fit_the_schema() -> None:
    schema = build_schema(PRELUDE + SDL)
    sent = list(requests())
    assert len(sent) == 7
    for query in sent:
        assert validate(schema, parse(query)) == [], query


def test_the_schema_of_workflows_is_the_one_of_the_code() -> None:
    written = workflow_schema.FILE.read_text()
    assert written == workflow_schema.render(), "run: python -m local.workflow_schema"
