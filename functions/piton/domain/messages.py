"""What a committed change lets out.

Messages are a pure function of a row before and after one write. The change stream carries both
images, so the stored row is the outbox and nothing is ever sent that was not first stored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from piton.domain.canonical import Json
from piton.domain.rows import ExecutionRef, ExecutionRow, NodeRow
from piton.domain.scope import scope_hash
from piton.domain.status import EventType, ExecutionStatus, NodeStatus

SCHEMA_VERSION: Final = 1
MAX_SQS_DELAY_S: Final = 900


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Hand one attempt of a node to its pool. `delay_s` is how long it stays hidden, in seconds."""

    pool: str
    ref: ExecutionRef
    ordinal: int
    node_id: str
    fence: int
    attempt: int
    not_before: int
    delay_s: int

    def to_json(self) -> dict[str, Json]:
        """Return the message body."""
        return {
            "schema_version": SCHEMA_VERSION,
            "tenant": self.ref.tenant,
            "execution_id": self.ref.execution_id,
            "pool": self.pool,
            "ordinal": self.ordinal,
            "node_id": self.node_id,
            "fence": self.fence,
            "attempt": self.attempt,
            "not_before": self.not_before,
        }


@dataclass(frozen=True, slots=True)
class Event:
    """A fact for the bus. Repeats of one fact carry the same `event_id`."""

    type: EventType
    event_id: str
    detail: Mapping[str, Json]


Message = Dispatch | Event

_NODE_EVENTS: Final = {
    NodeStatus.COMPLETED: EventType.NODE_COMPLETED,
    NodeStatus.FAILED: EventType.NODE_FAILED,
    NodeStatus.SKIPPED: EventType.NODE_SKIPPED,
}
_EXECUTION_EVENTS: Final = {
    ExecutionStatus.PENDING: EventType.START_REQUESTED,
    ExecutionStatus.RUNNING: EventType.WORKFLOW_STARTED,
    ExecutionStatus.COMPLETED: EventType.WORKFLOW_COMPLETED,
    ExecutionStatus.FAILED: EventType.WORKFLOW_FAILED,
    ExecutionStatus.CANCELLED: EventType.WORKFLOW_CANCELLED,
}


def node_messages(ref: ExecutionRef, old: NodeRow | None, new: NodeRow) -> list[Message]:
    """Return what a change of a node's row lets out: a dispatch, an event or nothing."""
    before = old or NodeRow(new.ordinal)
    if new.status is NodeStatus.QUEUED:
        sent_again = (before.status, before.fence, before.sends) != (
            new.status,
            new.fence,
            new.sends,
        )
        return [_dispatch(ref, new)] if sent_again else []
    if new.status is before.status:
        return []
    event_type = _NODE_EVENTS.get(new.status)
    return [_node_event(ref, new, event_type)] if event_type else []


def execution_messages(old: ExecutionRow | None, new: ExecutionRow) -> list[Message]:
    """Return what a change of an execution's META row lets out."""
    out: list[Message] = []
    if old is None or old.status is not new.status:
        event_type = _EXECUTION_EVENTS.get(new.status)
        if event_type is not None:
            out.append(_execution_event(new, event_type, 0))
    if old is not None and new.resumes > old.resumes and not new.terminal:
        out.append(_execution_event(new, EventType.RESUME_REQUESTED, new.resumes))
    return out


def _dispatch(ref: ExecutionRef, row: NodeRow) -> Dispatch:
    wait_s = math.ceil(max(0, row.not_before - row.sent_at) / 1000)
    return Dispatch(
        pool=row.pool,
        ref=ref,
        ordinal=row.ordinal,
        node_id=row.node_id,
        fence=row.fence,
        attempt=row.attempt,
        not_before=row.not_before,
        delay_s=min(wait_s, MAX_SQS_DELAY_S),
    )


def _node_event(ref: ExecutionRef, row: NodeRow, event_type: EventType) -> Event:
    event_id = f"{ref.execution_id}/{row.ordinal}/{row.fence}/{event_type.value}"
    return Event(
        event_type,
        event_id,
        {
            "schema_version": SCHEMA_VERSION,
            "event_id": event_id,
            "tenant": ref.tenant,
            "execution_id": ref.execution_id,
            "node_id": row.node_id,
            "ordinal": row.ordinal,
            "attempt": row.attempt,
            "fence": row.fence,
            "scope": row.scope,
            "reason": row.reason,
            "occurred_at": row.finished_at,
        },
    )


def _execution_event(row: ExecutionRow, event_type: EventType, count: int) -> Event:
    event_id = f"{row.ref.execution_id}/-/{count}/{event_type.value}"
    occurred_at = {
        EventType.START_REQUESTED: row.created_at,
        EventType.WORKFLOW_STARTED: row.started_at,
        EventType.RESUME_REQUESTED: row.resumed_at,
    }.get(event_type, row.finished_at)
    return Event(
        event_type,
        event_id,
        {
            "schema_version": SCHEMA_VERSION,
            "event_id": event_id,
            "tenant": row.ref.tenant,
            "execution_id": row.ref.execution_id,
            "workflow_id": row.workflow_id,
            "workflow_version": row.workflow_version,
            "scope": scope_hash(row.scope),
            "reason": row.reason,
            "node_id": row.node,
            "occurred_at": occurred_at,
        },
    )
