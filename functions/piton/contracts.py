"""Everything that crosses an edge of the system, as strict models.

Workflow documents, arguments of the API, dispatches and events are validated here and nowhere
else; behind this module data has its declared type. Messages of validation errors never repeat
the input, so they may be logged and answered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    StringConstraints,
    Tag,
    ValidationError,
    model_validator,
)

from piton.domain.compile import ID_PATTERN, MAX_NODES
from piton.domain.errors import Bug, Problem
from piton.domain.graph import DEFAULT_POOL
from piton.domain.messages import SCHEMA_VERSION, Dispatch
from piton.domain.names import DOCUMENT_PATTERN, EXECUTION_ID_PATTERN, TENANT_PATTERN
from piton.domain.retry import MAX_ATTEMPTS_LIMIT, MAX_CAP_S, RetryPolicy
from piton.domain.rows import ExecutionRef
from piton.domain.settings import DAY
from piton.domain.status import EdgeOn, EventType
from piton.storage.keys import MAX_OPERATION_VERSION

MAX_MESSAGE_BYTES: Final = 256 * 1024
MAX_LIFE_MS: Final = 366 * DAY
MAX_WORKFLOW_VERSION: Final = 999_999


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _text(pattern: str) -> StringConstraints:
    return StringConstraints(pattern=f"^{pattern}$")


Id = Annotated[str, _text(ID_PATTERN)]
Seconds = Annotated[float, Field(gt=0, le=MAX_LIFE_MS / 1000)]
_Count = Annotated[int, Field(ge=0, lt=2**53)]

# --- Workflow documents --------------------------------------------------------------------


class RetryDocument(_Strict):
    """How often and how soon a failed attempt is repeated. Seconds."""

    max_attempts: Annotated[int, Field(ge=1, le=MAX_ATTEMPTS_LIMIT)] = 3
    base_s: Annotated[float, Field(ge=0, le=MAX_CAP_S)] = 1.0
    cap_s: Annotated[float, Field(ge=0, le=MAX_CAP_S)] = 60.0

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        self.policy()
        return self

    def policy(self) -> RetryPolicy:
        """The engine's form."""
        return RetryPolicy(self.max_attempts, self.base_s, self.cap_s)


class NeedDocument(_Strict):
    """An incoming edge: after which node, on which outcome, under which condition."""

    node: Id
    on: Annotated[EdgeOn, Field(strict=False)] = EdgeOn.SUCCESS
    when: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=4096,
            description='JMESPath over the result of `node`, or over {"reason": code} if it failed',
        ),
    ] = None


def _need_form(need: object) -> str:
    return "id" if isinstance(need, str) else "edge"


_NEED_FORMS: Final = frozenset({"id", "edge"})


class NodeDocument(_Strict):
    """A step: either a task of its pool or a Lambda function of the pool's allow-list."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["task"]}, {"required": ["lambda"]}]}
    )

    id: Id
    task: Id | None = None
    lambda_arn: Annotated[str | None, Field(alias="lambda", min_length=1, max_length=512)] = None
    pool: Id = DEFAULT_POOL
    timeout_s: Seconds | None = None
    retry: RetryDocument | None = None
    params: dict[str, JsonValue] = Field(default_factory=dict)
    needs: list[
        Annotated[
            Annotated[Id, Tag("id")] | Annotated[NeedDocument, Tag("edge")],
            Discriminator(_need_form),
        ]
    ] = Field(default_factory=list)


class WorkflowDocument(_Strict):
    """A workflow as its author writes it."""

    id: Id
    description: Annotated[str, Field(max_length=4096)] = ""
    timeout_s: Seconds | None = None
    nodes: Annotated[list[NodeDocument], Field(min_length=1, max_length=MAX_NODES)]


# --- Arguments of the API ------------------------------------------------------------------


def _zoned(text: str) -> str:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError("must be an ISO 8601 date and time") from error
    if moment.tzinfo is None:
        raise ValueError("must name its time zone, for example with a final Z")
    return text


ZonedTime = Annotated[str, Field(max_length=40), AfterValidator(_zoned)]
_ScopeWord = Annotated[str, _text(r"[a-z][a-z0-9_]{0,31}")]


class IdempotencyInput(_Strict):
    """Names what is taken in once: a document under an operation version."""

    document: Annotated[str, _text(DOCUMENT_PATTERN)]
    operation_version: Annotated[
        int, Field(alias="operationVersion", ge=1, le=MAX_OPERATION_VERSION)
    ] = 1


class ScopeInput(_Strict):
    """On whose authority and over what an execution works."""

    source_kind: Annotated[_ScopeWord | None, Field(alias="sourceKind")] = None
    resolution_status: Annotated[_ScopeWord | None, Field(alias="resolutionStatus")] = None
    visibility: _ScopeWord | None = None
    scope_ids: Annotated[
        list[Annotated[str, _text(r"[A-Za-z0-9_.:/-]{1,64}")]] | None,
        Field(alias="scopeIds", max_length=32),
    ] = None


class StartExecutionInput(_Strict):
    """Argument of `startExecution`. AppSync has read the JSON of `input` already."""

    workflow: Id
    version: Annotated[int | None, Field(ge=1, le=MAX_WORKFLOW_VERSION)] = None
    input: dict[str, Any] | None = None
    idempotency: IdempotencyInput | None = None
    deadline_at: Annotated[ZonedTime | None, Field(alias="deadlineAt")] = None
    scope: ScopeInput | None = None


# --- Messages ------------------------------------------------------------------------------


class MalformedMessage(Bug):
    """A message that no part of the engine sends. Raised until it reaches the dead letters."""


class UnknownSchemaVersion(MalformedMessage):
    """A message of a release that speaks another version of this contract."""


class _Named(_Strict):
    schema_version: int
    tenant: Annotated[str, _text(TENANT_PATTERN)]
    execution_id: Annotated[str, _text(EXECUTION_ID_PATTERN)]

    @property
    def ref(self) -> ExecutionRef:
        """The execution that the message is about."""
        return ExecutionRef(self.tenant, self.execution_id)


class DispatchMessage(_Named):
    """Body of a message on a worker queue; see `domain.messages.Dispatch`."""

    pool: Id
    ordinal: _Count
    node_id: Annotated[str, Field(min_length=1, max_length=256)]
    fence: Annotated[int, Field(ge=1, lt=2**53)]
    attempt: Annotated[int, Field(ge=1, lt=2**53)]
    not_before: _Count

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
    ordinal: _Count
    attempt: _Count
    fence: _Count
    scope: Annotated[str, Field(max_length=64)]
    reason: Annotated[str | None, Field(max_length=64)]
    occurred_at: _Count


class ExecutionDetail(_Named):
    """Detail of an event about a whole execution."""

    event_id: Annotated[str, Field(max_length=256)]
    workflow_id: Id
    workflow_version: Annotated[int, Field(ge=1, le=MAX_WORKFLOW_VERSION)]
    scope: Annotated[str, Field(max_length=64)]
    reason: Annotated[str | None, Field(max_length=64)]
    node_id: Annotated[str | None, Field(max_length=256)]
    occurred_at: _Count | None


class _Envelope(BaseModel):
    # EventBridge owns this one and adds to it, for example on a replay.
    model_config = ConfigDict(extra="ignore", frozen=True)

    source: Annotated[str, _text("piton")]
    type: Annotated[EventType, Field(alias="detail-type")]
    detail: dict[str, Any]


class NodeEvent(_Strict):
    """A node has ended, or has started."""

    type: EventType
    detail: NodeDetail


class ExecutionEvent(_Strict):
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


# --- Places of faults ----------------------------------------------------------------------


def problems_of(error: ValidationError) -> list[Problem]:
    """Return each fault with its place in the document, for example `nodes[3].needs[0].when`."""
    return [
        Problem(place_of(fault["loc"]), fault["msg"].removeprefix("Value error, "))
        for fault in error.errors(include_url=False, include_input=False, include_context=False)
    ]


def place_of(location: tuple[int | str, ...]) -> str:
    """Return the written form of a place; the whole document is `document`."""
    place = ""
    after_index = False
    for step in location:
        if isinstance(step, int):
            place += f"[{step}]"
        elif not (after_index and step in _NEED_FORMS):
            place += f".{step[:80]}" if place else step[:80]
        after_index = isinstance(step, int)
    return place or "document"
