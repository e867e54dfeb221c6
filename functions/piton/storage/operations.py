"""Every write of the engine. Nothing else builds an update expression.

Timeline of a node's row, and the fragment that protects each step:

    no row --resolve--> pending --queue--> queued --claim--> running --complete--> completed
           UNDECIDED           READY       AT_FENCE(queued)  AT_FENCE(running)

`AT_FENCE` refuses every actor of an older attempt. `SEEN_LEASE` in addition refuses a sweep that
judged a lease which has been renewed since.
"""

from __future__ import annotations

from typing import Final

from piton.domain.status import (
    TERMINAL_EXECUTION_STATUSES,
    ExecutionStatus,
    NodeStatus,
)
from piton.storage.algebra import (
    AddToSet,
    Append,
    Arg,
    AtMost,
    Change,
    Const,
    Eq,
    Guard,
    In,
    Increment,
    Item,
    NotExists,
    Operation,
    Remove,
    Returns,
    Set,
    SetIfMissing,
    SizeBelow,
    SizeIs,
)

# --- Guard fragments -----------------------------------------------------------------------

UNDECIDED: Final = NotExists("node_status")
ALL_RESOLVED: Final = SizeIs("node_resolved", Arg("in_degree"))
ONE_TAKEN: Final = SizeBelow("node_declined", Arg("in_degree"))
NONE_TAKEN: Final = SizeIs("node_declined", Arg("in_degree"))
SEEN_LEASE: Final = Eq("node_lease_until", Arg("seen_lease"))


def _at_fence(status: NodeStatus) -> tuple[Guard, ...]:
    return (Eq("node_status", Const(status.value)), Eq("node_fence", Arg("fence")))


def _execution_is(*statuses: ExecutionStatus) -> Guard:
    return In("exec_status", tuple(sorted(status.value for status in statuses)))


QUEUED: Final = _at_fence(NodeStatus.QUEUED)
RUNNING: Final = _at_fence(NodeStatus.RUNNING)
NOT_ENDED: Final = _execution_is(ExecutionStatus.PENDING, ExecutionStatus.RUNNING)
IS_RUNNING: Final = _execution_is(ExecutionStatus.RUNNING)

# --- Change fragments ----------------------------------------------------------------------

NODE_LOG: Final = Append("node_log", Arg("log"))
EXEC_LOG: Final = Append("exec_log", Arg("log"))
RESOLVE: Final = AddToSet("node_resolved", Arg("source"))
DECLINE: Final = AddToSet("node_declined", Arg("source"))
BORN: Final[tuple[Change, ...]] = (
    Set("node_id", Arg("node_id")),
    SetIfMissing("expires_at", Arg("expires_at")),
)
END_LEASE: Final[tuple[Change, ...]] = (
    Remove("node_lease_owner"),
    Remove("node_lease_until"),
)


def _to_node(status: NodeStatus) -> Change:
    return Set("node_status", Const(status.value))


def _to_execution(status: ExecutionStatus) -> Change:
    return Set("exec_status", Const(status.value))


QUEUE: Final[tuple[Change, ...]] = (
    *BORN,
    _to_node(NodeStatus.QUEUED),
    Set("node_pool", Arg("pool")),
    Set("node_scope", Arg("scope")),
    Set("node_fence", Const(1)),
    Set("node_attempt", Const(1)),
    Set("node_sends", Const(0)),
    Set("node_not_before", Arg("now")),
    Set("node_queued_at", Arg("now")),
    Set("node_sent_at", Arg("now")),
    NODE_LOG,
)
SKIP: Final[tuple[Change, ...]] = (
    *BORN,
    _to_node(NodeStatus.SKIPPED),
    Set("node_scope", Arg("scope")),
    Set("node_finished_at", Arg("now")),
    NODE_LOG,
)
PASS: Final[tuple[Change, ...]] = (
    *BORN,
    _to_node(NodeStatus.COMPLETED),
    Set("node_scope", Arg("scope")),
    Set("node_finished_at", Arg("now")),
    NODE_LOG,
)
REQUEUE: Final[tuple[Change, ...]] = (
    _to_node(NodeStatus.QUEUED),
    Increment("node_fence"),
    Increment("node_attempt"),
    Set("node_sends", Const(0)),
    Set("node_not_before", Arg("not_before")),
    Set("node_queued_at", Arg("now")),
    Set("node_sent_at", Arg("now")),
    Set("node_reason", Arg("reason")),
    Remove("node_progress"),
    Remove("node_progress_note"),
    *END_LEASE,
    NODE_LOG,
)
DEAD_LETTER: Final[tuple[Change, ...]] = (
    _to_node(NodeStatus.FAILED),
    Set("node_reason", Arg("reason")),
    Set("node_finished_at", Arg("now")),
    Set("dead_tenant", Arg("tenant")),
    Set("dead_at", Arg("now")),
    *END_LEASE,
    NODE_LOG,
)
CANCEL_NODE: Final[tuple[Change, ...]] = (
    _to_node(NodeStatus.CANCELLED),
    Increment("node_fence"),
    Set("node_finished_at", Arg("now")),
    *END_LEASE,
    NODE_LOG,
)
END_EXECUTION: Final[tuple[Change, ...]] = (
    Set("exec_finished_at", Arg("now")),
    Set("due_at", Arg("due_at")),
    EXEC_LOG,
)

# --- Nodes: frontier -----------------------------------------------------------------------

RESOLVE_TAKEN: Final = Operation(
    "node.resolve_taken", Item.NODE, (UNDECIDED,), (RESOLVE, *BORN), returns=Returns.UPDATED_NEW
)
RESOLVE_DECLINED: Final = Operation(
    "node.resolve_declined",
    Item.NODE,
    (UNDECIDED,),
    (RESOLVE, DECLINE, *BORN),
    returns=Returns.UPDATED_NEW,
)
QUEUE_ROOT: Final = Operation("node.queue_root", Item.NODE, (UNDECIDED,), QUEUE, "N1")
QUEUE_SINGLE: Final = Operation(
    "node.queue_single", Item.NODE, (UNDECIDED,), (RESOLVE, *QUEUE), "N1"
)
QUEUE_JOIN: Final = Operation(
    "node.queue_join", Item.NODE, (UNDECIDED, ALL_RESOLVED, ONE_TAKEN), QUEUE, "N1"
)
SKIP_SINGLE: Final = Operation(
    "node.skip_single", Item.NODE, (UNDECIDED,), (RESOLVE, DECLINE, *SKIP), "N2"
)
SKIP_JOIN: Final = Operation(
    "node.skip_join", Item.NODE, (UNDECIDED, ALL_RESOLVED, NONE_TAKEN), SKIP, "N2"
)
PASS_SINGLE: Final = Operation("node.pass_single", Item.NODE, (UNDECIDED,), (RESOLVE, *PASS), "N3")
PASS_JOIN: Final = Operation(
    "node.pass_join", Item.NODE, (UNDECIDED, ALL_RESOLVED, ONE_TAKEN), PASS, "N3"
)
END_SINGLE_DECLINED: Final = Operation(
    "node.end_single_declined", Item.NODE, (UNDECIDED,), (RESOLVE, DECLINE, *PASS), "N3"
)
END_JOIN: Final = Operation("node.end_join", Item.NODE, (UNDECIDED, ALL_RESOLVED), PASS, "N3")

# --- Nodes: attempts -----------------------------------------------------------------------

CLAIM: Final = Operation(
    "node.claim",
    Item.NODE,
    (*QUEUED, AtMost("node_not_before", Arg("now"))),
    (
        _to_node(NodeStatus.RUNNING),
        Set("node_lease_owner", Arg("owner")),
        Set("node_lease_until", Arg("lease_until")),
        Set("node_claimed_at", Arg("now")),
        Set("node_policy", Arg("policy")),
        Set("node_code_hash", Arg("code_hash")),
        NODE_LOG,
    ),
    "N4",
)
RENEW_LEASE: Final = Operation(
    "node.renew_lease", Item.NODE, RUNNING, (Set("node_lease_until", Arg("lease_until")),), "N5"
)
REPORT_PROGRESS: Final = Operation(
    "node.report_progress",
    Item.NODE,
    RUNNING,
    (
        Set("node_lease_until", Arg("lease_until")),
        Set("node_progress", Arg("percent")),
        Set("node_progress_note", Arg("note")),
    ),
    "N5",
)
COMPLETE: Final = Operation(
    "node.complete",
    Item.NODE,
    RUNNING,
    (
        _to_node(NodeStatus.COMPLETED),
        Set("node_result", Arg("result", optional=True)),
        Set("node_result_ref", Arg("result_ref", optional=True)),
        Set("node_result_hash", Arg("result_hash")),
        Set("node_finished_at", Arg("now")),
        Remove("node_reason"),
        *END_LEASE,
        NODE_LOG,
    ),
    "N6",
)
RETRY: Final = Operation("node.retry", Item.NODE, RUNNING, REQUEUE, "N7")
RETRY_STALLED: Final = Operation(
    "node.retry_stalled", Item.NODE, (*RUNNING, SEEN_LEASE), REQUEUE, "N7"
)
FAIL: Final = Operation("node.fail", Item.NODE, RUNNING, DEAD_LETTER, "N8")
FAIL_STALLED: Final = Operation(
    "node.fail_stalled", Item.NODE, (*RUNNING, SEEN_LEASE), DEAD_LETTER, "N8"
)
RESEND: Final = Operation(
    "node.resend",
    Item.NODE,
    (*QUEUED, Eq("node_sends", Arg("seen_sends"))),
    (Increment("node_sends"), Set("node_sent_at", Arg("now"))),
    "N9",
)
RETRY_UNDELIVERED: Final = Operation("node.retry_undelivered", Item.NODE, QUEUED, REQUEUE, "N10")
FAIL_UNDELIVERED: Final = Operation("node.fail_undelivered", Item.NODE, QUEUED, DEAD_LETTER, "N10")
CANCEL_UNCLAIMED: Final = Operation(
    "node.cancel_unclaimed",
    Item.NODE,
    (
        In("node_status", (NodeStatus.QUEUED.value, NodeStatus.WAITING.value)),
        Eq("node_fence", Arg("fence")),
    ),
    CANCEL_NODE,
    "N13",
)
CANCEL_STALLED: Final = Operation(
    "node.cancel_stalled", Item.NODE, (*RUNNING, SEEN_LEASE), CANCEL_NODE, "N14"
)
CANCEL_CLAIMED: Final = Operation("node.cancel_claimed", Item.NODE, RUNNING, CANCEL_NODE, "N15")

# --- Executions ----------------------------------------------------------------------------

CREATE_EXECUTION: Final = Operation(
    "execution.create",
    Item.META,
    (NotExists("exec_status"),),
    (
        _to_execution(ExecutionStatus.PENDING),
        Set("exec_workflow_id", Arg("workflow_id")),
        Set("exec_workflow_version", Arg("workflow_version")),
        Set("exec_definition_hash", Arg("definition_hash")),
        Set("exec_root_id", Arg("root_id")),
        Set("exec_scope", Arg("scope")),
        Set("exec_created_at", Arg("now")),
        Set("exec_ends_by", Arg("ends_by")),
        Set("exec_deadline", Arg("deadline", optional=True)),
        Set("exec_actor", Arg("actor")),
        Set("expires_at", Arg("expires_at")),
        Set("due_shard", Arg("due_shard")),
        Set("due_at", Arg("due_at")),
        Set("tenant_pk", Arg("tenant_pk")),
        Set("tenant_sk", Arg("tenant_sk")),
        EXEC_LOG,
    ),
    "E1",
    transactional=True,
)
STORE_INPUT: Final = Operation(
    "input.store",
    Item.INPUT,
    (NotExists("input_hash"),),
    (
        Set("input_body", Arg("body", optional=True)),
        Set("input_ref", Arg("ref", optional=True)),
        Set("input_hash", Arg("hash")),
        Set("expires_at", Arg("expires_at")),
    ),
    transactional=True,
)
CLAIM_IDEMPOTENCY: Final = Operation(
    "idempotency.claim",
    Item.IDEMPOTENCY,
    (NotExists("idem_execution_id"),),
    (
        Set("idem_execution_id", Arg("execution_id")),
        Set("idem_payload_hash", Arg("payload_hash")),
        Set("expires_at", Arg("expires_at")),
    ),
    transactional=True,
)
START: Final = Operation(
    "execution.start",
    Item.META,
    (_execution_is(ExecutionStatus.PENDING),),
    (_to_execution(ExecutionStatus.RUNNING), Set("exec_started_at", Arg("now")), EXEC_LOG),
    "E2",
)
COMPLETE_EXECUTION: Final = Operation(
    "execution.complete",
    Item.META,
    (IS_RUNNING,),
    (_to_execution(ExecutionStatus.COMPLETED), *END_EXECUTION),
    "E3",
)
FAIL_EXECUTION: Final = Operation(
    "execution.fail",
    Item.META,
    (IS_RUNNING,),
    (
        _to_execution(ExecutionStatus.FAILED),
        Set("exec_reason", Arg("reason")),
        Set("exec_node", Arg("node")),
        *END_EXECUTION,
    ),
    "E4",
)
CANCEL_EXECUTION: Final = Operation(
    "execution.cancel",
    Item.META,
    (NOT_ENDED,),
    (
        _to_execution(ExecutionStatus.CANCELLED),
        Set("exec_reason", Arg("reason")),
        Set("exec_note", Arg("note", optional=True)),
        *END_EXECUTION,
    ),
    "E5",
)
PASS_DEADLINE: Final = Operation(
    "execution.pass_deadline",
    Item.META,
    (NOT_ENDED,),
    (
        _to_execution(ExecutionStatus.CANCELLED),
        Set("exec_reason", Arg("reason")),
        *END_EXECUTION,
    ),
    "E6",
)
TIME_OUT: Final = Operation(
    "execution.time_out",
    Item.META,
    (IS_RUNNING,),
    (_to_execution(ExecutionStatus.FAILED), Set("exec_reason", Arg("reason")), *END_EXECUTION),
    "E7",
)
RESUME: Final = Operation(
    "execution.resume",
    Item.META,
    (IS_RUNNING,),
    (
        Increment("exec_resumes"),
        Set("exec_resumed_at", Arg("now")),
        Set("exec_resumed_by", Arg("actor")),
        Remove("exec_parked"),
    ),
    "E8",
)
RETIRE: Final = Operation(
    "execution.retire",
    Item.META,
    (
        _execution_is(*TERMINAL_EXECUTION_STATUSES),
        Eq("due_at", Arg("seen_due_at")),
    ),
    (Remove("due_shard"), Remove("due_at")),
    "E9",
)
DEFER: Final = Operation(
    "execution.defer",
    Item.META,
    (Eq("due_at", Arg("seen_due_at")),),
    (Set("due_at", Arg("due_at")),),
)
PARK: Final = Operation(
    "execution.park",
    Item.META,
    (IS_RUNNING, NotExists("exec_parked")),
    (Set("exec_parked", Arg("reason")),),
)

# --- Workflows -----------------------------------------------------------------------------

REGISTER_WORKFLOW: Final = Operation(
    "workflow.register",
    Item.WORKFLOW,
    (NotExists("wf_hash"),),
    (
        Set("wf_hash", Arg("hash")),
        Set("wf_body", Arg("body", optional=True)),
        Set("wf_ref", Arg("ref", optional=True)),
        Set("wf_nodes", Arg("nodes")),
        Set("wf_created_at", Arg("now")),
        Set("wf_actor", Arg("actor")),
        # Only a workflow's first version stands in the tenant's index: one entry per workflow.
        Set("wf_tenant", Arg("tenant", optional=True)),
        Set("wf_id", Arg("workflow_id", optional=True)),
    ),
)

OPERATIONS: Final[tuple[Operation, ...]] = tuple(
    value for value in tuple(globals().values()) if isinstance(value, Operation)
)
BY_NAME: Final = {operation.name: operation for operation in OPERATIONS}
