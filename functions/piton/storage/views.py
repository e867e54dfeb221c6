"""Which attributes each kind of read asks for. Reads are always projected."""

from __future__ import annotations

from enum import Enum
from typing import Final

KEY_ATTRIBUTES: Final = ("pk", "sk")

_EXECUTION_CONTROL: Final = (
    *KEY_ATTRIBUTES,
    "exec_status",
    "exec_workflow_id",
    "exec_workflow_version",
    "exec_definition_hash",
    "exec_root_id",
    "exec_scope",
    "exec_created_at",
    "exec_started_at",
    "exec_finished_at",
    "exec_ends_by",
    "exec_deadline",
    "exec_reason",
    "exec_node",
    "exec_resumes",
    "exec_parked",
    "due_at",
    "expires_at",
)
_NODE_CONTROL: Final = (
    *KEY_ATTRIBUTES,
    "node_id",
    "node_status",
    "node_resolved",
    "node_declined",
    "node_pool",
    "node_attempt",
    "node_fence",
    "node_sends",
    "node_not_before",
    "node_queued_at",
    "node_sent_at",
    "node_claimed_at",
    "node_finished_at",
    "node_lease_owner",
    "node_lease_until",
    "node_policy",
    "node_reason",
)
_NODE_RESULT: Final = (*_NODE_CONTROL, "node_result", "node_result_ref", "node_result_hash")


class ExecutionView(Enum):
    """Reads of META."""

    CONTROL = _EXECUTION_CONTROL
    FULL = (
        *_EXECUTION_CONTROL,
        "exec_actor",
        "exec_note",
        "exec_resumed_at",
        "exec_resumed_by",
        "exec_log",
    )


class NodeView(Enum):
    """Reads of node rows: what decisions need, results in addition, or everything."""

    CONTROL = _NODE_CONTROL
    RESULT = _NODE_RESULT
    FULL = (
        *_NODE_RESULT,
        "node_scope",
        "node_code_hash",
        "node_progress",
        "node_progress_note",
        "node_log",
    )


INPUT_VIEW: Final = (*KEY_ATTRIBUTES, "input_body", "input_ref", "input_hash")
IDEMPOTENCY_VIEW: Final = (*KEY_ATTRIBUTES, "idem_execution_id", "idem_payload_hash")
WORKFLOW_VIEW: Final = (
    *KEY_ATTRIBUTES,
    "wf_hash",
    "wf_body",
    "wf_ref",
    "wf_nodes",
    "wf_created_at",
    "wf_actor",
)
