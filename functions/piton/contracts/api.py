"""Arguments of the API. AppSync has checked their types by then; their meaning is checked here."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from piton.contracts.base import MAX_WORKFLOW_VERSION, Id, Strict, matching
from piton.domain.names import DOCUMENT_PATTERN
from piton.storage.keys import MAX_OPERATION_VERSION


def _zoned(text: str) -> str:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError("must be an ISO 8601 date and time") from error
    if moment.tzinfo is None:
        raise ValueError("must name its time zone, for example with a final Z")
    return text


ZonedTime = Annotated[str, Field(max_length=40), AfterValidator(_zoned)]
_ScopeWord = Annotated[str, matching(r"[a-z][a-z0-9_]{0,31}")]


class IdempotencyInput(Strict):
    """Names what is taken in once: a document under an operation version."""

    document: Annotated[str, matching(DOCUMENT_PATTERN)]
    operation_version: Annotated[
        int | None, Field(alias="operationVersion", ge=1, le=MAX_OPERATION_VERSION)
    ] = None


class ScopeInput(Strict):
    """On whose authority and over what an execution works."""

    source_kind: Annotated[_ScopeWord | None, Field(alias="sourceKind")] = None
    resolution_status: Annotated[_ScopeWord | None, Field(alias="resolutionStatus")] = None
    visibility: _ScopeWord | None = None
    scope_ids: Annotated[
        list[Annotated[str, matching(r"[A-Za-z0-9_.:/-]{1,64}")]] | None,
        Field(alias="scopeIds", max_length=32),
    ] = None


class StartExecutionInput(Strict):
    """Argument of `startExecution`. AppSync has read the JSON of `input` already."""

    workflow: Id
    version: Annotated[int | None, Field(ge=1, le=MAX_WORKFLOW_VERSION)] = None
    input: dict[str, Any] | None = None
    idempotency: IdempotencyInput | None = None
    deadline_at: Annotated[ZonedTime | None, Field(alias="deadlineAt")] = None
    scope: ScopeInput | None = None
