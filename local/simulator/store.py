"""The stores as a process sees them: one call away, and never certain to answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from local.simulator.host import Host
from local.simulator.randomness import chance
from piton.domain.rows import (
    NODE_SK_PREFIX,
    Attributes,
    ExecutionRef,
    ExecutionRow,
    NodeRow,
    node_ordinal,
)
from piton.ports import Applied, BlobStore, DueExecution, Outcome, Page, Write
from piton.storage.algebra import Args, Operation, Table
from piton.storage.keys import Key
from piton.storage.sqlite import FeedRecord, SqliteStore
from piton.storage.sqlite_blobs import SqliteBlobs
from piton.storage.views import ExecutionView, NodeView

T = TypeVar("T")

_TORN_READS: Final = 0.3
"""Share of reads of several rows that do not see all of them at one moment."""

_FIRST_PAGE: Final = 6
_FORGET: Final = "DELETE FROM items WHERE tbl = ? AND pk = ? AND sk = ?"


class ObservedStore:
    """The rows themselves. Whoever watches is told of every change, in the order of commits.

    `mutations` replaces operations by name. `node_names` are the ids of nodes, by ordinal.
    """

    def __init__(
        self,
        watch: Callable[[FeedRecord], None],
        mutations: Mapping[str, Operation],
        node_names: Sequence[str],
    ) -> None:
        self.node_names = node_names
        self.base = SqliteStore()
        self.blobs = SqliteBlobs(self.base.database)
        self.outcomes: Counter[tuple[str, bool]] = Counter()
        self._watch = watch
        self._mutations = mutations
        self._seen = 0
        self._dues: list[dict[str, int]] = [{}]

    def apply(self, operation: Operation, key: Key, args: Args) -> Outcome:
        """Carry out one write and show it."""
        operation = self._mutations.get(operation.name, operation)
        outcome = self.base.apply(operation, key, args)
        self._count(operation, outcome)
        return outcome

    def transact(self, writes: Sequence[Write]) -> Outcome:
        """Carry out a transaction and show it."""
        writes = [
            Write(self._mutations.get(w.operation.name, w.operation), w.key, w.args) for w in writes
        ]
        outcome = self.base.transact(writes)
        for write in writes:
            self._count(write.operation, outcome)
        return outcome

    def expire(self, key: Key) -> None:
        """Remove an item, as its time to live does: nobody is told."""
        with self.base.database.transaction() as connection:
            connection.execute(_FORGET, (key.table, key.pk, key.sk))

    def due(self, now: int, limit: int, changes_behind: int) -> list[DueExecution]:
        """Read the due list as it was some changes of it ago."""
        dues = self._dues[max(0, len(self._dues) - 1 - changes_behind)]
        found = sorted((at, pk) for pk, at in dues.items() if at <= now)
        return [DueExecution(ExecutionRef.from_pk(pk), at) for at, pk in found[:limit]]

    @property
    def next_due(self) -> int | None:
        """When the first execution is due, None when none is on the list."""
        return min(self._dues[-1].values(), default=None)

    def _count(self, operation: Operation, outcome: Outcome) -> None:
        applied = isinstance(outcome, Applied)
        self.outcomes[operation.name, applied] += 1
        if applied:
            self._show()

    def _show(self) -> None:
        for record in self.base.read_feed(self._seen, 100):
            self._seen = record.seq
            if record.table is Table.EXECUTIONS:
                self._index(record)
                self._watch(record)

    def _index(self, record: FeedRecord) -> None:
        old = record.old.get("due_at") if record.old else None
        new = record.new.get("due_at")
        if old == new:
            return
        dues = dict(self._dues[-1])
        dues.pop(record.pk, None)
        if isinstance(new, int):
            dues[record.pk] = new
        self._dues.append(dues)


class DistantStore:
    """`ports.Store` of one process."""

    def __init__(self, host: Host, rows: ObservedStore) -> None:
        self._host = host
        self._rows = rows

    def apply(self, operation: Operation, key: Key, args: Args) -> Outcome:
        """Carry out one guarded write."""

        def action() -> Outcome:
            outcome = self._rows.apply(operation, key, args)
            self._host.note(f"{operation.name} {self._row(key)}: {type(outcome).__name__}")
            return outcome

        return self._host.call(action, f"{operation.name} {self._row(key)}", writes=True)

    def transact(self, writes: Sequence[Write]) -> Outcome:
        """Carry out writes together. The service knows a repeated request by its token."""
        answers: list[Outcome] = []

        def action() -> Outcome:
            if not answers or not isinstance(answers[0], Applied):
                answers[:] = [self._rows.transact(writes)]
                self._host.note(f"transaction: {type(answers[0]).__name__}")
            return answers[0]

        names = " + ".join(write.operation.name for write in writes)
        return self._host.call(action, f"transact {names}", writes=True)

    def get_execution(
        self, ref: ExecutionRef, view: ExecutionView = ExecutionView.CONTROL
    ) -> ExecutionRow | None:
        """Read META."""
        return self._read(partial(self._rows.base.get_execution, ref, view), "get execution")

    def get_nodes(
        self, ref: ExecutionRef, ordinals: Iterable[int], view: NodeView = NodeView.RESULT
    ) -> dict[int, NodeRow]:
        """Read some rows, possibly not all at one moment."""
        wanted = list(ordinals)
        cut = self._cut(len(wanted))
        rows = self._read(partial(self._rows.base.get_nodes, ref, wanted[:cut], view), "get nodes")
        if cut < len(wanted):
            rest = partial(self._rows.base.get_nodes, ref, wanted[cut:], view)
            rows |= self._read(rest, "get nodes")
        return rows

    def query_nodes(
        self,
        ref: ExecutionRef,
        view: NodeView = NodeView.CONTROL,
        *,
        after: int = -1,
        limit: int | None = None,
    ) -> list[NodeRow]:
        """Read rows in order, possibly page by page."""
        query = partial(self._rows.base.query_nodes, ref, view)
        cut = _FIRST_PAGE if limit is not None else self._cut(_FIRST_PAGE)
        if cut == _FIRST_PAGE:
            return self._read(partial(query, after=after, limit=limit), "query nodes")
        rows = self._read(partial(query, after=after, limit=cut), "query nodes")
        if len(rows) == cut:
            rows += self._read(partial(query, after=rows[-1].ordinal), "query nodes")
        return rows

    def get_raw(self, key: Key, attributes: Sequence[str]) -> Attributes | None:
        """Read some attributes of one item."""
        return self._read(partial(self._rows.base.get_raw, key, attributes), f"get {key.sk}")

    def list_executions(
        self,
        tenant: str,
        *,
        status: str | None,
        workflow_id: str | None,
        limit: int,
        token: str | None,
    ) -> Page[str]:
        """List ids of a tenant's executions."""
        read = partial(
            self._rows.base.list_executions,
            tenant,
            status=status,
            workflow_id=workflow_id,
            limit=limit,
            token=token,
        )
        return self._read(read, "list executions")

    def due(self, now: int, limit: int) -> Iterable[DueExecution]:
        """Read the due list, which may lag behind."""
        return self._read(lambda: self._rows.due(now, limit, self._host.index_lag), "query due")

    def _row(self, key: Key) -> str:
        """A row as a reader knows it: a node by its id."""
        if not key.sk.startswith(NODE_SK_PREFIX):
            return key.sk
        return self._rows.node_names[node_ordinal(key.sk)]

    def _read(self, action: Callable[[], T], what: str) -> T:
        return self._host.call(action, what, writes=False)

    def _cut(self, count: int) -> int:
        if count <= 1 or not chance(self._host.random, _TORN_READS):
            return count
        return self._host.random.randint(1, count - 1)


class DistantBlobs:
    """`ports.BlobStore` of one process."""

    def __init__(self, host: Host, blobs: BlobStore) -> None:
        self._host = host
        self._blobs = blobs

    def put(self, key: str, body: bytes) -> None:
        """Store `body`."""
        self._host.call(partial(self._blobs.put, key, body), "put payload", writes=True)

    def get(self, key: str) -> bytes | None:
        """Return what is stored, or None."""
        return self._host.call(partial(self._blobs.get, key), "get payload", writes=False)
