"""What only the embedded store promises: its file, its feed, its locks."""

from __future__ import annotations

import multiprocessing
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from piton.adapters.workflows import Workflows
from piton.domain.compile import Need, NodeSpec, PoolLimits, compile_graph
from piton.domain.errors import Bug, Rejected, Retry
from piton.domain.graph import Graph
from piton.domain.rows import ExecutionRef, NodeRow
from piton.ports import Applied, Refused, Write
from piton.storage import keys
from piton.storage import operations as op
from piton.storage.algebra import Args, Table
from piton.storage.sqlite import FeedRecord, SqliteStore
from piton.storage.sqlite_blobs import SqliteBlobs
from piton.storage.sqlite_database import SCHEMA_VERSION, IncompatibleFile
from piton.storage.views import ExecutionView, NodeView
from tests.support.store import LOG, NOW, creation, make_ref

REF = make_ref()


def queue(store: SqliteStore, ordinal: int = 0, ref: ExecutionRef = REF) -> bool:
    args: Args = {
        "node_id": f"n{ordinal}",
        "expires_at": 1,
        "pool": "default",
        "scope": "s",
        "now": NOW,
        "log": {"t": "N1", "at": NOW},
    }
    return isinstance(store.apply(op.QUEUE_ROOT, keys.node(ref, ordinal), args), Applied)


def resolve(store: SqliteStore, target: int, source: int) -> Applied | Refused:
    args: Args = {"node_id": "t", "expires_at": 1, "source": source}
    return store.apply(op.RESOLVE_TAKEN, keys.node(REF, target), args)


@pytest.fixture
def store() -> Iterator[SqliteStore]:
    store = SqliteStore()
    yield store
    store.close()


# --- The feed ------------------------------------------------------------------------------


def test_the_feed_holds_both_images_of_every_change_in_order(store: SqliteStore) -> None:
    store.transact([creation(REF)])
    queue(store)
    store.apply(op.RESEND, keys.node(REF, 0), {"fence": 1, "seen_sends": 0, "now": NOW + 5})
    created, queued, sent_again = store.read_feed(0, 10)
    assert (created.table, created.sk, created.old) == (Table.EXECUTIONS, "META", None)
    assert queued.old is None
    assert queued.new == sent_again.old
    old, new = (NodeRow.from_attributes(image) for image in (queued.new, sent_again.new))
    assert (old.sends, new.sends, new.sent_at) == (0, 1, NOW + 5)
    assert created.seq < queued.seq < sent_again.seq
    assert store.read_feed(queued.seq, 10) == [sent_again]
    assert store.read_feed(0, 1) == [created]


def test_a_write_that_changes_nothing_and_a_refused_one_leave_no_record(
    store: SqliteStore,
) -> None:
    first = resolve(store, 2, 0)
    again = resolve(store, 2, 0)
    assert (
        first
        == again
        == Applied({"node_resolved": frozenset({0}), "node_id": "t", "expires_at": 1})
    )
    queue(store, 2)
    assert resolve(store, 2, 1) == Refused()
    assert [record.sk for record in store.read_feed(0, 10)] == ["NODE#00002"] * 2


def test_numbers_never_repeat_after_the_feed_was_trimmed(store: SqliteStore) -> None:
    for ordinal in range(3):
        queue(store, ordinal)
    last = store.read_feed(0, 10)[-1]
    store.trim_feed(last.seq)
    queue(store, 3)
    [record] = store.read_feed(last.seq, 10)
    assert (record.sk, record.seq) == ("NODE#00003", last.seq + 1)
    store.trim_feed(last.seq)
    assert store.read_feed(0, 10) == [record]


# --- Transactions --------------------------------------------------------------------------


def test_a_transaction_that_is_refused_writes_nothing(store: SqliteStore) -> None:
    other = ExecutionRef("acme", "01K1")
    assert store.transact([creation(REF)]) == Applied()
    assert store.transact([creation(other), creation(REF)]) == Refused()
    assert store.get_execution(other) is None
    assert len(store.read_feed(0, 10)) == 1


def test_a_transaction_on_one_item_twice_is_a_bug(store: SqliteStore) -> None:
    with pytest.raises(Bug, match="twice"):
        store.transact([creation(REF), creation(REF)])


def test_a_transactional_operation_outside_a_transaction_is_a_bug(store: SqliteStore) -> None:
    write = creation(REF)
    with pytest.raises(Bug, match="transaction"):
        store.apply(write.operation, write.key, write.args)


def test_a_fault_in_the_middle_of_a_write_rolls_back_and_frees_the_lock(
    store: SqliteStore,
) -> None:
    write = creation(ExecutionRef("acme", "01K1"))
    with pytest.raises(Bug):
        store.transact([write, Write(op.STORE_INPUT, keys.execution_input(REF), {})])
    with pytest.raises(Bug):
        store.transact([write, Write(op.START, keys.meta(REF), {"now": 1, "log": LOG})])
    assert store.read_feed(0, 10) == []
    assert queue(store)


# --- Reads ---------------------------------------------------------------------------------


def test_reads_hold_what_their_view_names_and_no_more(store: SqliteStore) -> None:
    store.transact([creation(REF)])
    queue(store)
    control, full = (
        store.get_execution(REF, view) for view in (ExecutionView.CONTROL, ExecutionView.FULL)
    )
    assert control is not None
    assert full is not None
    assert (control.actor, control.log) == ("", ())
    assert full.actor == "actor of execution.create"
    assert len(full.log) == 1
    [node] = store.query_nodes(REF)
    assert (node.pool, node.scope) == ("default", "")
    assert store.get_nodes(REF, [0, 1], NodeView.FULL)[0].scope == "s"
    assert store.get_raw(keys.node(REF, 0), ["pk", "node_pool"]) == {
        "pk": REF.pk,
        "node_pool": "default",
    }
    assert store.get_raw(keys.node(REF, 1), ["pk"]) is None


def test_nodes_come_in_the_order_of_ordinals_and_in_parts(store: SqliteStore) -> None:
    store.transact([creation(REF)])
    for ordinal in (1200, 7, 30, 0):
        queue(store, ordinal)
    queue(store, 8, ExecutionRef("acme", "01K00"))
    assert [row.ordinal for row in store.query_nodes(REF)] == [0, 7, 30, 1200]
    assert [row.ordinal for row in store.query_nodes(REF, after=0, limit=2)] == [7, 30]
    assert sorted(store.get_nodes(REF, range(2000))) == [0, 7, 30, 1200]


def test_due_lists_the_longest_overdue_first_and_forgets_the_retired(store: SqliteStore) -> None:
    refs = [ExecutionRef("acme", f"01K{i}") for i in range(4)]
    for ref, due_at in zip(refs, (30, 10, 20, 99), strict=True):
        store.transact([creation(ref, due_at=due_at)])
    assert [due.ref for due in store.due(30, 10)] == [refs[1], refs[2], refs[0]]
    assert [due.due_at for due in store.due(30, 2)] == [10, 20]
    store.apply(op.DEFER, keys.meta(refs[1]), {"seen_due_at": 10, "due_at": 40})
    store.apply(
        op.CANCEL_EXECUTION,
        keys.meta(refs[2]),
        {"now": 1, "due_at": 20, "reason": "X", "log": {"t": "E5", "at": 1}},
    )
    store.apply(op.RETIRE, keys.meta(refs[2]), {"seen_due_at": 20})
    assert [due.ref for due in store.due(39, 10)] == [refs[0]]


def test_executions_are_listed_newest_first_per_tenant_with_filters(store: SqliteStore) -> None:
    for i in range(6):
        ref = ExecutionRef("acme", f"01K{i}")
        store.transact([creation(ref, workflow_id="even" if i % 2 == 0 else "odd")])
    store.transact([creation(ExecutionRef("other", "01K9"))])
    store.apply(op.START, keys.meta(ExecutionRef("acme", "01K4")), {"now": 1, "log": LOG})

    def page(
        token: str | None = None, *, status: str | None = None, workflow_id: str | None = None
    ) -> tuple[list[str], str | None]:
        found = store.list_executions(
            "acme", status=status, workflow_id=workflow_id, limit=4, token=token
        )
        return list(found.items), found.next_token

    ids, token = page()
    assert ids == ["01K5", "01K4", "01K3", "01K2"]
    assert page(token) == (["01K1", "01K0"], None)
    assert page(workflow_id="even") == (["01K4", "01K2", "01K0"], None)
    assert page(status="running") == (["01K4"], None)
    with pytest.raises(Rejected):
        page(token, status="running")
    with pytest.raises(Rejected):
        store.list_executions("other", status=None, workflow_id=None, limit=4, token=token)


# --- The file ------------------------------------------------------------------------------


def test_rows_outlive_the_connection(tmp_path: Path) -> None:
    path = tmp_path / "piton.db"
    first = SqliteStore(path)
    first.transact([creation(REF)])
    queue(first)
    resolve(first, 3, 0)
    feed = first.read_feed(0, 10)
    first.close()
    second = SqliteStore(path)
    assert second.read_feed(0, 10) == feed
    assert second.get_nodes(REF, [3])[3].resolved == {0}
    second.close()


def test_every_commit_of_a_file_is_synced(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "piton.db")
    assert store.database.read("PRAGMA journal_mode") == [("wal",)]
    assert store.database.read("PRAGMA synchronous") == [(2,)]
    store.close()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (f"PRAGMA user_version = {SCHEMA_VERSION + 1}", "upgrade"),
        ("PRAGMA application_id = 7", "something else"),
    ],
)
def test_a_file_of_a_newer_release_or_of_another_program_is_refused(
    tmp_path: Path, statement: str, message: str
) -> None:
    path = tmp_path / "piton.db"
    SqliteStore(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()
    with pytest.raises(IncompatibleFile, match=message):
        SqliteStore(path)


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, " * 100)
    before = path.read_bytes()
    with pytest.raises(IncompatibleFile, match="no database"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_a_file_with_foreign_tables_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(IncompatibleFile):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_a_lock_held_by_another_process_is_a_retry(tmp_path: Path) -> None:
    path = tmp_path / "piton.db"
    store = SqliteStore(path, busy_timeout_s=0.0)
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(Retry):
        queue(store)
    blocker.execute("ROLLBACK")
    assert queue(store)
    blocker.close()
    store.close()


# --- Group commits -------------------------------------------------------------------------


@pytest.fixture
def grouped(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "piton.db", group_commits=True)
    yield store
    store.close()


def on_disk(tmp_path: Path) -> list[int]:
    """Ordinals of the nodes that a process which opens the file now finds."""
    store = SqliteStore(tmp_path / "piton.db")
    rows = store.query_nodes(REF)
    store.close()
    return [row.ordinal for row in rows]


def test_grouped_writes_reach_the_file_together_at_the_flush(
    grouped: SqliteStore, tmp_path: Path
) -> None:
    assert queue(grouped, 0)
    assert queue(grouped, 1)
    assert [row.ordinal for row in grouped.query_nodes(REF)] == [0, 1]
    assert [record.sk for record in grouped.read_feed(0, 10)] == ["NODE#00000", "NODE#00001"]
    assert on_disk(tmp_path) == []
    grouped.flush()
    assert on_disk(tmp_path) == [0, 1]


def test_a_refused_write_costs_its_group_nothing(grouped: SqliteStore, tmp_path: Path) -> None:
    assert queue(grouped, 0)
    assert not queue(grouped, 0)
    assert grouped.transact([creation(ExecutionRef("acme", "01K1"))]) == Applied()
    assert grouped.transact([creation(REF), creation(ExecutionRef("acme", "01K1"))]) == Refused()
    with pytest.raises(Bug):
        grouped.apply(op.CLAIM, keys.node(REF, 0), {"fence": 1})
    assert grouped.get_execution(REF) is None
    grouped.flush()
    assert on_disk(tmp_path) == [0]


def test_a_refused_write_alone_keeps_no_lock(grouped: SqliteStore, tmp_path: Path) -> None:
    assert queue(grouped, 0)
    grouped.flush()
    assert not queue(grouped, 0)
    other = SqliteStore(tmp_path / "piton.db", busy_timeout_s=0.0)
    assert queue(other, 1)
    other.close()


def test_a_fault_amid_changes_takes_its_group_with_it_and_frees_the_lock(
    grouped: SqliteStore, tmp_path: Path
) -> None:
    assert queue(grouped, 0)

    def fail_after_a_change() -> None:
        with grouped.database.transaction() as connection:
            connection.execute("DELETE FROM items")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_after_a_change()
    assert queue(grouped, 1)
    grouped.flush()
    assert on_disk(tmp_path) == [1]


def _write_in_groups_until_killed(path: Path, flushed: Connection) -> None:
    store = SqliteStore(path, group_commits=True)
    for ordinal in range(100_000):
        queue(store, ordinal)
        if ordinal % 3 == 2:
            store.flush()
            flushed.send(ordinal)


def test_a_kill_loses_no_flushed_group_and_leaves_none_in_halves(tmp_path: Path) -> None:
    path = tmp_path / "piton.db"
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_write_in_groups_until_killed, args=(path, sender))
    process.start()
    flushed = [receiver.recv() for _ in range(100)][-1]
    process.kill()
    process.join()
    rows = on_disk(tmp_path)
    assert rows == list(range(len(rows)))
    assert len(rows) > flushed
    assert len(rows) % 3 == 0


# --- Contention ----------------------------------------------------------------------------


def test_threads_that_share_a_store_have_one_winner_per_write() -> None:
    store = SqliteStore()
    gate = threading.Barrier(4)

    def race(_: int) -> list[bool]:
        gate.wait()
        return [queue(store, ordinal) for ordinal in range(50)]

    with ThreadPoolExecutor(4) as pool:
        wins = list(pool.map(race, range(4)))
    assert [sum(column) for column in zip(*wins, strict=True)] == [1] * 50
    assert len(store.read_feed(0, 1000)) == 50


def _race_in_process(path: Path, gate: threading.Barrier) -> list[bool]:
    gate.wait()
    store = SqliteStore(path, busy_timeout_s=60.0)
    wins = [queue(store, ordinal) for ordinal in range(50)]
    store.close()
    return wins


def test_processes_that_open_one_file_together_have_one_winner_per_write(tmp_path: Path) -> None:
    path = tmp_path / "piton.db"
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, context.Pool(3) as pool:
        gate = manager.Barrier(3)
        wins = pool.starmap(_race_in_process, [(path, gate)] * 3)
    assert [sum(column) for column in zip(*wins, strict=True)] == [1] * 50
    store = SqliteStore(path)
    records: list[FeedRecord] = store.read_feed(0, 1000)
    assert len(records) == 50
    store.close()


def _write_until_killed(path: Path, stored: Connection) -> None:
    store = SqliteStore(path)
    for ordinal in range(100_000):
        queue(store, ordinal)
        stored.send(ordinal)


def test_what_was_answered_outlives_a_kill_and_the_feed_with_it(tmp_path: Path) -> None:
    path = tmp_path / "piton.db"
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_write_until_killed, args=(path, sender))
    process.start()
    answered = [receiver.recv() for _ in range(200)]
    process.kill()
    process.join()
    store = SqliteStore(path)
    assert store.database.read("PRAGMA integrity_check") == [("ok",)]
    rows = [row.ordinal for row in store.query_nodes(REF)]
    assert rows[: len(answered)] == answered
    assert [record.sk for record in store.read_feed(0, 1_000_000)] == [
        keys.node(REF, ordinal).sk for ordinal in rows
    ]
    assert queue(store, 99_999)
    store.close()


# --- Workflows and blobs -------------------------------------------------------------------


def workflows_of(store: SqliteStore) -> Workflows:
    return Workflows(store, SqliteBlobs(store.database))


def graph(workflow_id: str, *ids: str) -> Graph:
    specs = [
        NodeSpec(node_id, task="t", needs=(Need(ids[0]),) if node_id != ids[0] else ())
        for node_id in ids
    ]
    pools = {"default": PoolLimits(900)}
    return compile_graph(workflow_id, specs, pools=pools, check_condition=lambda _: None)


def test_a_changed_definition_is_a_new_version_and_the_same_one_is_not(
    store: SqliteStore,
) -> None:
    workflows = workflows_of(store)
    assert workflows.latest_version("acme", "w") is None
    first = workflows.register("acme", "{1}", graph("w", "a"), NOW, "me")
    again = workflows.register("acme", "{1}", graph("w", "a"), NOW + 1, "you")
    second = workflows.register("acme", "{2}", graph("w", "a", "b"), NOW + 2, "you")
    assert again == first
    assert (first.version, second.version) == (1, 2)
    assert first.hash != second.hash
    assert workflows.latest_version("acme", "w") == 2
    fresh = workflows_of(store)
    assert [fresh.load("acme", "w", version) for version in (1, 2, 3)] == [first, second, None]
    assert fresh.load("other", "w", 1) is None


def test_a_tampered_version_is_a_bug(store: SqliteStore) -> None:
    workflows_of(store).register("acme", "{1}", graph("w", "a"), NOW, "me")
    with store.database.transaction() as connection:
        connection.execute("UPDATE items SET doc = json_set(doc, '$.wf_hash', 'other')")
    with pytest.raises(Bug, match="hash"):
        workflows_of(store).load("acme", "w", 1)


def test_workflow_ids_are_listed_once_each_in_order_and_per_tenant(store: SqliteStore) -> None:
    workflows = workflows_of(store)
    for workflow_id in ("b", "a", "c.d"):
        for definition in ("{1}", "{2}"):
            workflows.register("acme", definition, graph(workflow_id, "n"), NOW, "me")
    workflows.register("acme2", "{1}", graph("z", "n"), NOW, "me")
    first = workflows.list_ids("acme", limit=2, token=None)
    assert first.items == ["a", "b"]
    second = workflows.list_ids("acme", limit=2, token=first.next_token)
    assert (second.items, second.next_token) == (["c.d"], None)
    with pytest.raises(Rejected):
        workflows.list_ids("acme2", limit=2, token=first.next_token)


def test_blobs_are_kept_by_key_and_a_repeated_put_changes_nothing(store: SqliteStore) -> None:
    blobs = SqliteBlobs(store.database)
    blobs.put("acme/1/hash", b"\x00body")
    blobs.put("acme/1/hash", b"\x00body")
    assert blobs.get("acme/1/hash") == b"\x00body"
    assert blobs.get("acme/1/other") is None
