"""The embedded store: the operations' own meaning, carried out under SQLite's write lock.

Guards, changes and the row's (old, new) images in `feed` are one transaction, so the feed is the
change stream: what is in it happened, and what happened is in it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from piton.domain.errors import Bug
from piton.domain.rows import (
    META_SK,
    NODE_SK_END,
    NODE_SK_PREFIX,
    Attributes,
    ExecutionRef,
    ExecutionRow,
    NodeRow,
    Value,
    node_sk,
)
from piton.ports import Applied, DueExecution, Outcome, Page, Refused, Write
from piton.storage import evaluate, keys, tokens
from piton.storage.algebra import Args, Operation, Table
from piton.storage.keys import Key
from piton.storage.sqlite_database import IN_MEMORY, Database, decode, encode
from piton.storage.views import KEY_ATTRIBUTES, ExecutionView, NodeView

_BATCH: Final = 500
_BEYOND_IDS: Final = "\x7f"
"""Sorts behind every workflow id."""

_READ: Final = "SELECT doc FROM items WHERE tbl = ? AND pk = ? AND sk = ?"
_INSERT: Final = "INSERT INTO items (doc, tbl, pk, sk) VALUES (?, ?, ?, ?)"
_UPDATE: Final = "UPDATE items SET doc = ? WHERE tbl = ? AND pk = ? AND sk = ?"
# Only META stands in indexes.
_INSERT_META: Final = (
    "INSERT INTO items (doc, due_at, tenant_pk, tenant_sk, status, workflow_id, tbl, pk, sk)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_UPDATE_META: Final = (
    "UPDATE items SET doc = ?, due_at = ?, tenant_pk = ?, tenant_sk = ?, status = ?,"
    " workflow_id = ? WHERE tbl = ? AND pk = ? AND sk = ?"
)
_FEED: Final = "INSERT INTO feed (tbl, pk, sk, old, new) VALUES (?, ?, ?, ?, ?)"
_READ_FEED: Final = "SELECT seq, tbl, pk, sk, old, new FROM feed WHERE seq > ? ORDER BY seq LIMIT ?"
# The newest record stays, because the next one is numbered after it.
_TRIM_FEED: Final = "DELETE FROM feed WHERE seq <= ? AND seq < (SELECT max(seq) FROM feed)"
_NODES: Final = (
    "SELECT sk, doc FROM items WHERE tbl = ? AND pk = ? AND sk > ? AND sk < ? ORDER BY sk LIMIT ?"
)
_DUE: Final = (
    "SELECT pk, due_at FROM items WHERE due_at IS NOT NULL AND due_at <= ?"
    " ORDER BY due_at, pk LIMIT ?"
)
_LIST: Final = (
    "SELECT tenant_sk, pk FROM items WHERE tenant_pk = :tenant_pk"
    " AND (:sort IS NULL OR (tenant_sk, pk) < (:sort, :pk))"
    " AND (:status IS NULL OR status = :status)"
    " AND (:workflow_id IS NULL OR workflow_id = :workflow_id)"
    " ORDER BY tenant_sk DESC, pk DESC LIMIT :limit"
)
_LATEST_WORKFLOW: Final = (
    "SELECT sk, doc FROM items WHERE tbl = ? AND pk = ? ORDER BY sk DESC LIMIT 1"
)
_WORKFLOWS: Final = (
    "SELECT pk FROM items WHERE tbl = ? AND pk > ? AND pk < ? AND sk = ? ORDER BY pk LIMIT ?"
)


@dataclass(frozen=True, slots=True)
class FeedRecord:
    """One change of one item, keys included in the images. `old` is None for a new item."""

    seq: int
    table: Table
    pk: str
    sk: str
    old: Attributes | None
    new: Attributes


class SqliteStore:
    """`ports.Store` on one SQLite file, or in memory. Threads may share it.

    `group_commits`: writes reach the disk at `flush`, see `Database`. A host that asks for it
    flushes before a body starts and before anybody is answered.
    """

    def __init__(
        self,
        path: str | Path = IN_MEMORY,
        *,
        busy_timeout_s: float = 5.0,
        group_commits: bool = False,
    ) -> None:
        self.database = Database(path, busy_timeout_s=busy_timeout_s, group_commits=group_commits)

    def flush(self) -> None:
        """Return once everything written so far is on disk."""
        self.database.flush()

    def close(self) -> None:
        """Close the file."""
        self.database.close()

    def apply(self, operation: Operation, key: Key, args: Args) -> Outcome:
        """Carry out one guarded write."""
        if operation.transactional:
            raise Bug(f"operation {operation.name} is only ever part of a transaction")
        with self.database.transaction() as connection:
            write = _prepare(connection, operation, key, args)
            if write is None:
                return Refused()
            write.store(connection)
        return Applied(evaluate.returned(operation, write.after, args))

    def transact(self, writes: Sequence[Write]) -> Outcome:
        """Carry out writes on distinct items together, or none of them."""
        for write in writes:
            if not write.operation.transactional:
                raise Bug(f"operation {write.operation.name} is no part of a transaction")
        if len({write.key for write in writes}) < len(writes):
            raise Bug("a transaction names an item twice")
        with self.database.transaction() as connection:
            # All guards are checked before the first change, so a refusal has nothing to undo.
            prepared: list[_Prepared] = []
            for write in writes:
                ready = _prepare(connection, write.operation, write.key, write.args)
                if ready is None:
                    return Refused()
                prepared.append(ready)
            for ready in prepared:
                ready.store(connection)
        return Applied()

    def get_execution(
        self, ref: ExecutionRef, view: ExecutionView = ExecutionView.CONTROL
    ) -> ExecutionRow | None:
        """Read META."""
        found = self.get_raw(keys.meta(ref), view.value)
        return None if found is None else ExecutionRow.from_attributes(found)

    def get_nodes(
        self, ref: ExecutionRef, ordinals: Iterable[int], view: NodeView = NodeView.RESULT
    ) -> dict[int, NodeRow]:
        """Read some node rows by ordinal; missing rows are left out."""
        rows: dict[int, NodeRow] = {}
        for batch in _batches(map(node_sk, ordinals)):
            marks = ",".join("?" * len(batch))
            found = self.database.read(
                "SELECT sk, doc FROM items"  # noqa: S608
                f" WHERE tbl = ? AND pk = ? AND sk IN ({marks})",
                (Table.EXECUTIONS, ref.pk, *batch),
            )
            for sk, doc in found:
                row = NodeRow.from_attributes(_project(ref.pk, sk, doc, view.value))
                rows[row.ordinal] = row
        return rows

    def query_nodes(
        self,
        ref: ExecutionRef,
        view: NodeView = NodeView.CONTROL,
        *,
        after: int = -1,
        limit: int | None = None,
    ) -> list[NodeRow]:
        """Read rows in the order of ordinals, from beyond `after`; all of them if no `limit`."""
        beyond = NODE_SK_PREFIX if after < 0 else node_sk(after)
        found = self.database.read(
            _NODES,
            (Table.EXECUTIONS, ref.pk, beyond, NODE_SK_END, -1 if limit is None else limit),
        )
        return [NodeRow.from_attributes(_project(ref.pk, sk, doc, view.value)) for sk, doc in found]

    def get_raw(self, key: Key, attributes: Sequence[str]) -> Attributes | None:
        """Read some attributes of one item."""
        found = self.database.read(_READ, (key.table, key.pk, key.sk))
        return _project(key.pk, key.sk, found[0][0], attributes) if found else None

    def list_executions(
        self,
        tenant: str,
        *,
        status: str | None,
        workflow_id: str | None,
        limit: int,
        token: str | None,
    ) -> Page[str]:
        """List ids of a tenant's executions, newest first. Raises `Rejected` on a foreign token."""
        scope = ("executions", tenant, status, workflow_id)
        sort = last_id = None
        if token is not None:
            sort, last_id = tokens.position(scope, token, parts=2)
        found = self.database.read(
            _LIST,
            {
                "tenant_pk": keys.tenant_partition(tenant),
                "sort": sort,
                "pk": None if last_id is None else ExecutionRef(tenant, last_id).pk,
                "status": status,
                "workflow_id": workflow_id,
                "limit": limit + 1,
            },
        )
        shown = [(sort, ExecutionRef.from_pk(pk).execution_id) for sort, pk in found[:limit]]
        more = len(found) > limit
        return Page(
            [execution_id for _, execution_id in shown],
            tokens.issue(scope, shown[-1]) if more else None,
        )

    def due(self, now: int, limit: int) -> Iterable[DueExecution]:
        """Executions whose `due_at` is at most `now`, the longest overdue first."""
        for pk, due_at in self.database.read(_DUE, (now, limit)):
            yield DueExecution(ExecutionRef.from_pk(pk), due_at)

    def latest_workflow(
        self, tenant: str, workflow_id: str, attributes: Sequence[str]
    ) -> Attributes | None:
        """Read some attributes of a workflow's highest version, its key included."""
        pk = keys.workflow_partition(tenant, workflow_id)
        found = self.database.read(_LATEST_WORKFLOW, (Table.WORKFLOWS, pk))
        if not found:
            return None
        [(sk, doc)] = found
        return _project(pk, sk, doc, (*KEY_ATTRIBUTES, *attributes))

    def list_workflows(self, tenant: str, *, limit: int, token: str | None) -> Page[str]:
        """List a tenant's workflow ids in order. Raises `Rejected` on a foreign token."""
        scope = ("workflows", tenant)
        (last,) = ("",) if token is None else tokens.position(scope, token)
        first_version = keys.workflow(tenant, "", 1)
        prefix = first_version.pk
        found = self.database.read(
            _WORKFLOWS,
            (Table.WORKFLOWS, prefix + last, prefix + _BEYOND_IDS, first_version.sk, limit + 1),
        )
        ids = [str(pk).removeprefix(prefix) for (pk,) in found[:limit]]
        more = len(found) > limit
        return Page(ids, tokens.issue(scope, (ids[-1],)) if more else None)

    def read_feed(self, after: int, limit: int) -> list[FeedRecord]:
        """Return changes in the order in which they were committed, beyond number `after`."""
        return [
            FeedRecord(
                seq,
                Table(table),
                pk,
                sk,
                None if old is None else {"pk": pk, "sk": sk, **decode(old)},
                {"pk": pk, "sk": sk, **decode(new)},
            )
            for seq, table, pk, sk, old, new in self.database.read(_READ_FEED, (after, limit))
        ]

    def trim_feed(self, through: int) -> None:
        """Forget changes up to number `through` once everything that follows from them is sent."""
        with self.database.transaction() as connection:
            connection.execute(_TRIM_FEED, (through,))


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A write whose guard holds: the item's text before (None for a new one) and its new form."""

    key: Key
    old: str | None
    after: dict[str, Value]

    def store(self, connection: sqlite3.Connection) -> None:
        new = encode(self.after)
        if new == self.old:
            return
        key = self.key
        place = (key.table, key.pk, key.sk)
        if key.sk == META_SK:
            sql = _INSERT_META if self.old is None else _UPDATE_META
            connection.execute(sql, (new, *_indexed(self.after), *place))
        else:
            connection.execute(_INSERT if self.old is None else _UPDATE, (new, *place))
        connection.execute(_FEED, (*place, self.old, new))


def _prepare(
    connection: sqlite3.Connection, operation: Operation, key: Key, args: Args
) -> _Prepared | None:
    if key.table is not operation.table:
        raise Bug(f"operation {operation.name} is not for the table {key.table.value}")
    found = connection.execute(_READ, (key.table, key.pk, key.sk)).fetchone()
    old: str | None = found[0] if found else None
    after = evaluate.apply(operation, None if old is None else decode(old), args)
    return None if after is None else _Prepared(key, old, after)


def _indexed(after: Attributes) -> tuple[Value, ...]:
    return (
        after.get(keys.DUE.sort),
        after.get(keys.BY_TENANT.partition),
        after.get(keys.BY_TENANT.sort),
        after.get("exec_status"),
        after.get("exec_workflow_id"),
    )


def _project(pk: str, sk: str, doc: str, names: Sequence[str]) -> Attributes:
    item = decode(doc)
    item["pk"], item["sk"] = pk, sk
    return {name: item[name] for name in names if name in item}


def _batches(values: Iterable[str]) -> Iterator[list[str]]:
    remaining = iter(values)
    while batch := list(islice(remaining, _BATCH)):
        yield batch
