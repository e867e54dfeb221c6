"""Rows as the API shows them, in the names and forms of the GraphQL schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from piton.domain import canonical
from piton.domain.canonical import Json
from piton.domain.graph import Graph, Node
from piton.domain.rows import ExecutionRef, ExecutionRow, LogEntry, NodeRow
from piton.domain.status import NodeStatus
from piton.domain.transitions import BY_ID
from piton.ports import Workflow


def moment(at: int | None) -> str | None:
    """Return epoch milliseconds as ISO 8601 in UTC; 0 and None have no moment."""
    if not at:
        return None
    text = datetime.fromtimestamp(at // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{at % 1000:03d}Z"


def execution_view(row: ExecutionRow) -> dict[str, Json]:
    """Type `Execution`, without the fields that have a resolver of their own."""
    scope = canonical.loads(row.scope)
    return {
        "id": row.ref.execution_id,
        "status": row.status.name,
        "workflowId": row.workflow_id,
        "workflowVersion": row.workflow_version,
        "definitionHash": row.definition_hash,
        "rootId": row.root_id,
        "scope": _scope_view(scope if isinstance(scope, dict) else {}),
        "createdAt": moment(row.created_at),
        "startedAt": moment(row.started_at),
        "finishedAt": moment(row.finished_at),
        "endsBy": moment(row.ends_by),
        "deadlineAt": moment(row.deadline),
        "actor": row.actor,
        "reason": row.reason,
        "reasonNode": row.node,
        "note": row.note,
        "resumes": row.resumes,
        "resumedAt": moment(row.resumed_at),
        "resumedBy": row.resumed_by,
        "parked": row.parked,
    }


def _scope_view(scope: Mapping[str, Json]) -> Json:
    return {
        "sourceKind": scope.get("source_kind"),
        "resolutionStatus": scope.get("resolution_status"),
        "visibility": scope.get("visibility"),
        "scopeIds": scope.get("scope_ids"),
    }


def workflow_view(workflow: Workflow) -> dict[str, Json]:
    """Type `Workflow`."""
    return {
        "id": workflow.workflow_id,
        "version": workflow.version,
        "hash": workflow.hash,
        "createdAt": moment(workflow.created_at),
        "actor": workflow.actor,
        "nodeCount": len(workflow.graph.user_nodes),
        "definition": canonical.loads(workflow.definition),
    }


class AttemptOutcome(StrEnum):
    """What became of an attempt."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    RETRIED = "retried"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a node, read off the node's log. Times are epoch milliseconds."""

    number: int
    queued_at: int
    not_before: int | None = None
    started_at: int | None = None
    finished_at: int | None = None
    outcome: AttemptOutcome = AttemptOutcome.QUEUED
    reason: str | None = None
    owner: str | None = None
    code_hash: str | None = None


def attempts_of(row: NodeRow) -> list[Attempt]:
    """Return a node's attempts in order."""
    attempts: list[Attempt] = []
    for position, entry in enumerate(row.log):
        queues_next = entry.transition == "N7" or (
            # The same transition queues the next attempt or fails the node for good.
            entry.transition == "N10"
            and (position + 1 < len(row.log) or row.status is not NodeStatus.FAILED)
        )
        if entry.transition == "N1":
            attempts.append(Attempt(1, entry.at))
        elif attempts:
            attempts[-1] = _after(attempts[-1], entry, queues_next=queues_next)
            if queues_next:
                attempts.append(
                    Attempt(attempts[-1].number + 1, entry.at, not_before=entry.not_before)
                )
    return attempts


def _after(attempt: Attempt, entry: LogEntry, *, queues_next: bool) -> Attempt:
    match entry.transition:
        case "N4":
            return replace(
                attempt,
                started_at=entry.at,
                outcome=AttemptOutcome.RUNNING,
                owner=entry.owner,
                code_hash=entry.code,
            )
        case "N6":
            outcome = AttemptOutcome.COMPLETED
        case "N7" | "N8" | "N10":
            outcome = AttemptOutcome.RETRIED if queues_next else AttemptOutcome.FAILED
        case "N13" | "N14" | "N15":
            outcome = AttemptOutcome.CANCELLED
        case _:
            return attempt
    return replace(attempt, finished_at=entry.at, outcome=outcome, reason=entry.reason)


def node_view(
    ref: ExecutionRef, graph: Graph, node: Node, row: NodeRow, log_group: str | None
) -> dict[str, Json]:
    """Type `Node`. `row` is an empty one while the node has none."""
    return {
        "id": node.id,
        "ordinal": node.ordinal,
        "kind": node.kind.name,
        "action": node.action,
        "pool": node.pool,
        "needs": [graph.nodes[source].id for source in user_predecessors(graph, node.ordinal)],
        "status": row.status.name,
        "attempt": row.attempt or None,
        "queuedAt": moment(row.queued_at),
        "notBefore": moment(row.not_before),
        "startedAt": moment(row.claimed_at),
        "leaseUntil": moment(row.lease_until),
        "finishedAt": moment(row.finished_at),
        "reason": row.reason,
        "progress": row.progress,
        "progressNote": row.progress_note or None,
        "result": row.result,
        "resultHash": row.result_hash or None,
        "attempts": [_attempt_view(ref, node, each, log_group) for each in attempts_of(row)],
    }


def _attempt_view(ref: ExecutionRef, node: Node, attempt: Attempt, log_group: str | None) -> Json:
    logged = log_group is not None and attempt.started_at is not None
    return {
        "number": attempt.number,
        "queuedAt": moment(attempt.queued_at),
        "notBefore": moment(attempt.not_before),
        "startedAt": moment(attempt.started_at),
        "finishedAt": moment(attempt.finished_at),
        "outcome": attempt.outcome.name,
        "reason": attempt.reason,
        "owner": attempt.owner,
        "codeHash": attempt.code_hash,
        "log": {
            "group": log_group,
            # A pattern of plain terms: a line matches when it has all of them.
            "filter": f'"{ref.execution_id}" "{node.id}"',
            "from": moment(attempt.started_at),
            "until": moment(attempt.finished_at),
        }
        if logged
        else None,
    }


def history_view(node_id: str | None, entry: LogEntry) -> dict[str, Json]:
    """Type `HistoryEntry`; `node_id` is None for the execution's own transitions."""
    transition = BY_ID[entry.transition]
    return {
        "at": moment(entry.at),
        "transition": transition.id,
        "trigger": transition.trigger,
        "nodeId": node_id,
        "attempt": entry.attempt,
        "fence": entry.fence,
        "reason": entry.reason,
        "owner": entry.owner,
        "codeHash": entry.code,
        "notBefore": moment(entry.not_before),
        "actor": entry.actor,
    }


def user_predecessors(graph: Graph, ordinal: int) -> list[int]:
    """Ordinals of the user nodes that lead to a node, directly or through gates."""
    found: set[int] = set()
    pending = list(graph.predecessors[ordinal])
    while pending:
        source = pending.pop()
        if graph.nodes[source].is_gate:
            pending.extend(graph.predecessors[source])
        else:
            found.add(source)
    return sorted(found)
