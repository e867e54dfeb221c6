"""Messages and arguments: what the engine writes is read, and nothing else is."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from piton.contracts import (
    ExecutionEvent,
    MalformedMessage,
    NodeEvent,
    StartExecutionInput,
    UnknownSchemaVersion,
    WorkflowDocument,
    parse_dispatch,
    parse_event,
    problems_of,
)
from piton.contracts.messages import MAX_MESSAGE_BYTES
from piton.domain.errors import Bug
from piton.domain.messages import Dispatch, Event, execution_messages, node_messages
from piton.domain.rows import ExecutionRef, ExecutionRow, NodeRow
from piton.domain.scope import Scope
from piton.domain.status import EventType, ExecutionStatus, NodeStatus

REF = ExecutionRef("acme", "01JZZZZZZZZZZZZZZZZZZZZZZZ")
DISPATCH = Dispatch("default", REF, 3, "extract", 2, 1, 1_760_000_000_000, 7)


def envelope(event: Event) -> dict[str, Any]:
    return {
        "version": "0",
        "id": "6a7e8feb-b491-4cf7-a9f1-bf3703467718",
        "detail-type": event.type.value,
        "source": "piton",
        "account": "111122223333",
        "time": "2025-01-01T00:00:00Z",
        "region": "us-east-1",
        "resources": [],
        "detail": dict(event.detail),
    }


def node_event(status: NodeStatus) -> Event:
    row = NodeRow(3, "extract", status, fence=1, attempt=1, scope="ab12", finished_at=5)
    (event,) = node_messages(REF, NodeRow(3, "extract", NodeStatus.RUNNING), row)
    assert isinstance(event, Event)
    return event


def execution_event(status: ExecutionStatus = ExecutionStatus.PENDING) -> Event:
    row = ExecutionRow(
        ref=REF,
        status=status,
        workflow_id="invoices",
        workflow_version=4,
        definition_hash="f" * 64,
        root_id=REF.execution_id,
        scope=Scope().text,
        created_at=5,
        ends_by=6,
        expires_at=7,
        finished_at=9,
    )
    (event,) = execution_messages(None, row)
    assert isinstance(event, Event)
    return event


def changed(content: Mapping[str, Any], **changes: Any) -> str:
    return json.dumps({**content, **changes})


def test_a_dispatch_is_read_as_it_was_sent() -> None:
    received = parse_dispatch(json.dumps(DISPATCH.to_json())).to_dispatch()
    assert received == Dispatch("default", REF, 3, "extract", 2, 1, 1_760_000_000_000, 0)


@pytest.mark.parametrize("status", [NodeStatus.COMPLETED, NodeStatus.FAILED, NodeStatus.SKIPPED])
def test_a_node_event_is_read_as_it_was_sent(status: NodeStatus) -> None:
    sent = node_event(status)
    received = parse_event(json.dumps(envelope(sent)))
    assert isinstance(received, NodeEvent)
    assert received.type is sent.type
    assert received.detail.ref == REF
    assert received.detail.model_dump() == dict(sent.detail)


@pytest.mark.parametrize(
    "status",
    [
        ExecutionStatus.PENDING,
        ExecutionStatus.COMPLETED,
        ExecutionStatus.FAILED,
        ExecutionStatus.CANCELLED,
    ],
)
def test_an_execution_event_is_read_as_it_was_sent(status: ExecutionStatus) -> None:
    sent = execution_event(status)
    received = parse_event(json.dumps(envelope(sent)))
    assert isinstance(received, ExecutionEvent)
    assert received.type is sent.type
    assert received.detail.ref == REF
    assert received.detail.model_dump() == dict(sent.detail)


def test_what_eventbridge_adds_to_the_envelope_is_ignored() -> None:
    body = changed(envelope(execution_event()), **{"replay-name": "again"})
    assert parse_event(body).type is EventType.START_REQUESTED


GARBAGE = [
    "",
    "not json",
    "[]",
    "7",
    "null",
    "{}",
    "[" * 100_000,
    json.dumps({"schema_version": 1}),
    json.dumps({"schema_version": "1"}),
    json.dumps({"schema_version": True}),
    changed(DISPATCH.to_json(), tenant="Acme"),
    changed(DISPATCH.to_json(), tenant="a#b"),
    changed(DISPATCH.to_json(), execution_id="../x"),
    changed(DISPATCH.to_json(), fence=0),
    changed(DISPATCH.to_json(), fence="2"),
    changed(DISPATCH.to_json(), ordinal=-1),
    changed(DISPATCH.to_json(), ordinal=1.5),
    changed(DISPATCH.to_json(), extra=1),
    "\ud800",
]


@pytest.mark.parametrize("body", GARBAGE)
def test_garbage_on_a_worker_queue_is_refused(body: str) -> None:
    with pytest.raises(MalformedMessage):
        parse_dispatch(body)


@pytest.mark.parametrize(
    "body",
    [
        *GARBAGE[:7],
        json.dumps(DISPATCH.to_json()),
        changed(envelope(execution_event()), source="aws.s3"),
        changed(envelope(execution_event()), **{"detail-type": "workflow.unknown"}),
        changed(envelope(execution_event()), detail=None),
        changed(envelope(execution_event()), **{"detail-type": "workflow.node.completed"}),
        changed(envelope(node_event(NodeStatus.FAILED)), **{"detail-type": "workflow.failed"}),
    ],
)
def test_garbage_on_the_advance_queue_is_refused(body: str) -> None:
    with pytest.raises(MalformedMessage):
        parse_event(body)


def test_another_schema_version_has_an_error_of_its_own() -> None:
    event = envelope(execution_event())
    event["detail"]["schema_version"] = 2
    with pytest.raises(UnknownSchemaVersion, match="schema version 2; this release reads 1"):
        parse_event(json.dumps(event))
    with pytest.raises(UnknownSchemaVersion):
        parse_dispatch(changed(DISPATCH.to_json(), schema_version=0, unheard_of=True))


def test_a_malformed_message_is_raised_until_it_is_a_dead_letter() -> None:
    assert issubclass(UnknownSchemaVersion, MalformedMessage)
    assert issubclass(MalformedMessage, Bug)


def test_a_message_beyond_the_limit_is_refused_unread() -> None:
    with pytest.raises(MalformedMessage, match="beyond"):
        parse_dispatch(changed(DISPATCH.to_json(), node_id="x" * MAX_MESSAGE_BYTES))


def test_complaints_name_the_place_and_not_the_content() -> None:
    with pytest.raises(MalformedMessage) as caught:
        parse_dispatch(changed(DISPATCH.to_json(), node_id=["top secret"]))
    assert "node_id: Input should be a valid string" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({}, "workflow: Field required"),
        ({"workflow": "w#1"}, "workflow: String should match"),
        ({"workflow": "w", "version": 0}, "version: "),
        ({"workflow": "w", "version": True}, "version: Input should be a valid integer"),
        ({"workflow": "w", "input": []}, "input: Input should be a valid dictionary"),
        ({"workflow": "w", "input": "{}"}, "input: Input should be a valid dictionary"),
        ({"workflow": "w", "inputs": {}}, "inputs: Extra inputs are not permitted"),
        ({"workflow": "w", "idempotency": {}}, "idempotency.document: Field required"),
        ({"workflow": "w", "idempotency": {"document": "a#b"}}, "idempotency.document: String"),
        ({"workflow": "w", "idempotency": {"document": ""}}, "idempotency.document: String"),
        (
            {"workflow": "w", "idempotency": {"document": "a", "operationVersion": 0}},
            "idempotency.operationVersion: ",
        ),
        ({"workflow": "w", "deadlineAt": "tomorrow"}, "deadlineAt: must be an ISO 8601"),
        ({"workflow": "w", "deadlineAt": "2030-01-01T00:00:00"}, "deadlineAt: must name its time"),
        ({"workflow": "w", "scope": {"visibility": "Every One"}}, "scope.visibility: String"),
        ({"workflow": "w", "scope": {"scopeIds": ["a b"]}}, "scope.scopeIds[0]: String"),
    ],
)
def test_arguments_of_a_start_are_checked(asked: Mapping[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError) as caught:
        StartExecutionInput.model_validate(asked)
    assert str(problems_of(caught.value)[0]).startswith(complaint)


def test_left_out_arguments_may_also_be_null() -> None:
    names = ("version", "input", "idempotency", "deadlineAt", "scope")
    nothing = StartExecutionInput.model_validate({"workflow": "w", **dict.fromkeys(names)})
    assert nothing == StartExecutionInput.model_validate({"workflow": "w"})


def test_a_field_may_be_named_like_the_forms_of_a_need() -> None:
    with pytest.raises(ValidationError) as caught:
        WorkflowDocument.model_validate({"id": "w", "nodes": [{"id": "a", "edge": 1, "task": "t"}]})
    assert [problem.place for problem in problems_of(caught.value)] == ["nodes[0].edge"]
