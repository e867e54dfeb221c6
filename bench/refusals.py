"""Rows on which a write must be refused, one for each thing that its guard protects.

Written by hand and not derived from the declarations: a clause that is taken out of a guard lets
one of these writes through.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from piton.domain.rows import Attributes, Value
from piton.storage import operations as op
from piton.storage.algebra import Args, Operation
from piton.storage.evaluate import apply

_KEY: Final[dict[str, Value]] = {"pk": "EX#acme#1", "sk": "NODE#00003"}
_BOTH: Final = frozenset({1, 2})
_ONE: Final = frozenset({1})

_READY: Final[dict[str, Value]] = {**_KEY, "node_id": "n", "node_resolved": _BOTH}
_QUEUED: Final[dict[str, Value]] = {
    **_READY,
    "node_status": "queued",
    "node_fence": 2,
    "node_attempt": 2,
    "node_sends": 1,
    "node_not_before": 100,
}
_RUNNING: Final[dict[str, Value]] = {
    **_QUEUED,
    "node_status": "running",
    "node_lease_until": 500,
}
_META: Final[dict[str, Value]] = {"pk": "EX#acme#1", "sk": "META", "due_at": 900}

_ARGS: Final[dict[str, Value]] = {
    "actor": "ada",
    "body": "{}",
    "code_hash": "c",
    "definition_hash": "h",
    "due_at": 1000,
    "due_shard": "due-0",
    "ends_by": 9000,
    "execution_id": "1",
    "expires_at": 9,
    "fence": 2,
    "hash": "h",
    "in_degree": 2,
    "lease_until": 700,
    "log": {"t": "N1", "at": 1},
    "node": "n",
    "node_id": "n",
    "nodes": 1,
    "not_before": 200,
    "note": "",
    "now": 150,
    "owner": "w/1",
    "payload_hash": "p",
    "percent": 50,
    "policy": [1, 1, 1, 1],
    "pool": "default",
    "reason": "TASK_ERROR",
    "result_hash": "h",
    "root_id": "1",
    "scope": "s",
    "seen_due_at": 900,
    "seen_lease": 500,
    "seen_sends": 1,
    "source": 2,
    "tenant": "acme",
    "tenant_pk": "T#acme",
    "tenant_sk": "1",
    "workflow_id": "w",
    "workflow_version": 1,
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """A write that is carried out on `accepted` and refused on `refused`, and why."""

    operation: Operation
    why: str
    accepted: Attributes | None
    refused: Attributes

    @property
    def name(self) -> str:
        """Id of the test."""
        return f"{self.operation.name}: {self.why}"

    def args(self) -> Args:
        """Arguments that fit both rows."""
        return {name: _ARGS[name] for name in self.operation.arguments}

    def holds(self, operation: Operation) -> bool:
        """True when `operation` tells the two rows apart."""
        args = self.args()
        return (
            apply(operation, self.accepted, args) is not None
            and apply(operation, self.refused, args) is None
        )


def _frontier() -> Iterator[Refusal]:
    none_taken: dict[str, Value] = {**_READY, "node_declined": _BOTH}
    partly: dict[str, Value] = {**_READY, "node_resolved": _ONE}
    rows: tuple[tuple[Operation, dict[str, Value]], ...] = (
        (op.RESOLVE_TAKEN, partly),
        (op.RESOLVE_DECLINED, partly),
        (op.QUEUE_ROOT, _KEY),
        (op.QUEUE_SINGLE, _KEY),
        (op.QUEUE_JOIN, _READY),
        (op.SKIP_SINGLE, _KEY),
        (op.SKIP_JOIN, none_taken),
        (op.PASS_SINGLE, _KEY),
        (op.PASS_JOIN, _READY),
        (op.END_SINGLE_DECLINED, _KEY),
        (op.END_JOIN, _READY),
    )
    for operation, row in rows:
        decided = {**row, "node_status": "completed"}
        yield Refusal(operation, "the node is decided", row, decided)
    for operation in (op.QUEUE_JOIN, op.PASS_JOIN, op.END_JOIN):
        yield Refusal(operation, "an edge is unresolved", _READY, partly)
    unresolved = {**none_taken, "node_resolved": _ONE}
    yield Refusal(op.SKIP_JOIN, "an edge is unresolved", none_taken, unresolved)
    one_taken = {**_READY, "node_declined": _ONE}
    for operation in (op.QUEUE_JOIN, op.PASS_JOIN):
        yield Refusal(operation, "no edge is taken", one_taken, none_taken)
    yield Refusal(op.SKIP_JOIN, "an edge is taken", none_taken, one_taken)


def _attempts() -> Iterator[Refusal]:
    at_queued = (op.CLAIM, op.RESEND, op.RETRY_UNDELIVERED, op.FAIL_UNDELIVERED)
    stalled = (op.RETRY_STALLED, op.FAIL_STALLED, op.CANCEL_STALLED)
    at_running = (
        op.RENEW_LEASE,
        op.REPORT_PROGRESS,
        op.COMPLETE,
        op.RETRY,
        op.FAIL,
        op.CANCEL_CLAIMED,
        *stalled,
    )
    for operation in (*at_queued, op.CANCEL_UNCLAIMED):
        yield Refusal(operation, "the node runs", _QUEUED, {**_QUEUED, "node_status": "running"})
        yield Refusal(operation, "a newer attempt", _QUEUED, {**_QUEUED, "node_fence": 3})
    for operation in at_running:
        ended = {**_RUNNING, "node_status": "completed"}
        yield Refusal(operation, "the node has ended", _RUNNING, ended)
        yield Refusal(operation, "a newer attempt", _RUNNING, {**_RUNNING, "node_fence": 3})
    for operation in stalled:
        renewed = {**_RUNNING, "node_lease_until": 501}
        yield Refusal(operation, "the lease was renewed", _RUNNING, renewed)
    yield Refusal(op.CLAIM, "its time has not come", _QUEUED, {**_QUEUED, "node_not_before": 151})
    yield Refusal(op.RESEND, "somebody has sent it", _QUEUED, {**_QUEUED, "node_sends": 2})


def _executions() -> Iterator[Refusal]:
    pending: dict[str, Value] = {**_META, "exec_status": "pending"}
    running: dict[str, Value] = {**_META, "exec_status": "running"}
    failed: dict[str, Value] = {**_META, "exec_status": "failed"}
    yield Refusal(op.START, "it runs", pending, running)
    for operation in (op.COMPLETE_EXECUTION, op.FAIL_EXECUTION, op.TIME_OUT, op.RESUME, op.PARK):
        yield Refusal(operation, "it has ended", running, failed)
    for operation in (op.CANCEL_EXECUTION, op.PASS_DEADLINE):
        yield Refusal(operation, "it has ended", pending, failed)
    yield Refusal(op.PARK, "it is parked", running, {**running, "exec_parked": "SWEEP_FAILED"})
    yield Refusal(op.RETIRE, "it runs", failed, running)
    yield Refusal(op.RETIRE, "another sweep moved it", failed, {**failed, "due_at": 901})
    yield Refusal(op.DEFER, "another sweep moved it", running, {**running, "due_at": 901})
    yield Refusal(op.CREATE_EXECUTION, "it exists", None, pending)
    stored: dict[str, Value] = {"pk": "EX#acme#1", "sk": "INPUT", "input_hash": "h"}
    yield Refusal(op.STORE_INPUT, "it is stored", None, stored)
    claimed: dict[str, Value] = {"pk": "IDEM#acme#d", "sk": "v1", "idem_execution_id": "1"}
    yield Refusal(op.CLAIM_IDEMPOTENCY, "the key is taken", None, claimed)
    registered: dict[str, Value] = {"pk": "WF#acme#w", "sk": "v1", "wf_hash": "h"}
    yield Refusal(op.REGISTER_WORKFLOW, "the version exists", None, registered)


REFUSALS: Final[tuple[Refusal, ...]] = (*_frontier(), *_attempts(), *_executions())
