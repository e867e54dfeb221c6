"""Reading executions through the API, as any of its users could."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from local.client import Answer, Api
from local.demo.ledger import ExecutionRecord, NodeRecord
from piton.domain.status import ExecutionStatus, NodeStatus

_GLANCE = """
query($id: ID!, $token: String) {
  getExecution(id: $id) {
    status
    nodes(limit: 100, nextToken: $token) { nextToken items { id status attempt } }
  }
}
"""


class ExecutionGone(LookupError):
    """An execution that was started is not there."""


@dataclass(frozen=True, slots=True)
class Glance:
    """Where an execution stands: its nodes with their status and number of attempt."""

    status: ExecutionStatus
    nodes: Mapping[str, tuple[NodeStatus, int]]


def glance(api: Api, execution_id: str) -> Glance:
    """Read statuses only. Raises `ExecutionGone` and `ApiError`."""
    nodes: dict[str, tuple[NodeStatus, int]] = {}
    token: str | None = None
    while True:
        data = api.execute(_GLANCE, {"id": execution_id, "token": token})
        execution: Answer | None = data["getExecution"]
        if execution is None:
            raise ExecutionGone(execution_id)
        page = execution["nodes"]
        for node in page["items"]:
            nodes[node["id"]] = NodeStatus[node["status"]], node["attempt"] or 0
        token = page["nextToken"]
        if token is None:
            return Glance(ExecutionStatus[execution["status"]], nodes)


def record(api: Api, execution_id: str) -> ExecutionRecord:
    """Read an execution with all of its attempts. Raises `ExecutionGone` and `ApiError`."""
    execution = api.execution(execution_id)
    if execution is None:
        raise ExecutionGone(execution_id)
    return ExecutionRecord(
        id=execution_id,
        status=ExecutionStatus[execution["status"]],
        nodes=tuple(NodeRecord.of(node) for node in api.nodes(execution_id)),
        reason=execution["reason"],
    )
