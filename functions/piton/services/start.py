"""Taking in an execution: once per idempotency key, in one transaction."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NoReturn

from piton.contracts import StartExecutionInput
from piton.domain import canonical
from piton.domain.canonical import NotJson
from piton.domain.errors import ErrorCode, Rejected, Retry
from piton.domain.rows import ExecutionRef, ExecutionRow, LogEntry, Value
from piton.domain.scope import Scope
from piton.domain.settings import MAX_LIFE_MS, Settings
from piton.domain.status import ExecutionStatus
from piton.ports import Applied, Clock, Random, Store, Workflow, WorkflowStore, Write
from piton.services.caller import Caller
from piton.services.payloads import Payloads, Stored
from piton.storage import keys
from piton.storage import operations as op
from piton.storage.keys import Key
from piton.storage.views import IDEMPOTENCY_VIEW, ExecutionView


@dataclass(frozen=True, slots=True)
class Started:
    """`created` is False when the key had been used for this very request before."""

    execution: ExecutionRow
    created: bool


@dataclass(frozen=True, slots=True)
class _Request:
    """A checked request. `hash` covers what has to be equal for two requests to be the same."""

    workflow: str
    version: int | None
    input: str
    scope: str
    hash: str
    key: Key | None
    deadline: int | None


class Start:
    """Starts executions (E1)."""

    def __init__(
        self,
        store: Store,
        workflows: WorkflowStore,
        payloads: Payloads,
        clock: Clock,
        random: Random,
        settings: Settings,
    ) -> None:
        self._store = store
        self._workflows = workflows
        self._payloads = payloads
        self._clock = clock
        self._random = random
        self._settings = settings

    def start(self, caller: Caller, asked: StartExecutionInput) -> Started:
        """Create an execution, or return the one that the same request created before.

        The key is looked up before anything is stored, and claimed in the transaction that
        creates the execution, so of two requests that race exactly one creates it. Raises
        `Rejected`; `Retry` when a dependency does not answer: with an idempotency key it is safe
        to repeat the request, without one a repetition may create a second execution.
        """
        request = self._check(caller, asked)
        if request.key and (earlier := self._earlier(caller, request, request.key)):
            return earlier
        workflow = self._find(caller, request)
        now = self._clock.now_ms()
        execution = self._plan(caller, request, workflow, now)
        # Before the transaction: a row must never refer to a payload that is not there.
        stored = self._payloads.save(execution.ref, request.input)
        if isinstance(self._store.transact(self._writes(execution, stored, request)), Applied):
            return Started(execution, created=True)
        return self._after_refusal(caller, execution, request)

    def _check(self, caller: Caller, asked: StartExecutionInput) -> _Request:
        try:
            text = canonical.dumps(asked.input or {})
        except NotJson as error:
            raise Rejected(ErrorCode.INVALID_INPUT, f"input: {error}") from error
        size, limit = len(text.encode("utf-8")), self._settings.input_limit_bytes
        if size > limit:
            raise Rejected(
                ErrorCode.INPUT_TOO_LARGE,
                f"The input has {size} bytes and at most {limit} are allowed; "
                "put the data where the tasks can read it and pass its address",
            )
        scope = _scope_text(asked)
        key = asked.idempotency
        return _Request(
            workflow=asked.workflow,
            version=asked.version,
            input=text,
            scope=scope,
            hash=canonical.digest(
                canonical.dumps([asked.workflow, asked.version, canonical.digest(text), scope])
            ),
            key=keys.idempotency(caller.tenant, key.document, key.operation_version or 1)
            if key
            else None,
            deadline=_epoch_ms(asked.deadline_at) if asked.deadline_at else None,
        )

    def _find(self, caller: Caller, request: _Request) -> Workflow:
        version = request.version or self._workflows.latest_version(caller.tenant, request.workflow)
        found = version and self._workflows.load(caller.tenant, request.workflow, version)
        if not found:
            wanted = f"version {request.version} of " if request.version else ""
            raise Rejected(
                ErrorCode.WORKFLOW_NOT_FOUND,
                f"There is no {wanted}workflow '{request.workflow}'; register it first",
            )
        return found

    def _plan(
        self, caller: Caller, request: _Request, workflow: Workflow, now: int
    ) -> ExecutionRow:
        ref = ExecutionRef(caller.tenant, self._random.ulid(now))
        ends_by = self._ends_by(request, workflow, now)
        return ExecutionRow(
            ref=ref,
            status=ExecutionStatus.PENDING,
            workflow_id=workflow.workflow_id,
            workflow_version=workflow.version,
            definition_hash=workflow.hash,
            root_id=ref.execution_id,
            scope=request.scope,
            created_at=now,
            ends_by=ends_by,
            expires_at=(ends_by + self._settings.retention_ms) // 1000,
            deadline=request.deadline,
            actor=caller.subject,
            due_at=now + self._settings.sweep_soonest_ms,
            log=(LogEntry("E1", now, actor=caller.subject),),
        )

    def _ends_by(self, request: _Request, workflow: Workflow, now: int) -> int:
        if request.deadline is not None:
            if not now < request.deadline <= now + MAX_LIFE_MS:
                raise Rejected(
                    ErrorCode.INVALID_INPUT,
                    "deadlineAt must lie in the future, at most 366 days ahead",
                )
            return request.deadline
        if workflow.graph.timeout_s is not None:
            return now + int(workflow.graph.timeout_s * 1000)
        return now + self._settings.default_life_ms

    def _writes(self, row: ExecutionRow, stored: Stored, request: _Request) -> list[Write]:
        ref = row.ref
        writes = [
            Write(
                op.CREATE_EXECUTION,
                keys.meta(ref),
                {
                    "workflow_id": row.workflow_id,
                    "workflow_version": row.workflow_version,
                    "definition_hash": row.definition_hash,
                    "root_id": row.root_id,
                    "scope": row.scope,
                    "now": row.created_at,
                    "ends_by": row.ends_by,
                    "deadline": row.deadline,
                    "actor": row.actor,
                    "expires_at": row.expires_at,
                    "due_shard": keys.due_shard(ref),
                    "due_at": row.due_at,
                    "tenant_pk": keys.tenant_partition(ref.tenant),
                    "tenant_sk": f"{row.created_at:013d}#{ref.execution_id}",
                    "log": row.log[0].to_value(),
                },
            ),
            Write(
                op.STORE_INPUT,
                keys.execution_input(ref),
                {
                    "body": stored.body,
                    "ref": stored.ref,
                    "hash": stored.hash,
                    "expires_at": row.expires_at,
                },
            ),
        ]
        if request.key:
            # Longer than the execution's own rows: a late repetition must still be recognised.
            kept_s = self._settings.idempotency_retention_ms // 1000
            claim: dict[str, Value] = {
                "execution_id": ref.execution_id,
                "payload_hash": request.hash,
                "expires_at": row.expires_at + kept_s,
            }
            writes.append(Write(op.CLAIM_IDEMPOTENCY, request.key, claim))
        return writes

    def _after_refusal(self, caller: Caller, execution: ExecutionRow, request: _Request) -> Started:
        """Tell a lost race from a write of mine that was stored and repeated."""
        mine = self._store.get_execution(execution.ref, ExecutionView.FULL)
        if mine is not None:
            return Started(mine, created=True)
        if request.key and (earlier := self._earlier(caller, request, request.key)):
            return earlier
        raise Retry("the transaction was refused and nothing stands in its way any more")

    def _earlier(self, caller: Caller, request: _Request, key: Key) -> Started | None:
        claim = self._store.get_raw(key, IDEMPOTENCY_VIEW)
        if claim is None:
            return None
        execution_id = str(claim["idem_execution_id"])
        if claim["idem_payload_hash"] != request.hash:
            raise Rejected(
                ErrorCode.IDEMPOTENCY_CONFLICT,
                f"This document and operation version started execution {execution_id} with "
                "another workflow, input or scope; use a higher operationVersion",
            )
        ref = ExecutionRef(caller.tenant, execution_id)
        execution = self._store.get_execution(ref, ExecutionView.FULL)
        return Started(execution, created=False) if execution else _expired(execution_id)


def _expired(execution_id: str) -> NoReturn:
    raise Rejected(
        ErrorCode.EXECUTION_ENDED,
        f"This document and operation version ran as execution {execution_id}, whose record has "
        "expired; use a higher operationVersion to run it again",
    )


def _scope_text(asked: StartExecutionInput) -> str:
    if asked.scope is None:
        return Scope().text
    return Scope.from_json(asked.scope.model_dump()).text


def _epoch_ms(zoned: str) -> int:
    return int(datetime.fromisoformat(zoned).timestamp() * 1000)
