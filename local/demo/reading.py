"""Reading executions: through the API, as any of its users could, and single rows at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from local.client import Answer, Api
from local.demo.ledger import BodyStart, ExecutionRecord, NodeRecord
from local.stack import Stack
from piton.domain.rows import ExecutionRef
from piton.domain.status import ExecutionStatus, NodeStatus
from piton.storage import keys

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


def is_in_body(stack: Stack, start: BodyStart) -> bool:
    """Whether the row of this very attempt says that it is running.

    A body takes seconds and the API answers for whole executions, so this reads the one row.
    """
    key = keys.node(ExecutionRef(start.tenant, start.execution_id), start.ordinal)
    row = stack.aws.dynamodb.get_item(
        TableName=stack.outputs.executions_table,
        Key={"pk": {"S": key.pk}, "sk": {"S": key.sk}},
        ProjectionExpression="node_status, node_fence",
        ConsistentRead=True,
    ).get("Item", {})
    running = {"S": NodeStatus.RUNNING.value}
    return row == {"node_status": running, "node_fence": {"N": str(start.fence)}}
