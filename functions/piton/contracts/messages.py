"""Messages between the functions: dispatches on worker queues and events from the bus."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from piton.contracts.base import (
    MAX_WORKFLOW_VERSION,
    Count,
    Id,
    Strict,
    matching,
    problems_of,
)
from piton.domain.errors import Bug
from piton.domain.messages import SCHEMA_VERSION, Dispatch
from piton.domain.names import EXECUTION_ID_PATTERN, TENANT_PATTERN
from piton.domain.rows import ExecutionRef
from piton.domain.status import EventType

MAX_MESSAGE_BYTES: Final = 256 * 1024


class MalformedMessage(Bug):
    """A message that no part of the engine sends. Raised until it reaches the dead letters."""


class UnknownSchemaVersion(MalformedMessage):
    """A message of a release that speaks another version of this contract."""


class _Named(Strict):
    schema_version: int
    tenant: Annotated[str, matching(TENANT_PATTERN)]
    execution_id: Annotated[str, matching(EXECUTION_ID_PATTERN)]

    @property
    def ref(self) -> ExecutionRef:
        """The execution that the message is about."""
        return ExecutionRef(self.tenant, self.execution_id)


class DispatchMessage(_Named):
    """Body of a message on a worker queue; see `domain.messages.Dispatch`."""

    pool: Id
    ordinal: Count
    node_id: Annotated[str, Field(min_length=1, max_length=256)]
    fence: Annotated[int, Field(ge=1, lt=2**53)]
    attempt: Annotated[int, Field(ge=1, lt=2**53)]
    not_before: Count

    def to_dispatch(self) -> Dispatch:
        """The engine's form. A message that has arrived has its delay behind it."""
        return Dispatch(
            pool=self.pool,
            ref=self.ref,
            ordinal=self.ordinal,
            node_id=self.node_id,
            fence=self.fence,
            attempt=self.attempt,
            not_before=self.not_before,
            delay_s=0,
        )


class NodeDetail(_Named):
    """Detail of a `workflow.node.*` event."""

    event_id: Annotated[str, Field(max_length=256)]
    node_id: Annotated[str, Field(min_length=1, max_length=256)]
    ordinal: Count
    attempt: Count
    fence: Count
    scope: Annotated[str, Field(max_length=64)]
    reason: Annotated[str | None, Field(max_length=64)]
    occurred_at: Count


class ExecutionDetail(_Named):
    """Detail of an event about a whole execution."""

    event_id: Annotated[str, Field(max_length=256)]
    workflow_id: Id
    workflow_version: Annotated[int, Field(ge=1, le=MAX_WORKFLOW_VERSION)]
    scope: Annotated[str, Field(max_length=64)]
    reason: Annotated[str | None, Field(max_length=64)]
    node_id: Annotated[str | None, Field(max_length=256)]
    occurred_at: Count | None


class _Envelope(BaseModel):
    # EventBridge owns this one and adds to it, for example on a replay.
    model_config = ConfigDict(extra="ignore", frozen=True)

    source: Annotated[str, matching("piton")]
    type: Annotated[EventType, Field(alias="detail-type")]
    detail: dict[str, Any]


class NodeEvent(Strict):
    """A node has ended, or has started."""

    type: EventType
    detail: NodeDetail


class ExecutionEvent(Strict):
    """An execution has moved, or somebody asks it to."""

    type: EventType
    detail: ExecutionDetail


_NODE_EVENTS: Final = frozenset(
    {
        EventType.NODE_STARTED,
        EventType.NODE_COMPLETED,
        EventType.NODE_FAILED,
        EventType.NODE_SKIPPED,
    }
)


def parse_dispatch(body: str) -> DispatchMessage:
    """Read the body of a worker's message. Raises `MalformedMessage`."""
    document = _object(body)
    _check_version(document)
    try:
        return DispatchMessage.model_validate(document)
    except ValidationError as error:
        raise _malformed("dispatch", error) from error


def parse_event(body: str) -> NodeEvent | ExecutionEvent:
    """Read an EventBridge envelope with one of the engine's events. Raises `MalformedMessage`."""
    try:
        envelope = _Envelope.model_validate(_object(body))
        _check_version(envelope.detail)
        if envelope.type in _NODE_EVENTS:
            node = NodeDetail.model_validate(envelope.detail)
            return NodeEvent(type=envelope.type, detail=node)
        execution = ExecutionDetail.model_validate(envelope.detail)
        return ExecutionEvent(type=envelope.type, detail=execution)
    except ValidationError as error:
        raise _malformed("event", error) from error


def _object(body: str) -> dict[str, Any]:
    if len(body.encode("utf-8", "replace")) > MAX_MESSAGE_BYTES:
        raise MalformedMessage(f"message beyond {MAX_MESSAGE_BYTES} bytes")
    try:
        document = json.loads(body)
    except (json.JSONDecodeError, RecursionError) as error:
        raise MalformedMessage("message is not JSON") from error
    if not isinstance(document, dict):
        raise MalformedMessage("message is not a JSON object")
    return document


def _check_version(document: Mapping[str, Any]) -> None:
    version = document.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise MalformedMessage("message without a schema_version")
    if version != SCHEMA_VERSION:
        raise UnknownSchemaVersion(
            f"message of schema version {version}; this release reads {SCHEMA_VERSION}"
        )


def _malformed(kind: str, error: ValidationError) -> MalformedMessage:
    faults = "; ".join(str(problem) for problem in problems_of(error)[:5])
    return MalformedMessage(f"malformed {kind}: {faults}")
