"""The local AppSync: wiring, events, scalars, limits and the form of errors."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from local.appsync import AppSync, FunctionFailed, Request
from local.front import SCHEMA
from local.wiring import DEEPEST_QUERY, Wiring, WiringError

ANN: Final = {"sub": "1", "username": "ann", "claims": {"custom:tenant": "acme"}}
HEADERS: Final = {"host": "127.0.0.1"}
EXECUTION: Final[dict[str, Any]] = {
    "id": "01KDV4QZ8M6X3T9B2C7R5W1YHN",
    "status": "RUNNING",
    "createdAt": "2026-01-01T00:00:00.000Z",
}


class Functions:
    """Answers by field, and keeps what was asked."""

    def __init__(self, **answers: Any) -> None:
        self._answers = answers
        self.events: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, function: str, event: dict[str, Any]) -> Any:
        self.events.append((function, event))
        answer = self._answers[event["info"]["fieldName"]]
        if isinstance(answer, Exception):
            raise answer
        return answer


def wiring(*fields: tuple[str, str], depth: int = 8, resolvers: int = 50) -> Wiring:
    return Wiring({field: f"fn-{field[1]}" for field in fields}, depth, resolvers)


GET: Final = ("Query", "getExecution")
NODES: Final = ("Execution", "nodes")
START: Final = ("Mutation", "startExecution")


def ask(api: AppSync, query: str, **variables: Any) -> dict[str, Any]:
    return api.answer(Request(query, variables, None, ANN, HEADERS))


def test_a_field_becomes_the_event_of_a_direct_resolver() -> None:
    functions = Functions(getExecution=EXECUTION)
    api = AppSync(SCHEMA.read_text(), wiring(GET), functions)
    answer = ask(
        api,
        "query($id: ID!) { getExecution(id: $id) { id ...More } } fragment More on Execution"
        " { status renamed: createdAt }",
        id=EXECUTION["id"],
    )
    assert answer == {
        "data": {
            "getExecution": {
                "id": EXECUTION["id"],
                "status": "RUNNING",
                "renamed": EXECUTION["createdAt"],
            }
        }
    }
    ((function, event),) = functions.events
    assert function == "fn-getExecution"
    assert event["arguments"] == {"id": EXECUTION["id"]}
    assert event["identity"] == ANN
    assert event["source"] is None
    assert event["request"]["headers"] == HEADERS
    assert event["info"]["parentTypeName"] == "Query"
    assert event["info"]["variables"] == {"id": EXECUTION["id"]}
    assert event["info"]["selectionSetList"] == ["id", "status", "renamed"]
    assert "...More" in event["info"]["selectionSetGraphQL"]
    assert set(event) == {
        "arguments",
        "identity",
        "source",
        "request",
        "prev",
        "info",
        "stash",
    }


def test_a_field_of_an_object_gets_the_object() -> None:
    page = {"items": [], "total": 0, "nextToken": None}
    functions = Functions(getExecution=EXECUTION, nodes=page)
    api = AppSync(SCHEMA.read_text(), wiring(GET, NODES), functions)
    answer = ask(api, '{ getExecution(id: "x") { nodes(limit: 5) { total } } }')
    assert answer["data"]["getExecution"]["nodes"] == {"total": 0}
    event = functions.events[1][1]
    assert (event["source"], event["arguments"]) == (EXECUTION, {"limit": 5})


def test_a_field_of_a_missing_object_is_not_asked_for() -> None:
    functions = Functions(getExecution=None)
    api = AppSync(SCHEMA.read_text(), wiring(GET, NODES), functions)
    assert ask(api, '{ getExecution(id: "x") { nodes { total } } }') == {
        "data": {"getExecution": None}
    }
    assert len(functions.events) == 1


def test_json_is_read_on_the_way_in_and_written_on_the_way_out() -> None:
    functions = Functions(
        startExecution={"created": True, "execution": {"output": {"a": [1, 2.5, "é"]}}}
    )
    api = AppSync(SCHEMA.read_text(), wiring(START), functions)
    answer = ask(
        api,
        "mutation($input: StartExecutionInput!) { startExecution(input: $input)"
        " { execution { output } } }",
        input={"workflow": "w", "input": '{"n": [1, 2.5]}', "deadlineAt": "2026-01-01T00:00:00Z"},
    )
    assert functions.events[0][1]["arguments"]["input"] == {
        "workflow": "w",
        "input": {"n": [1, 2.5]},
        "deadlineAt": "2026-01-01T00:00:00Z",
    }
    assert answer["data"]["startExecution"]["execution"]["output"] == '{"a": [1, 2.5, "é"]}'


@pytest.mark.parametrize(
    "fields",
    [
        {"input": "{"},
        {"input": {"n": 1}},
        {"deadlineAt": "2026-01-01T00:00:00"},
        {"deadlineAt": "soon"},
        {"workflow": None},
        {"unheard": 1},
    ],
)
def test_an_argument_of_another_form_reaches_no_function(fields: dict[str, Any]) -> None:
    functions = Functions()
    api = AppSync(SCHEMA.read_text(), wiring(START), functions)
    answer = ask(
        api,
        "mutation($input: StartExecutionInput!) { startExecution(input: $input) { created } }",
        input={"workflow": "w", **fields},
    )
    assert answer.get("data") is None
    assert answer["errors"]
    assert functions.events == []


def test_a_field_without_a_function_is_an_error() -> None:
    api = AppSync(SCHEMA.read_text(), wiring(), Functions())
    answer = ask(api, '{ getExecution(id: "x") { id } }')
    assert answer["data"] == {"getExecution": None}
    assert answer["errors"][0]["message"] == "No function is wired to Query.getExecution"


def test_an_error_of_a_function_is_shown_by_its_message() -> None:
    failing = Functions(getExecution=FunctionFailed("FORBIDDEN: You may not"))
    api = AppSync(SCHEMA.read_text(), wiring(GET), failing)
    answer = ask(api, '{ getExecution(id: "x") { id } }')
    assert answer == {
        "data": {"getExecution": None},
        "errors": [
            {
                "path": ["getExecution"],
                "data": None,
                "errorType": "Lambda:Unhandled",
                "errorInfo": None,
                "locations": [{"line": 1, "column": 3, "sourceName": None}],
                "message": "FORBIDDEN: You may not",
            }
        ],
    }


@pytest.mark.parametrize("query", ["", "{", "{ unheard }", "{ getExecution { id } }"])
def test_a_faulty_query_reaches_no_function(query: str) -> None:
    functions = Functions()
    answer = ask(AppSync(SCHEMA.read_text(), wiring(GET), functions), query)
    assert (answer["data"], functions.events) == (None, [])
    assert answer["errors"]


def test_the_depth_of_a_query_is_bounded() -> None:
    page = {"items": [], "total": 0, "nextToken": None}
    functions = Functions(getExecution=EXECUTION, nodes=page)
    deep = (
        '{ getExecution(id: "x") { nodes { ...P } } } fragment P on NodePage { items { ...N } }'
        " fragment N on Node { attempts { log { group } } }"
    )
    allowed = AppSync(SCHEMA.read_text(), wiring(GET, NODES, depth=6), functions)
    assert "errors" not in ask(allowed, deep)
    refused = AppSync(SCHEMA.read_text(), wiring(GET, NODES, depth=5), functions)
    assert "6 levels deep; at most 5" in ask(refused, deep)["errors"][0]["message"]


def test_nested_fragments_are_measured_in_passing() -> None:
    fragments = " ".join(
        f"fragment F{n} on Execution {{ ...F{n + 1} ...F{n + 1} }}" for n in range(40)
    )
    query = (
        f'{{ getExecution(id: "x") {{ ...F0 }} }} {fragments} fragment F40 on Execution {{ id }}'
    )
    api = AppSync(SCHEMA.read_text(), wiring(GET, depth=1), Functions())
    assert "2 levels deep" in ask(api, query)["errors"][0]["message"]


def test_the_number_of_resolvers_is_bounded() -> None:
    functions = Functions(getExecution=EXECUTION)
    api = AppSync(SCHEMA.read_text(), wiring(GET, resolvers=2), functions)
    answer = ask(
        api, " ".join(["{", *(f'f{n}: getExecution(id: "x") {{ id }}' for n in range(3)), "}"])
    )
    assert len(functions.events) == 2
    assert answer["errors"][0]["message"] == "More than 2 resolvers would run"


# --- Wiring --------------------------------------------------------------------------------


def template(**resolver: Any) -> dict[str, Any]:
    return {
        "Api": {"Type": "AWS::AppSync::GraphQLApi", "Properties": {"QueryDepthLimit": 8}},
        "Fn": {"Type": "AWS::Lambda::Function", "Properties": {"FunctionName": "piton-q"}},
        "Source": {
            "Type": "AWS::AppSync::DataSource",
            "Properties": {
                "Name": "queries",
                "Type": "AWS_LAMBDA",
                "LambdaConfig": {"LambdaFunctionArn": {"Fn::GetAtt": ["Fn", "Arn"]}},
            },
        },
        "Resolver": {
            "Type": "AWS::AppSync::Resolver",
            "Properties": {
                "TypeName": "Query",
                "FieldName": "getExecution",
                "DataSourceName": "queries",
                **resolver,
            },
        },
    }


def write(folder: Path, resources: dict[str, Any]) -> Path:
    (folder / "Other.template.json").write_text(json.dumps({"Resources": {}}))
    (folder / "PitonApi.template.json").write_text(json.dumps({"Resources": resources}))
    return folder


def test_the_template_says_which_function_answers(tmp_path: Path) -> None:
    read = Wiring.read(write(tmp_path, template()))
    assert read.functions == {GET: "piton-q"}
    assert read.depth_limit == 8
    resources = template()
    resources["Api"]["Properties"] = {}
    assert Wiring.read(write(tmp_path, resources)).depth_limit == DEEPEST_QUERY


@pytest.mark.parametrize(
    "resolver",
    [
        {"DataSourceName": "commands"},
        {"Code": "export function request() {}"},
        {"MaxBatchSize": 10},
        {"RequestMappingTemplate": "{}"},
    ],
)
def test_a_resolver_that_would_be_served_otherwise_is_refused(
    tmp_path: Path, resolver: dict[str, Any]
) -> None:
    with pytest.raises(WiringError, match="resolver Resolver is not"):
        Wiring.read(write(tmp_path, template(**resolver)))


def test_a_source_that_is_no_function_of_the_stack_is_refused(tmp_path: Path) -> None:
    resources = template()
    del resources["Fn"]["Properties"]["FunctionName"]
    with pytest.raises(WiringError, match="data source Source"):
        Wiring.read(write(tmp_path, resources))


def test_an_assembly_without_an_api_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WiringError, match="no template"):
        Wiring.read(write(tmp_path, {}))
