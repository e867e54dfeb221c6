"""Tables, rows, attributes and indexes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from local.docs.markdown import code, codes, table
from piton.storage.algebra import Item
from piton.storage.keys import (
    BY_TENANT,
    DEAD,
    DUE,
    DUE_SHARDS,
    INDEXES,
    WORKFLOWS_BY_TENANT,
    Index,
)
from piton.storage.operations import OPERATIONS

KEYS: Final[Mapping[Item, tuple[str, str]]] = {
    Item.META: ("EX#{tenant}#{execution_id}", "META"),
    Item.INPUT: ("EX#{tenant}#{execution_id}", "INPUT"),
    Item.NODE: ("EX#{tenant}#{execution_id}", "NODE#{ordinal:05d}"),
    Item.IDEMPOTENCY: ("IDEM#{tenant}#{document}", "v{operation_version:06d}"),
    Item.WORKFLOW: ("WF#{tenant}#{workflow_id}", "v{version:06d}"),
}

MEANINGS: Final[Mapping[str, str]] = {
    "exec_status": "Where the execution stands.",
    "exec_workflow_id": "The workflow it runs,",
    "exec_workflow_version": "the version,",
    "exec_definition_hash": "and its hash. A stored workflow that does not match it is refused.",
    "exec_root_id": "First execution of a chain of redrives; itself without one.",
    "exec_scope": "Effective scope as canonical text.",
    "exec_created_at": "When it was taken in.",
    "exec_started_at": "When it began to run.",
    "exec_finished_at": "When it ended.",
    "exec_ends_by": "When the watchdog ends it at the latest.",
    "exec_deadline": "The caller's deadline, if one was given.",
    "exec_reason": "Why it failed or was cancelled, as a code.",
    "exec_node": "The node that made it fail.",
    "exec_note": "What the caller wrote on cancelling it.",
    "exec_actor": "Who started it.",
    "exec_resumes": "How often `resumeExecution` was called.",
    "exec_resumed_at": "When last,",
    "exec_resumed_by": "and by whom.",
    "exec_parked": "Why the watchdog wants a person to look, as a code.",
    "exec_log": "Its transitions.",
    "due_shard": "Partition of the watchdog's list.",
    "due_at": "When the watchdog looks at it next.",
    "tenant_pk": "Partition of the tenant's list.",
    "tenant_sk": "Place on the tenant's list.",
    "expires_at": "Time to live, in epoch seconds.",
    "input_body": "Canonical JSON of the input while it is small,",
    "input_ref": "else its key in the bucket.",
    "input_hash": "SHA-256 of it.",
    "node_id": "The author's name of the node.",
    "node_status": "Where the node stands. None while its in-edges resolve.",
    "node_resolved": "Ordinals of the predecessors whose edge into this node is decided.",
    "node_declined": "Those of them whose edge was not taken.",
    "node_pool": "Where it runs.",
    "node_scope": "Hash of the effective scope.",
    "node_fence": "Number of the order to run it. Only its holder can record an outcome.",
    "node_attempt": "Number of the attempt, from 1.",
    "node_sends": "How often the dispatch of this fence was repeated.",
    "node_not_before": "A claim before this moment is refused.",
    "node_queued_at": "When this attempt was queued.",
    "node_sent_at": "When its dispatch was let out last.",
    "node_claimed_at": "When a worker took it.",
    "node_lease_owner": "Process and claim that hold the lease.",
    "node_lease_until": "Until when the attempt counts as alive.",
    "node_policy": "Timeout and retry policy of the running attempt, as its worker knows them.",
    "node_code_hash": "The bundle that claimed it.",
    "node_progress": "Percent, as the task reports it,",
    "node_progress_note": "with a note.",
    "node_result": "Canonical JSON of the result while it is small,",
    "node_result_ref": "else its key in the bucket.",
    "node_result_hash": "SHA-256 of it.",
    "node_reason": "Why the latest attempt failed, as a code.",
    "node_finished_at": "When it ended.",
    "node_log": "Its transitions.",
    "dead_tenant": "Partition of the list of dead-lettered nodes.",
    "dead_at": "When it was dead-lettered.",
    "idem_execution_id": "The execution that this document and operation version started.",
    "idem_payload_hash": "Hash of the request, to tell a repetition from a conflict.",
    "wf_hash": "SHA-256 of definition and compiled graph.",
    "wf_body": "Both, compressed, while that is small,",
    "wf_ref": "else its key in the bucket.",
    "wf_nodes": "How many nodes the author wrote.",
    "wf_created_at": "When it was registered,",
    "wf_actor": "and by whom.",
    "wf_tenant": "Partition of the tenant's list; first versions only.",
    "wf_id": "Place on that list.",
}
"""Every attribute that a declared write names."""

PURPOSES: Final[Mapping[Index, str]] = {
    DUE: f"The watchdog's work list, on {len(DUE_SHARDS)} shards",
    BY_TENANT: "A tenant's executions, newest first",
    DEAD: "A tenant's dead-lettered nodes",
    WORKFLOWS_BY_TENANT: "A tenant's workflows, by id",
}


def attributes(item: Item) -> list[str]:
    """Return the attributes of a kind of item in the order in which writes name them."""
    named: dict[str, None] = {}
    for operation in OPERATIONS:
        if operation.item is item:
            for change in operation.changes:
                named[change.attribute] = None
    return list(named)


def rows_table() -> str:
    """Render every kind of item with its key."""
    return table(
        ("Item", "Table", "`pk`", "`sk`"),
        ((item.value, _table_of(item), code(pk), code(sk)) for item, (pk, sk) in KEYS.items()),
    )


def attributes_table() -> str:
    """Render every attribute with its meaning, by kind of item."""
    return table(
        ("Item", "Attribute", "Meaning"),
        (
            (item.value if first else "", code(attribute), MEANINGS[attribute])
            for item in Item
            for first, attribute in _marked(attributes(item))
        ),
    )


def indexes_table() -> str:
    """Render the secondary indexes."""
    return table(
        ("Index", "Table", "Partition", "Sort", "Also projects", "For"),
        (
            (
                code(index.name),
                index.table.value,
                code(index.partition),
                code(index.sort),
                codes(index.projected) or "keys only",
                PURPOSES[index],
            )
            for index in INDEXES
        ),
    )


def _table_of(item: Item) -> str:
    return next(o.table.value for o in OPERATIONS if o.item is item)


def _marked(names: list[str]) -> list[tuple[bool, str]]:
    return [(position == 0, name) for position, name in enumerate(names)]
