"""Keys of every item, and the indexes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from piton.domain.names import Tenant, is_document
from piton.domain.rows import INPUT_SK, META_SK, ExecutionRef, node_sk
from piton.storage.algebra import Item, Table

DUE_SHARDS: Final = tuple(f"due-{number}" for number in range(8))
MAX_OPERATION_VERSION: Final = 999_999

LEADING_KEYS: Final[dict[Item, str]] = {
    Item.META: "EX#*",
    Item.INPUT: "EX#*",
    Item.NODE: "EX#*",
    Item.IDEMPOTENCY: "IDEM#*",
    Item.WORKFLOW: "WF#*",
}
"""Partition keys of each kind of item, in the pattern language of IAM's StringLike."""

PAYLOAD_PREFIX: Final = "payloads/"
"""Blobs of executions. They expire with the rows that refer to them."""

WORKFLOW_PREFIX: Final = "workflows/"
"""Blobs of registered workflows. They are kept for ever, like the rows that refer to them."""


@dataclass(frozen=True, slots=True)
class Key:
    """Primary key of one item."""

    table: Table
    pk: str
    sk: str


@dataclass(frozen=True, slots=True)
class Index:
    """A sparse index: its keys, and which attributes it projects besides all keys."""

    name: str
    table: Table
    partition: str
    sort: str
    sort_is_number: bool
    projected: tuple[str, ...] = ()


DUE: Final = Index("due", Table.EXECUTIONS, "due_shard", "due_at", sort_is_number=True)
BY_TENANT: Final = Index(
    "by_tenant",
    Table.EXECUTIONS,
    "tenant_pk",
    "tenant_sk",
    sort_is_number=False,
    projected=("exec_status", "exec_workflow_id"),
)
DEAD: Final = Index(
    "dead",
    Table.EXECUTIONS,
    "dead_tenant",
    "dead_at",
    sort_is_number=True,
    projected=("node_id", "node_reason"),
)
WORKFLOWS_BY_TENANT: Final = Index(
    "by_tenant", Table.WORKFLOWS, "wf_tenant", "wf_id", sort_is_number=False
)
INDEXES: Final = (DUE, BY_TENANT, DEAD, WORKFLOWS_BY_TENANT)


def _partition(ref: ExecutionRef) -> str:
    Tenant(ref.tenant)
    return ref.pk


def meta(ref: ExecutionRef) -> Key:
    """Key of an execution's META row."""
    return Key(Table.EXECUTIONS, _partition(ref), META_SK)


def execution_input(ref: ExecutionRef) -> Key:
    """Key of an execution's input."""
    return Key(Table.EXECUTIONS, _partition(ref), INPUT_SK)


def node(ref: ExecutionRef, ordinal: int) -> Key:
    """Key of a node's row."""
    return Key(Table.EXECUTIONS, _partition(ref), node_sk(ordinal))


def idempotency(tenant: Tenant, document: str, operation_version: int) -> Key:
    """Key of the claim that one document was taken in under one operation version.

    Raises `ValueError` unless all three are of their form.
    """
    if not is_document(document) or not 1 <= operation_version <= MAX_OPERATION_VERSION:
        raise ValueError("not the name of a document and the number of an operation version")
    tenant = Tenant(tenant)
    return Key(Table.EXECUTIONS, f"IDEM#{tenant}#{document}", f"v{operation_version:06d}")


def workflow_partition(tenant: str, workflow_id: str) -> str:
    """Partition of all versions of one workflow."""
    return f"WF#{Tenant(tenant)}#{workflow_id}"


def workflow(tenant: str, workflow_id: str, version: int) -> Key:
    """Key of one version of a workflow."""
    return Key(Table.WORKFLOWS, workflow_partition(tenant, workflow_id), f"v{version:06d}")


def payload_blob(ref: ExecutionRef, content_hash: str) -> str:
    """Blob key of an input or a result of an execution."""
    return f"{PAYLOAD_PREFIX}{ref.tenant}/{ref.execution_id}/{content_hash}"


def workflow_blob(tenant: str, content_hash: str) -> str:
    """Blob key of a workflow that is too large for its row."""
    return f"{WORKFLOW_PREFIX}{tenant}/{content_hash}"


def due_shard(ref: ExecutionRef) -> str:
    """Shard of the watchdog's work list on which this execution stands."""
    first = hashlib.sha256(ref.pk.encode()).digest()[0]
    return DUE_SHARDS[first % len(DUE_SHARDS)]


def tenant_partition(tenant: str) -> str:
    """Partition of a tenant's executions in `by_tenant`."""
    return f"T#{Tenant(tenant)}"
