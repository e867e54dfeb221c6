"""Killing processes at exact calls: what is recognised, where it strikes, and what is noticed."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from local.cli import main
from local.crashtest.deployed.audit import Seen, problem
from local.crashtest.deployed.proxy import Proxy
from local.crashtest.deployed.report import DeployedReport
from local.crashtest.deployed.traps import Run, Spot, Trap, Traps
from local.crashtest.deployed.wire import Request, Touch, read
from local.crashtest.ending import Ending
from local.crashtest.points import Side
from local.crashtest.samples import chain
from local.demo.ledger import BodyStart, ExecutionRecord, Fact, NodeRecord
from local.simulator.scenario import Tempo
from local.simulator.strands import Strands
from local.simulator.world import Conditions, World
from piton.adapters.publisher import AwsPublisher
from piton.domain.messages import Dispatch, Event
from piton.domain.rows import ExecutionRef, LogEntry, NodeRow
from piton.domain.status import EventType, NodeStatus
from piton.storage import keys
from piton.storage import operations as op
from piton.storage.algebra import Item, Operation, Table
from piton.storage.dynamodb import DynamoStore
from piton.storage.views import ExecutionView, NodeView
from tests.support.store import Given, sample_args

ID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
REF = ExecutionRef("acme", ID)
KEYS = {
    Item.META: keys.meta(REF),
    Item.INPUT: keys.execution_input(REF),
    Item.NODE: keys.node(REF, 7),
}


class Wire:
    """A client that keeps what it is asked, as it goes over the wire, and answers nothing new."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        action = "".join(word.title() for word in name.split("_"))

        def ask(**asked: Any) -> dict[str, Any]:
            self.asked.append((action, asked))
            return {"FailedEntryCount": 0, "Items": []}

        return ask

    def read(self) -> Request:
        """The last request as the proxy reads it."""
        action, asked = self.asked[-1]
        return read("POST", "/", f"Service.{action}", json.dumps(asked).encode())


def store_on(wire: Any) -> DynamoStore:
    return DynamoStore(wire, {table: table.value for table in Table})


# --- What a request is about ---------------------------------------------------------------


@pytest.mark.parametrize("given", list(Given))
@pytest.mark.parametrize(
    "operation",
    [each for each in op.OPERATIONS if each.item in KEYS and not each.transactional],
    ids=lambda operation: operation.name,
)
def test_every_declared_write_is_recognised(operation: Operation, given: Given) -> None:
    wire, key = Wire(), KEYS[operation.item]
    store_on(wire).apply(operation, key, sample_args(operation, given))
    (touch,) = wire.read().touches
    assert (touch.owner, wire.read().writes) == (ID, True)
    name, _, row = touch.what.rpartition(" ")
    assert operation.name in name.split(" or ")
    assert row == key.sk


def test_reads_are_recognised_by_what_they_read() -> None:
    wire: Any = Wire()
    store_on(wire).get_execution(REF)
    assert wire.read() == Request((Touch(ID, "read META"),))
    store_on(wire).query_nodes(REF)
    assert wire.read() == Request((Touch(ID, "read all nodes"),))


def test_messages_are_recognised_one_by_one() -> None:
    wire: Any = Wire()
    metrics: Any = None
    publisher = AwsPublisher(wire, wire, "bus", {"default": "url"}, metrics)
    others = ExecutionRef("acme", "01BX5ZZKBKACTAV9WEVGEMMVRZ")
    publisher.dispatch([Dispatch("default", ref, 1, "a", 1, 1, 0, 0) for ref in (REF, others)])
    assert wire.read().touches == (
        Touch(ID, "queue.send a"),
        Touch(others.execution_id, "queue.send a"),
    )
    detail = {"execution_id": ID, "node_id": "a"}
    publisher.publish([Event(EventType.NODE_COMPLETED, "id", detail)])
    assert wire.read() == Request((Touch(ID, "bus.put workflow.node.completed a"),), writes=True)


def test_a_write_that_nobody_declared_is_not_passed_over() -> None:
    update = {"Key": {"pk": {"S": REF.pk}, "sk": {"S": "META"}}}
    texts = {"UpdateExpression": "SET a = :a0", "ConditionExpression": "attribute_exists(a)"}
    with pytest.raises(ValueError, match="no declared operation"):
        read("POST", "/", "DynamoDB_20120810.UpdateItem", json.dumps({**update, **texts}).encode())


# --- Where it strikes ----------------------------------------------------------------------

CLAIM = Trap(Spot("worker", "claim"), Side.AFTER)


def about(*owners: str, what: str = "claim") -> Request:
    return Request(tuple(Touch(owner, what) for owner in owners), writes=True)


def watched(*runs: Run) -> Traps:
    traps = Traps()
    for run in runs:
        traps.watch(run)
        traps.meet("commands", Request(creates={run.document: f"id of {run.document}"}))
    return traps


def test_a_trap_springs_once_for_its_function_its_call_and_its_execution() -> None:
    run = Run("doc", [CLAIM])
    traps = watched(run)
    assert traps.meet("relay", about("id of doc")) is None
    assert traps.meet("worker", about("id of doc", what="read")) is None
    assert traps.meet("worker", about("another")) is None
    assert traps.meet("worker", about("id of doc")) is Side.AFTER
    assert traps.meet("worker", about("id of doc")) is None
    assert run.is_through
    assert Spot("worker", "claim", 2) in run.calls


def test_the_nth_call_of_a_kind_is_told_from_the_first() -> None:
    traps = watched(Run("doc", [Trap(Spot("worker", "claim", 2), Side.BEFORE)]))
    assert [traps.meet("worker", about("doc")) for _ in range(3)] == [None, Side.BEFORE, None]


def test_a_second_trap_waits_for_the_first() -> None:
    second = Trap(Spot("watchdog", "retry"), Side.BEFORE)
    traps = watched(Run("doc", [CLAIM, second]))
    assert traps.meet("watchdog", about("doc", what="retry")) is None
    assert traps.meet("worker", about("doc")) is Side.AFTER
    assert traps.meet("watchdog", about("doc", what="retry")) is Side.BEFORE


def test_of_two_traps_in_one_request_the_other_springs_when_it_is_repeated() -> None:
    one, other = Run("one", [CLAIM]), Run("other", [CLAIM])
    traps = watched(one, other)
    assert traps.meet("worker", about("one", "other")) is Side.AFTER
    assert (one.is_through, other.is_through) == (True, False)
    assert traps.meet("worker", about("one", "other")) is Side.AFTER
    assert other.is_through


@contextmanager
def upstream() -> Iterator[tuple[int, list[str]]]:
    """A server that notes the paths that it was asked for."""
    arrived: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            arrived.append(self.path)
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response_only(201)
            self.send_header("x-amzn-requestid", "r1")
            self.end_headers()
            self.wfile.write(b"answer")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_port, arrived
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_request_without_a_trap_is_passed_on_whole() -> None:
    killed: list[int] = []
    with upstream() as (port, arrived), Proxy(port, lambda _: None, killed.append) as proxy:
        connection = HTTPConnection(proxy.url.removeprefix("http://"))
        for path in ("/one", "/two"):
            connection.request("POST", path, b"{}")
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (201, b"answer")
            assert answer.headers["x-amzn-requestid"] == "r1"
        connection.close()
    assert arrived == ["/one", "/two"]
    assert (killed, proxy.errors) == ([], [])


@pytest.mark.parametrize(("side", "reaches"), [(Side.BEFORE, []), (Side.AFTER, ["/"])])
def test_whoever_dies_before_its_call_never_made_it_and_after_it_gets_no_answer(
    side: Side, reaches: list[str]
) -> None:
    killed: list[tuple[int, int]] = []
    with upstream() as (port, arrived):

        def kill(caller: int) -> None:
            killed.append((caller, len(arrived)))

        with Proxy(port, lambda _: side, kill) as proxy:
            connection = HTTPConnection(proxy.url.removeprefix("http://"))
            connection.connect()
            caller = connection.sock.getsockname()[1]
            connection.request("POST", "/", b"{}")
            with pytest.raises((HTTPException, ConnectionError)):
                connection.getresponse()
            connection.close()
    assert killed == [(caller, len(reaches))]
    assert arrived == reaches


def test_a_process_that_dies_in_the_middle_of_asking_has_not_asked() -> None:
    met: list[Request] = []
    killed: list[int] = []

    def meet(request: Request) -> Side | None:
        met.append(request)
        return None

    with upstream() as (port, arrived), Proxy(port, meet, killed.append) as proxy:
        connection = HTTPConnection(proxy.url.removeprefix("http://"))
        connection.putrequest("POST", "/")
        connection.putheader("Content-Length", "10")
        connection.endheaders(b"half")
        connection.sock.shutdown(socket.SHUT_WR)
        assert connection.sock.recv(1) == b""
        connection.close()
    assert (met, arrived, killed, proxy.errors) == ([], [], [], [])


# --- What is noticed -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def seen() -> Seen:
    """Everything about a chain of two nodes that ran in order."""
    strands = Strands()
    world = World(
        chain(2).workload(), Conditions("seen", tempo=Tempo.LOCKSTEP, retention=False), strands
    )
    try:
        world.run()
        (ref,) = world.refs
        execution = world.rows.base.get_execution(ref, ExecutionView.FULL)
        rows = world.rows.base.query_nodes(ref, NodeView.FULL)
    finally:
        world.close()
        strands.close()
    assert execution is not None
    steps = [row for row in rows if row.claimed_at]
    return Seen(
        execution=execution,
        rows=rows,
        record=ExecutionRecord(
            ref.execution_id,
            execution.status,
            tuple(
                NodeRecord(row.node_id, row.status, finished_at=row.finished_at) for row in steps
            ),
        ),
        bodies=[body_of(ref, row, row.claimed_at or 0) for row in steps],
        facts=[
            *(end_of(ref, row) for row in steps),
            Fact(EventType.WORKFLOW_COMPLETED, "end", ref.execution_id, execution.finished_at or 0),
        ],
    )


@pytest.fixture(scope="module")
def clean(seen: Seen) -> Ending:
    return seen.ending()


def body_of(ref: ExecutionRef, row: NodeRow, at: int, fence: int = 1) -> BodyStart:
    return BodyStart(at, 7, ref.tenant, ref.execution_id, row.ordinal, row.node_id, fence, fence)


def end_of(ref: ExecutionRef, row: NodeRow, fence: int = 1) -> Fact:
    at = row.finished_at or 0
    event_id = f"{row.node_id}/{fence}"
    return Fact(EventType.NODE_COMPLETED, event_id, ref.execution_id, at, row.node_id, fence)


def ref_of(seen: Seen) -> ExecutionRef:
    assert seen.execution is not None
    return seen.execution.ref


def test_an_execution_that_ended_in_order_has_no_problem(seen: Seen, clean: Ending) -> None:
    assert problem(seen, clean) is None


def test_a_body_that_starts_after_its_node_has_finished_is_noticed(
    seen: Seen, clean: Ending
) -> None:
    first = seen.rows[0]
    again = body_of(ref_of(seen), first, (first.finished_at or 0) + 1, fence=2)
    found = problem(replace(seen, bodies=[*seen.bodies, again]), clean)
    assert found is not None
    assert "attempt 2 started after the node's end" in found


def test_two_bodies_for_one_attempt_are_noticed(seen: Seen, clean: Ending) -> None:
    first = seen.rows[0]
    twice = body_of(ref_of(seen), first, first.claimed_at or 0)
    found = problem(replace(seen, bodies=[*seen.bodies, twice]), clean)
    assert found is not None
    assert "2 bodies ran under fence 1" in found


def test_a_second_end_of_a_node_is_noticed(seen: Seen, clean: Ending) -> None:
    again = end_of(ref_of(seen), seen.rows[0], fence=2)
    found = problem(replace(seen, facts=[*seen.facts, again]), clean)
    assert found is not None
    assert "has 2 ends" in found


def test_a_second_completion_in_the_rows_is_noticed(seen: Seen, clean: Ending) -> None:
    first = seen.rows[0]
    completed = next(entry for entry in first.log if entry.transition == "N6")
    rows = [replace(first, log=(*first.log, completed)), *seen.rows[1:]]
    found = problem(replace(seen, rows=rows), clean)
    assert found == f"{first.node_id} completed more than once"


def test_what_is_live_under_an_ended_execution_is_noticed(seen: Seen, clean: Ending) -> None:
    rows = [replace(seen.rows[0], status=NodeStatus.RUNNING), *seen.rows[1:]]
    found = problem(replace(seen, rows=rows), clean)
    assert found == f"{rows[0].node_id} is running under an execution that has ended"


def test_a_result_other_than_the_clean_run_s_is_noticed(seen: Seen, clean: Ending) -> None:
    rows = [replace(seen.rows[0], result_hash="another"), *seen.rows[1:]]
    changed = replace(seen, rows=rows)
    found = problem(changed, clean)
    assert found == f"{rows[0].node_id} has another result than in the clean run"
    assert problem(changed, clean, frozenset({rows[0].node_id})) is None


def test_a_message_that_was_given_up_is_noticed(seen: Seen, clean: Ending) -> None:
    first = seen.rows[0]
    queued, *later = first.log
    given_up = LogEntry(
        "N10", queued.at, fence=2, attempt=2, reason="DELIVERY_EXHAUSTED", not_before=queued.at
    )
    moved = [replace(entry, fence=2, attempt=entry.attempt and 2) for entry in later]
    row = replace(first, log=(queued, given_up, *moved), fence=2, attempt=2)
    ref = ref_of(seen)
    found = problem(
        replace(
            seen,
            rows=[row, *seen.rows[1:]],
            facts=[end_of(ref, row, fence=2), *seen.facts[1:]],
        ),
        clean,
    )
    assert found == f"a message for {row.node_id} ended with the dead letters"


def test_a_run_that_has_not_ended_is_noticed(seen: Seen, clean: Ending) -> None:
    assert problem(replace(seen, execution=None), clean) == "the execution has not ended"


def test_a_failure_says_what_was_killed_where() -> None:
    report = DeployedReport("w", "completed", calls=3)
    both = [CLAIM, Trap(Spot("watchdog", "retry", 2), Side.BEFORE)]
    report.add(Run("one", [CLAIM], sprung=1), ID, None)
    report.add(Run("two", both, sprung=2), ID, "lost")
    report.add(Run("half", both, sprung=1), ID, None)
    assert report.to_json() == {
        "workflow": "w",
        "ended": "completed",
        "calls": 3,
        "crash_points": 1,
        "survived": 1,
        "pairs": 1,
        "pairs_survived": 0,
        "kills": 4,
        "kills_by_function": {"watchdog": 1, "worker": 3},
        "unreached": [],
        "failures": [f"worker dies after claim, then watchdog dies before retry (2): lost ({ID})"],
        "wall_s": 0.0,
    }


@pytest.mark.parametrize("option", [["--stub"], ["--pairs"], ["--at", "1:after"]])
def test_what_only_the_simulation_can_do_is_refused(
    option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["crashtest", "examples/hello/workflow.yaml", "--deployed", *option]) == 2
    assert "does not go with --deployed" in capsys.readouterr().err
