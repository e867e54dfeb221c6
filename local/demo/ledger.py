"""What was planned, what was done to it and what was seen of it.

What is seen comes from three sources that cannot copy from each other: the body log is a file that
workers write, the facts come off the event bus, and the records are what the API tells of stored
rows. Times are epoch milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from piton.domain.status import EventType, ExecutionStatus, NodeStatus

ENDS_OF_EXECUTIONS: Final[Mapping[EventType, ExecutionStatus]] = {
    EventType.WORKFLOW_COMPLETED: ExecutionStatus.COMPLETED,
    EventType.WORKFLOW_FAILED: ExecutionStatus.FAILED,
    EventType.WORKFLOW_CANCELLED: ExecutionStatus.CANCELLED,
}
ENDS_OF_NODES: Final[Mapping[EventType, NodeStatus]] = {
    EventType.NODE_COMPLETED: NodeStatus.COMPLETED,
    EventType.NODE_FAILED: NodeStatus.FAILED,
    EventType.NODE_SKIPPED: NodeStatus.SKIPPED,
}


@dataclass(frozen=True, slots=True)
class BodyStart:
    """A worker entered the body of an attempt."""

    at: int
    pid: int
    tenant: str
    execution_id: str
    ordinal: int
    node_id: str
    fence: int
    attempt: int

    @classmethod
    def parse(cls, line: str) -> BodyStart:
        """Read one line of the body log."""
        entry = json.loads(line)
        return cls(**{name: entry[name] for name in cls.__slots__})


@dataclass(frozen=True, slots=True)
class Fact:
    """An event that the bus delivered. `node_id` and `fence` are None for executions."""

    type: EventType
    event_id: str
    execution_id: str
    occurred_at: int
    node_id: str | None = None
    fence: int | None = None

    @classmethod
    def parse(cls, body: str) -> Fact:
        """Read an EventBridge envelope."""
        envelope = json.loads(body)
        detail = envelope["detail"]
        is_node = "fence" in detail
        return cls(
            type=EventType(envelope["detail-type"]),
            event_id=detail["event_id"],
            execution_id=detail["execution_id"],
            occurred_at=detail["occurred_at"] or 0,
            node_id=detail["node_id"] if is_node else None,
            fence=detail["fence"] if is_node else None,
        )


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One attempt as the API shows it."""

    number: int
    outcome: str
    queued_at: int | None
    started_at: int | None
    finished_at: int | None


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node as the API shows it."""

    id: str
    status: NodeStatus
    needs: tuple[str, ...] = ()
    queued_at: int | None = None
    finished_at: int | None = None
    reason: str | None = None
    attempts: tuple[AttemptRecord, ...] = ()

    @classmethod
    def of(cls, node: Mapping[str, Any]) -> NodeRecord:
        """Read the type `Node` of the API."""
        return cls(
            id=node["id"],
            status=NodeStatus[node["status"]],
            needs=tuple(node["needs"]),
            queued_at=epoch_ms(node["queuedAt"]),
            finished_at=epoch_ms(node["finishedAt"]),
            reason=node["reason"],
            attempts=tuple(
                AttemptRecord(
                    number=attempt["number"],
                    outcome=attempt["outcome"],
                    queued_at=epoch_ms(attempt["queuedAt"]),
                    started_at=epoch_ms(attempt["startedAt"]),
                    finished_at=epoch_ms(attempt["finishedAt"]),
                )
                for attempt in node["attempts"]
            ),
        )


@dataclass(frozen=True, slots=True)
class ExecutionRecord:
    """An execution as the API shows it, with all of its nodes."""

    id: str
    status: ExecutionStatus
    nodes: tuple[NodeRecord, ...]
    reason: str | None = None

    def node(self, node_id: str) -> NodeRecord:
        """Return a node. Raises `KeyError` when there is none of this id."""
        for node in self.nodes:
            if node.id == node_id:
                return node
        raise KeyError(node_id)


@dataclass(frozen=True, slots=True)
class Expected:
    """What has to become of an execution: its status, and that of the nodes that tell."""

    status: ExecutionStatus = ExecutionStatus.COMPLETED
    nodes: Mapping[str, NodeStatus] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Kill:
    """A worker process was ended with SIGKILL while it was in the bodies of `victims`."""

    at: int
    pid: int
    victims: tuple[BodyStart, ...]


@dataclass(frozen=True, slots=True)
class Drop:
    """One completion message was deleted from the advance queue; `successors` wait for it."""

    at: int
    execution_id: str
    node_id: str
    successors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Resume:
    """`resumeExecution` was called at `at` and answered at `answered`."""

    at: int
    answered: int
    execution_id: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that was seen. `metrics` are the watchdog's counters, summed over the run."""

    records: Sequence[ExecutionRecord]
    bodies: Sequence[BodyStart]
    facts: Sequence[Fact]
    metrics: Mapping[str, float] = field(default_factory=dict)


def epoch_ms(moment: str | None) -> int | None:
    """Return an ISO 8601 moment of the API in epoch milliseconds."""
    if moment is None:
        return None
    return round(datetime.fromisoformat(moment).timestamp() * 1000)
