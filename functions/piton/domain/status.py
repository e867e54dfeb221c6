"""Names that the engine stores, sends and answers: statuses, event types and reason codes."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class NodeStatus(StrEnum):
    """Where a node stands. A row without a status, or no row at all, is `PENDING`."""

    PENDING = "pending"
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"

    @property
    def terminal(self) -> bool:
        """True when no transition leaves this status."""
        return self in TERMINAL_NODE_STATUSES


class ExecutionStatus(StrEnum):
    """Where an execution stands. `COPYING` is the first status of a redrive."""

    COPYING = "copying"
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """True when no transition leaves this status."""
        return self in TERMINAL_EXECUTION_STATUSES


TERMINAL_NODE_STATUSES: Final = frozenset(
    {NodeStatus.COMPLETED, NodeStatus.FAILED, NodeStatus.CANCELLED, NodeStatus.SKIPPED}
)
LIVE_NODE_STATUSES: Final = frozenset({NodeStatus.QUEUED, NodeStatus.RUNNING, NodeStatus.WAITING})
TERMINAL_EXECUTION_STATUSES: Final = frozenset(
    {ExecutionStatus.COMPLETED, ExecutionStatus.FAILED, ExecutionStatus.CANCELLED}
)


class EdgeOn(StrEnum):
    """Which outcome of its source lets an edge be taken."""

    SUCCESS = "success"
    FAILURE = "failure"
    ALWAYS = "always"


class EventType(StrEnum):
    """Detail types on the event bus."""

    START_REQUESTED = "execution.start.requested"
    RESUME_REQUESTED = "execution.resume.requested"
    WORKFLOW_STARTED = "workflow.started"
    WORKFLOW_COMPLETED = "workflow.completed"
    WORKFLOW_FAILED = "workflow.failed"
    WORKFLOW_CANCELLED = "workflow.cancelled"
    NODE_STARTED = "workflow.node.started"
    NODE_COMPLETED = "workflow.node.completed"
    NODE_FAILED = "workflow.node.failed"
    NODE_SKIPPED = "workflow.node.skipped"


class Reason(StrEnum):
    """Codes the engine itself gives for a failed attempt or an ended execution.

    Tasks add their own codes in the same form (`UPPER_SNAKE`); see `errors.is_code`.
    """

    TASK_ERROR = "TASK_ERROR"
    TASK_NOT_FOUND = "TASK_NOT_FOUND"
    NODE_TIMEOUT = "NODE_TIMEOUT"
    NODE_HUNG = "NODE_HUNG"
    LEASE_EXPIRED = "LEASE_EXPIRED"
    DELIVERY_EXHAUSTED = "DELIVERY_EXHAUSTED"
    RESULT_NOT_JSON = "RESULT_NOT_JSON"
    RESULT_TOO_LARGE = "RESULT_TOO_LARGE"
    PAYLOAD_MISSING = "PAYLOAD_MISSING"
    PAYLOADS_UNAVAILABLE = "PAYLOADS_UNAVAILABLE"
    LAMBDA_NOT_ALLOWED = "LAMBDA_NOT_ALLOWED"
    LAMBDA_ERROR = "LAMBDA_ERROR"
    TIMEOUT_EXCEEDS_POOL = "TIMEOUT_EXCEEDS_POOL"
    NODE_FAILED = "NODE_FAILED"
    EDGE_CONDITION_ERROR = "EDGE_CONDITION_ERROR"
    EXECUTION_ENDED = "EXECUTION_ENDED"
    CANCELLED_BY_CALLER = "CANCELLED_BY_CALLER"
    DEADLINE_PASSED = "DEADLINE_PASSED"
    TIMED_OUT = "TIMED_OUT"
    RESENDS_EXHAUSTED = "RESENDS_EXHAUSTED"
    SWEEP_FAILED = "SWEEP_FAILED"
