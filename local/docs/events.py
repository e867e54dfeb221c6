"""The catalogue of events: every type, when it is sent, who acts on it, and an example.

Examples are made by the engine's own functions from a row before and after a change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from infra.bus import RULES
from local.docs.markdown import code, codes, json_block, table
from piton.adapters.publisher import SOURCE
from piton.contracts import ExecutionDetail, NodeDetail
from piton.domain.canonical import Json
from piton.domain.messages import (
    SCHEMA_VERSION,
    Dispatch,
    Event,
    Message,
    execution_messages,
    node_messages,
)
from piton.domain.rows import ExecutionRef, ExecutionRow, NodeRow
from piton.domain.scope import Scope, scope_hash
from piton.domain.status import EventType, ExecutionStatus, NodeStatus, Reason
from piton.domain.transitions import TRANSITIONS

_AT: Final = 1_764_576_000_000
_REF: Final = ExecutionRef("acme", "01KBCR5000M3N8Q6V2T7X4Y9ZA")
_CREATED: Final = ExecutionRow(
    ref=_REF,
    status=ExecutionStatus.PENDING,
    workflow_id="invoices",
    workflow_version=3,
    definition_hash="",
    root_id=_REF.execution_id,
    scope=Scope().text,
    created_at=_AT,
    ends_by=_AT + 3_600_000,
    expires_at=(_AT + 3_600_000) // 1000,
)
_RUNNING: Final = replace(_CREATED, status=ExecutionStatus.RUNNING, started_at=_AT + 180)
_NODE: Final = NodeRow(
    ordinal=1,
    node_id="extract",
    status=NodeStatus.RUNNING,
    attempt=2,
    fence=2,
    scope=scope_hash(_CREATED.scope),
)
_QUEUED: Final = replace(
    _NODE,
    status=NodeStatus.QUEUED,
    pool="default",
    queued_at=_AT + 2_000,
    sent_at=_AT + 2_000,
    not_before=_AT + 3_250,
)
_FAILED: Final = Reason.NODE_TIMEOUT.value

NEWS: Final[Mapping[EventType, str]] = {
    EventType.START_REQUESTED: "An execution was taken in.",
    EventType.RESUME_REQUESTED: "An operator called `resumeExecution` on a running execution.",
    EventType.WORKFLOW_STARTED: "The execution began to run.",
    EventType.WORKFLOW_COMPLETED: "The execution ended well. One of three ends; there is only one.",
    EventType.WORKFLOW_FAILED: (
        "A node failed for good with no edge to take it up, an edge condition could not be "
        "evaluated, or the workflow's timeout passed. `reason` is the code, `node_id` the node if "
        "there is one."
    ),
    EventType.WORKFLOW_CANCELLED: (
        "A caller cancelled the execution, or its deadline passed; `reason` says which."
    ),
    EventType.NODE_STARTED: "A worker claimed the node.",
    EventType.NODE_COMPLETED: (
        "The node recorded a result, or a gate opened. Read the result through the API; it is "
        "never part of an event."
    ),
    EventType.NODE_FAILED: "The node failed for good. `reason` is the code.",
    EventType.NODE_SKIPPED: "No edge into the node was taken, so it will not run.",
}
"""What each type tells."""


def example(event_type: EventType) -> Event | None:
    """Return an example of a type, None for one that nothing sends."""
    found = [message for message in _examples() if isinstance(message, Event)]
    return next((event for event in found if event.type is event_type), None)


def example_dispatch() -> Dispatch:
    """Return an example of the message that hands an attempt to its pool."""
    [message] = node_messages(_REF, replace(_QUEUED, fence=1), _QUEUED)
    if not isinstance(message, Dispatch):
        raise TypeError("queueing a node lets out a dispatch")
    return message


def envelope(event: Event) -> dict[str, Json]:
    """Return an event as a rule's target gets it from EventBridge."""
    return {
        "version": "0",
        "id": "6a7e8feb-b491-4cf7-a9f1-bf3703467718",
        "detail-type": event.type.value,
        "source": SOURCE,
        "account": "111122223333",
        "time": "2025-12-01T08:00:04Z",
        "region": "eu-west-1",
        "resources": [],
        "detail": dict(event.detail),
    }


def event_table() -> str:
    """Render every type: what it tells, which transitions send it, which rule acts on it."""
    return table(
        ("Detail type", "Tells", "Sent by", "The engine acts on it through"),
        (
            (
                code(event_type.value),
                NEWS[event_type],
                ", ".join(t.id for t in TRANSITIONS if event_type in t.messages) or "nothing yet",
                codes(f"piton-<stage>-{rule.value}" for rule, t in RULES.items() if event_type in t)
                or "-",
            )
            for event_type in EventType
        ),
    )


def event_examples() -> str:
    """Render the detail of every type that is sent."""
    blocks: list[str] = []
    for event_type in EventType:
        event = example(event_type)
        if event is not None:
            blocks += [f"### {event_type.value}", json_block(dict(event.detail))]
    return "\n\n".join(blocks)


def fields_table() -> str:
    """Render the fields of both kinds of detail."""
    node, execution = NodeDetail.model_fields, ExecutionDetail.model_fields
    return table(
        ("Field", "Nodes", "Executions", "Holds"),
        (
            (
                code(name),
                "yes" if name in node else "",
                "yes" if name in execution else "",
                _FIELDS[name],
            )
            for name in dict.fromkeys((*node, *execution))
        ),
    )


def envelope_example() -> str:
    """Render a whole event."""
    event = example(EventType.NODE_FAILED)
    return json_block(envelope(event)) if event else ""


def dispatch_example() -> str:
    """Render the body of a dispatch."""
    return json_block(example_dispatch().to_json())


_FIELDS: Final[Mapping[str, str]] = {
    "schema_version": f"Version of this contract, now {SCHEMA_VERSION}.",
    "event_id": "Name of the fact. Repetitions carry the same one.",
    "tenant": "Tenant of the execution.",
    "execution_id": "The execution.",
    "node_id": (
        "The node as the workflow's author named it; gates begin with `$`. In events of "
        "executions, the node that made it fail, or null."
    ),
    "ordinal": "Place of the node in the compiled graph.",
    "attempt": "Number of the attempt, 0 where none was made.",
    "fence": "Fence of the attempt, 0 where none was made.",
    "workflow_id": "The workflow.",
    "workflow_version": "Its version.",
    "scope": "Hash of the effective scope.",
    "reason": "Code, or null; see the [runbook](runbook.md#codes-of-nodes-and-executions).",
    "occurred_at": "When the change was made, in epoch milliseconds.",
}


def _examples() -> Iterator[Message]:
    ended = replace(_RUNNING, finished_at=_AT + 4_000)
    yield from execution_messages(None, _CREATED)
    yield from execution_messages(_CREATED, _RUNNING)
    yield from execution_messages(_RUNNING, replace(_RUNNING, resumes=1, resumed_at=_AT + 2_500))
    yield from execution_messages(_RUNNING, replace(ended, status=ExecutionStatus.COMPLETED))
    yield from execution_messages(
        _RUNNING,
        replace(ended, status=ExecutionStatus.FAILED, reason=_FAILED, node=_NODE.node_id),
    )
    yield from execution_messages(
        _RUNNING,
        replace(ended, status=ExecutionStatus.CANCELLED, reason=Reason.CANCELLED_BY_CALLER.value),
    )
    over = replace(_NODE, finished_at=_AT + 4_000)
    yield from node_messages(_REF, _NODE, replace(over, status=NodeStatus.COMPLETED))
    yield from node_messages(_REF, _NODE, replace(over, status=NodeStatus.FAILED, reason=_FAILED))
    skipped = replace(over, node_id="reject", ordinal=8, attempt=0, fence=0)
    yield from node_messages(_REF, None, replace(skipped, status=NodeStatus.SKIPPED))
