"""Attacks that IAM lets through and that code or the guard of a write refuses.

Each is carried out on the real handlers and tells whether it was refused.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from handlers.graphql import QueryRefused
from infra.schema import RESOLVERS
from piton.domain.errors import ErrorCode
from piton.domain.settings import MINUTE
from tests.iam.scenarios import node, register, start, status
from tests.iam.tasks import DURING
from tests.iam.world import OPERATOR, World

Refusal = Callable[[World], bool]

ARGUMENTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "startExecution": {"input": {"workflow": "refused"}},
    "resumeExecution": {"executionId": "0" * 26},
    "cancelExecution": {"executionId": "0" * 26},
    "registerWorkflow": {"definition": "{}"},
    "getExecution": {"id": "0" * 26},
    "getWorkflow": {"id": "refused"},
}
"""Arguments of the fields that need any."""


def caller(tenant: str = "acme", *groups: str) -> dict[str, Any]:
    """Return the identity of a user."""
    claims = {**OPERATOR["claims"], "custom:tenant": tenant, "cognito:groups": list(groups)}
    return {"claims": claims}


def code_of(world: World, type_name: str, field: str, **more: Any) -> str | None:
    """Return the code with which a field is refused, None if it is answered."""
    more.setdefault("arguments", ARGUMENTS.get(field))
    if type_name == "Execution":
        more.setdefault("source", {"id": "0" * 26})
    try:
        answer = world.ask(type_name, field, **more)
    except QueryRefused as refused:
        return str(refused).partition(":")[0]
    if isinstance(answer, dict) and answer.get("error"):
        return str(answer["error"]["code"])
    return None


def nobody(world: World) -> bool:
    """Every field without an identity."""
    return all(
        code_of(world, *field, identity=identity) == ErrorCode.UNAUTHENTICATED
        for field in RESOLVERS
        for identity in (None, {}, {"claims": None})
    )


def somebody_without_a_group(world: World) -> bool:
    """Every field for a user of the tenant who is in neither group."""
    return all(
        code_of(world, *field, identity=caller()) == ErrorCode.FORBIDDEN for field in RESOLVERS
    )


def a_viewer_who_changes_things(world: World) -> bool:
    """Every mutation for a viewer."""
    viewer = caller("acme", "viewers")
    return all(
        code_of(world, *field, identity=viewer) == ErrorCode.FORBIDDEN
        for field in RESOLVERS
        if field[0] == "Mutation"
    )


def an_access_token(world: World) -> bool:
    """An access token has no tenant that could be trusted."""
    identity = {"claims": {**OPERATOR["claims"], "token_use": "access"}}
    return code_of(world, "Query", "listExecutions", identity=identity) == ErrorCode.FORBIDDEN


def a_role_of_no_tenant(world: World) -> bool:
    """An application whose role the deployment maps to no tenant."""
    identity = {"userArn": "arn:aws:sts::000000000000:assumed-role/unknown/session"}
    return code_of(world, "Query", "listExecutions", identity=identity) == ErrorCode.FORBIDDEN


def another_tenant(world: World) -> bool:
    """Everything that an API offers on an execution of somebody else."""
    register(world, "refused", [node("a")])
    execution = start(world, "refused")
    other = caller("other", "operators")
    reads = [
        world.ask("Query", "getExecution", {"id": execution}, identity=other),
        world.ask("Query", "getWorkflow", {"id": "refused"}, identity=other),
        *(
            world.ask("Execution", field, source={"id": execution}, identity=other)
            for field in ("nodes", "input", "output", "history")
        ),
    ]
    codes = {
        code_of(world, "Mutation", field, arguments={"executionId": execution}, identity=other)
        for field in ("resumeExecution", "cancelExecution")
    }
    started = code_of(world, "Mutation", "startExecution", identity=other)
    world.settle()
    return (
        not any(reads)
        and codes == {ErrorCode.EXECUTION_NOT_FOUND}
        and started == ErrorCode.WORKFLOW_NOT_FOUND
        and status(world, execution) == "COMPLETED"
    )


def a_page_of_another_tenant(world: World) -> bool:
    """A token that was issued for another tenant's list."""
    token = world.ask("Query", "listExecutions", {"limit": 1})["nextToken"]
    arguments = {"limit": 1, "nextToken": token}
    other = caller("other", "viewers")
    code = code_of(world, "Query", "listExecutions", arguments=arguments, identity=other)
    return bool(token) and code == ErrorCode.INVALID_INPUT


def a_function_off_the_list(world: World) -> bool:
    """A node that is a function which its pool does not allow."""
    definition = {
        "id": "off-the-list",
        "nodes": [
            {
                "id": "a",
                "lambda": "arn:aws:lambda:us-east-1:000000000000:function:admin",
                "pool": "documents",
            }
        ],
    }
    arguments = {"definition": json.dumps(definition)}
    code = code_of(world, "Mutation", "registerWorkflow", arguments=arguments)
    return code == ErrorCode.INVALID_DEFINITION


def what_is_too_large(world: World) -> bool:
    """An input and a definition beyond their limits, and a note of more than a line."""
    register(world, "refused", [node("a")])
    text = "x" * 2**20
    asked = {"workflow": "refused", "input": {"text": text}}
    note = {"executionId": "0" * 26, "reason": text}
    return (
        code_of(world, "Mutation", "startExecution", arguments={"input": asked})
        == ErrorCode.INPUT_TOO_LARGE
        and code_of(world, "Mutation", "registerWorkflow", arguments={"definition": text + "x"})
        == ErrorCode.INVALID_DEFINITION
        and code_of(world, "Mutation", "cancelExecution", arguments=note) == ErrorCode.INVALID_INPUT
    )


def more_than_a_page(world: World) -> bool:
    """Pages beyond the largest."""
    return all(
        code_of(world, "Query", field, arguments={"limit": 100_000}) == ErrorCode.INVALID_INPUT
        for field in ("listExecutions", "listWorkflows")
    )


def a_document_with_another_input(world: World) -> bool:
    """The key of a document that was taken in with another input."""
    register(world, "refused", [node("a")])
    key = {"document": "refused", "operationVersion": 1}
    start(world, "refused", idempotency=key)
    asked = {"workflow": "refused", "idempotency": key, "input": {"changed": True}}
    code = code_of(world, "Mutation", "startExecution", arguments={"input": asked})
    world.settle()
    return code == ErrorCode.IDEMPOTENCY_CONFLICT


def a_wrong_fence(world: World) -> bool:
    """Dispatches under a fence that the node does not have."""
    execution, body = _queued(world)
    for fence in (body["fence"] + 1, 99):
        world.put(json.dumps({**body, "fence": fence}))
        world.work()
    return _states(world, execution) == {"a": "QUEUED", "b": "PENDING"}


def a_dispatch_of_another_node(world: World) -> bool:
    """A dispatch that names another node than stands at its place."""
    execution, body = _queued(world)
    world.put(json.dumps({**body, "node_id": "b"}))
    world.work()
    return _states(world, execution) == {"a": "QUEUED", "b": "PENDING"}


def a_forged_event(world: World) -> bool:
    """An event that says a node has completed, which it has not."""
    execution, body = _queued(world)
    detail = {
        "schema_version": body["schema_version"],
        "tenant": body["tenant"],
        "execution_id": body["execution_id"],
        "event_id": "forged",
        "node_id": "a",
        "ordinal": body["ordinal"],
        "attempt": 1,
        "fence": 1,
        "scope": "forged",
        "reason": None,
        "occurred_at": 0,
    }
    kind = "workflow.node.completed"
    world.events.append({"source": "piton", "detail-type": kind, "detail": detail})
    world.advance()
    return _states(world, execution) == {"a": "QUEUED", "b": "PENDING"}


def an_outcome_under_an_old_fence(world: World) -> bool:
    """A worker that returns a result after the watchdog has given the node to somebody else."""
    register(world, "overtaken", [node("a", "overtaken", retry={"max_attempts": 2, "base_s": 0})])
    execution = start(world, "overtaken")
    world.relay()
    world.advance()
    world.relay()

    def overtake() -> None:
        world.turn(2 * MINUTE)
        world.sweep()

    DURING.append(overtake)
    world.work()
    return _states(world, execution) == {"a": "QUEUED"}


def an_ended_execution(world: World) -> bool:
    """Resuming and cancelling what has completed."""
    register(world, "refused", [node("a")])
    execution = start(world, "refused")
    world.settle()
    return all(
        code_of(world, "Mutation", field, arguments={"executionId": execution})
        == ErrorCode.EXECUTION_ENDED
        for field in ("resumeExecution", "cancelExecution")
    )


REFUSALS: Final[tuple[Refusal, ...]] = (
    nobody,
    somebody_without_a_group,
    a_viewer_who_changes_things,
    an_access_token,
    a_role_of_no_tenant,
    another_tenant,
    a_page_of_another_tenant,
    a_function_off_the_list,
    what_is_too_large,
    more_than_a_page,
    a_document_with_another_input,
    a_wrong_fence,
    a_dispatch_of_another_node,
    a_forged_event,
    an_outcome_under_an_old_fence,
    an_ended_execution,
)


def _queued(world: World) -> tuple[str, dict[str, Any]]:
    """Start an execution of two nodes; return it and the dispatch of the first."""
    register(world, "guarded", [node("a"), node("b", needs=["a"])])
    execution = start(world, "guarded")
    world.relay()
    world.advance()
    world.relay()
    (body,) = world.take()
    return execution, json.loads(body)


def _states(world: World, execution: str) -> dict[str, str]:
    page = world.ask("Execution", "nodes", source={"id": execution})
    return dict(_named(page["items"]))


def _named(items: list[Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    for item in items:
        yield item["id"], item["status"]
