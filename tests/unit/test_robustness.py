"""What one body, one row or one slow store must not do to the others."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Self

import pytest
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers import outbox_relay
from handlers.runtime import run_batch
from piton.adapters.conditions import check_condition, evaluate_condition
from piton.adapters.metrics import EmfMetrics
from piton.adapters.workflows import Workflows
from piton.contracts import StartExecutionInput
from piton.domain.errors import Retry, Stale
from piton.domain.messages import Dispatch, Event
from piton.domain.rows import ExecutionRef, ExecutionRow, NodeRow
from piton.domain.settings import Settings
from piton.domain.status import EventType, ExecutionStatus, NodeStatus, Reason
from piton.ports import BlobStore, BodyOutcome, Counter, Outcome, Raised, Returned, Store
from piton.services.assembly import Engine, Ports
from piton.services.bodies import PoolProfile
from piton.services.commands import Commands
from piton.services.recent import Recent
from piton.services.relay import Change, Relay, messages_of
from piton.services.work import Work, WorkerIdentity
from piton.storage import attributes, keys
from piton.storage import operations as op
from piton.storage.algebra import Args, Item, Operation
from piton.storage.keys import Key
from piton.storage.sqlite import SqliteStore
from piton.storage.sqlite_blobs import SqliteBlobs
from piton.storage.views import ExecutionView, NodeView
from piton.tasks import Context, Inputs, Permanent, SyncBody, Task, TaskError
from tests.support.cases import set_attributes
from tests.support.engine import OPERATOR, PLENTY_MS, CountedNames, Figures, NoLambda, TurnedClock
from tests.support.plans import POOLS

PLENTY_OF_ROWS = 100_000

Renewal = Callable[[Callable[[], Outcome]], Outcome]


class AtOnce:
    """`ports.BodyRunner` on the caller's thread."""

    def run(
        self,
        body: Callable[[], object],
        *,
        timeout_ms: int,
        heartbeat_ms: int,
        renew: Callable[[], bool],
    ) -> BodyOutcome:
        del timeout_ms, heartbeat_ms, renew
        try:
            return Returned(body())
        except TaskError as error:
            return Raised(error)


class Host:
    """Real services on the embedded store, with tasks of the test's own."""

    def __init__(self, tasks: Mapping[str, SyncBody] | None = None) -> None:
        self.rows = SqliteStore()
        self.clock = TurnedClock()
        self.figures = Figures()
        self.names = CountedNames()
        self.settings = Settings()
        self.blobs: BlobStore = SqliteBlobs(self.rows.database)
        self.tasks = tasks or {}
        self.mail: list[Dispatch | Event] = []
        self._seen = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.rows.close()

    def engine(self, store: Store | None = None) -> Engine:
        """Services of a process that has just come up."""
        self.workflows = Workflows(self.rows, self.blobs)
        return Engine(
            Ports(
                store=store or self.rows,
                workflows=self.workflows,
                blobs=self.blobs,
                clock=self.clock,
                random=self.names,
                metrics=self.figures,
                settings=self.settings,
                condition=evaluate_condition,
            )
        )

    def start(self, *nodes: Mapping[str, object], input: object = None) -> ExecutionRef:  # noqa: A002
        ports = self.engine().ports
        commands = Commands(
            store=ports.store,
            workflows=ports.workflows,
            blobs=ports.blobs,
            clock=ports.clock,
            random=ports.random,
            metrics=ports.metrics,
            settings=ports.settings,
            pools=POOLS,
            check_condition=check_condition,
        )
        definition = {"id": "w", "timeout_s": 600, "nodes": list(nodes)}
        commands.register_workflow(OPERATOR, json.dumps(definition))
        asked = StartExecutionInput.model_validate({"workflow": "w", "input": input or {}})
        return commands.start_execution(OPERATOR, asked).execution.ref

    def collect(self) -> list[Dispatch | Event]:
        """Take what the feed lets out, instead of its delivery."""
        for record in self.rows.read_feed(self._seen, PLENTY_OF_ROWS):
            self._seen = record.seq
            self.mail += messages_of(Change(record.old, record.new))
        taken, self.mail = self.mail, []
        return taken

    def worker(self, engine: Engine) -> Work:
        return engine.worker(
            tasks=self,
            runner=AtOnce(),
            invoker=NoLambda(),
            pool=PoolProfile(PLENTY_MS, frozenset(), lambda _: None),
            identity=WorkerIdentity("host", "code"),
        )

    def run(self, engine: Engine | None = None) -> None:
        """Deliver everything until nothing follows any more."""
        engine = engine or self.engine()
        work = self.worker(engine)
        while messages := self.collect():
            for message in messages:
                try:
                    if isinstance(message, Dispatch):
                        work.run(message, PLENTY_MS)
                    else:
                        self._handle(engine, message)
                except Stale:
                    continue

    def _handle(self, engine: Engine, event: Event) -> None:
        ref = ExecutionRef(str(event.detail["tenant"]), str(event.detail["execution_id"]))
        match event.type:
            case EventType.START_REQUESTED:
                engine.advance.start(ref)
            case EventType.NODE_COMPLETED | EventType.NODE_FAILED | EventType.NODE_SKIPPED:
                engine.advance.node_ended(ref, int(str(event.detail["ordinal"])))
            case _:
                pass

    def find(self, name: str) -> Task | None:
        """As `ports.TaskRegistry`."""
        return Task(name, self.tasks[name], None, None)

    def execution(self, ref: ExecutionRef) -> ExecutionRow:
        execution = self.rows.get_execution(ref, ExecutionView.FULL)
        assert execution is not None
        return execution

    def nodes(self, ref: ExecutionRef) -> dict[str, NodeRow]:
        return {row.node_id: row for row in self.rows.query_nodes(ref, NodeView.FULL)}


@pytest.fixture
def host() -> Iterator[Host]:
    with Host() as host:
        yield host


def trivial(_context: Context, _inputs: Inputs) -> None:
    return None


def node(name: str, task: str = "trivial", **more: object) -> dict[str, object]:
    return {"id": name, "task": task, **more}


# --- What a body is given ------------------------------------------------------------------


def test_a_body_may_change_what_it_is_given_and_no_other_sees_it(host: Host) -> None:
    given: list[Any] = []

    def spoil(_context: Context, inputs: Any) -> None:
        given.append(json.loads(json.dumps(inputs)))
        inputs["execution"]["items"].append("spoilt")
        inputs["params"]["options"].clear()
        inputs["nodes"].clear()

    host.tasks = {"spoil": spoil}
    params = {"options": {"n": 1}}
    first, second = node("a", "spoil", params=params), node("b", "spoil", params=params)
    for _ in range(2):
        host.start(first, second | {"needs": ["a"]}, input={"items": [1]})
        host.run()
    engine = host.engine()
    for _ in range(2):
        host.start(first, second | {"needs": ["a"]}, input={"items": [1]})
        host.run(engine)
    assert len(given) == 8
    for inputs in given:
        assert inputs["execution"] == {"items": [1]}
        assert inputs["params"] == params


def test_a_join_that_reads_longer_than_its_lease_keeps_it(host: Host) -> None:
    """A second for each of 100 results, with the watchdog at work meanwhile."""
    width, attempts = 100, list[int]()
    engine = host.engine()

    class SlowBlobs(SqliteBlobs):
        def get(self, key: str) -> bytes | None:
            host.clock.now += 1000
            engine.sweep.run(10, lambda: PLENTY_MS)
            return super().get(key)

    def large(_context: Context, _inputs: Inputs) -> str:
        return "x" * (host.settings.inline_bytes + 1)

    def join(context: Context, inputs: Any) -> int:
        attempts.append(context.attempt)
        return len(inputs["nodes"])

    host.blobs = SlowBlobs(host.rows.database)
    host.tasks = {"large": large, "join": join}
    names = [f"n{number}" for number in range(width)]
    ref = host.start(*(node(name, "large") for name in names), node("join", "join", needs=names))
    assert width * 1000 > 2 * host.settings.lease_ms
    host.run()
    assert attempts == [1]
    assert host.nodes(ref)["join"].result == str(width)


class StoreWithRenewals:
    """A store that has every renewal of a lease done by `renew`."""

    def __init__(self, base: SqliteStore, renew: Renewal) -> None:
        self._base = base
        self._renew = renew

    def __getattr__(self, name: str) -> Any:
        return getattr(self._base, name)

    def apply(self, operation: Operation, key: Key, args: Args) -> Outcome:
        write = partial(self._base.apply, operation, key, args)
        return self._renew(write) if operation is op.RENEW_LEASE else write()


class SlowInput(SqliteBlobs):
    """A blob store that takes more than a heartbeat for the input of an execution."""

    def __init__(self, host: Host) -> None:
        super().__init__(host.rows.database)
        self._host = host

    def get(self, key: str) -> bytes | None:
        self._host.clock.now += self._host.settings.heartbeat_ms + 2000
        return super().get(key)


def run_with_slow_input(host: Host, body: SyncBody, renew: Renewal) -> NodeRow:
    host.blobs = SlowInput(host)
    host.tasks = {"body": body}
    large = {"text": "x" * (host.settings.inline_bytes + 1)}
    ref = host.start(node("a", "body"), input=large)
    host.run(host.engine(StoreWithRenewals(host.rows, renew)))
    return host.nodes(ref)["a"]


def test_a_renewal_without_an_answer_costs_no_attempt_while_the_lease_holds(host: Host) -> None:
    answers: list[str] = []

    def renew(_write: Callable[[], Outcome]) -> Outcome:
        answers.append("none")
        raise Retry("throttled")

    row = run_with_slow_input(host, trivial, renew)
    assert answers == ["none"]
    assert (row.status, row.attempt) == (NodeStatus.COMPLETED, 1)


def test_a_body_begins_within_its_lease_however_slow_the_renewal(host: Host) -> None:
    late: list[int] = []

    def renew(write: Callable[[], Outcome]) -> Outcome:
        outcome = write()
        if not late:
            late.append(1)
            host.clock.now += host.settings.lease_ms + 1000
        return outcome

    begun: list[bool] = []

    def body(context: Context, _inputs: Inputs) -> None:
        [row] = host.rows.query_nodes(ExecutionRef(context.tenant, context.execution_id))[:1]
        begun.append(host.clock.now <= row.lease_until)

    assert run_with_slow_input(host, body, renew).status is NodeStatus.COMPLETED
    assert late == [1]
    assert begun == [True]


def test_what_was_used_last_is_kept() -> None:
    recent: Recent[str, int] = Recent(2)
    recent.put("a", 1)
    recent.put("b", 2)
    assert recent.get("a") == 1
    recent.put("c", 3)
    assert [recent.get(key) for key in "abc"] == [1, None, 3]
    recent.put("a", 4)
    recent.put("d", 5)
    assert [recent.get(key) for key in "acd"] == [4, None, 5]


# --- What cannot be read -------------------------------------------------------------------


def test_an_execution_whose_definition_is_gone_before_its_start_ends_at_its_time(
    host: Host,
) -> None:
    ref = host.start(node("a"))
    with host.rows.database.transaction() as connection:
        connection.execute("DELETE FROM items WHERE tbl = 'workflows'")
    host.collect()
    engine = host.engine()
    host.clock.now = host.execution(ref).due_at or 0
    engine.sweep.run(10, lambda: PLENTY_MS)
    execution = host.execution(ref)
    assert (execution.status, execution.parked) == (ExecutionStatus.RUNNING, Reason.SWEEP_FAILED)
    host.clock.now = max(execution.due_at or 0, execution.ends_by)
    engine.sweep.run(10, lambda: PLENTY_MS)
    execution = host.execution(ref)
    assert (execution.status, execution.reason) == (ExecutionStatus.FAILED, Reason.TIMED_OUT)


def test_rows_that_cannot_be_read_make_room_on_the_due_list(host: Host) -> None:
    broken, sound = host.start(node("a")), host.start(node("a"))
    set_attributes(host.rows, keys.meta(broken), Item.META, exec_ends_by="soon")
    host.collect()
    engine = host.engine()
    host.clock.now = host.execution(sound).due_at or 0
    for _ in range(2):
        engine.sweep.run(1, lambda: PLENTY_MS)
    assert host.nodes(sound)["a"].status is NodeStatus.QUEUED
    assert host.figures.counts[Counter.SWEEP_ERROR] == 1


class Sent:
    """`ports.Publisher` that keeps what it is given."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.dispatches: list[Dispatch] = []

    def publish(self, events: Any) -> None:
        self.events += events

    def dispatch(self, dispatches: Any) -> None:
        self.dispatches += dispatches


@pytest.mark.parametrize(
    "wrong",
    [{"node_progress": {"N": "1.5"}}, {"node_fence": {"S": "x"}}, {"node_pool": {"SS": ["x"]}}],
    ids=["fraction", "text", "unknown type"],
)
def test_a_row_that_cannot_be_read_holds_up_no_other(
    host: Host, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, object]
) -> None:
    class Outbox:
        metrics = EmfMetrics("relay")
        sent = Sent()
        relay = Relay(sent, host.figures)

    monkeypatch.setattr(outbox_relay, "services", Outbox)
    host.start(node("a"))
    sound = [
        {"dynamodb": {"NewImage": {name: attributes.encode(value) for name, value in new.items()}}}
        for new in (record.new for record in host.rows.read_feed(0, 10))
    ]
    key = {"pk": {"S": "EX#acme#01K"}, "sk": {"S": "NODE#00000"}}
    queued = {"node_status": {"S": "queued"}}
    broken = {"dynamodb": {"Keys": key, "NewImage": {**key, **queued, **wrong}}}
    outbox_relay.handler({"Records": [broken, *sound]}, LambdaContext())
    assert [event.type for event in Outbox.sent.events] == [EventType.START_REQUESTED]
    assert Outbox.sent.dispatches == []
    assert host.figures.counts[Counter.RECORD_SKIPPED] == 1


# --- What takes long -----------------------------------------------------------------------


def test_a_chain_of_skipped_nodes_is_settled_at_the_deadline_in_one_pass_of_its_rows(
    host: Host,
) -> None:
    length = 300
    host.tasks = {"trivial": trivial}
    skipped = [node(f"n{i}", needs=[f"n{i - 1}"]) for i in range(2, length)]
    never = node("n1", needs=[{"node": "n0", "when": "never"}])
    ref = host.start(node("n0"), never, *skipped)
    reads = CountedReads(host.rows)
    engine = host.engine(reads)
    engine.advance.start(ref)
    [dispatch] = [message for message in host.collect() if isinstance(message, Dispatch)]
    host.worker(engine).run(dispatch, PLENTY_MS)
    host.clock.now = host.execution(ref).ends_by
    reads.rows = 0
    engine.sweep.run(10, lambda: PLENTY_MS)
    assert host.execution(ref).status is ExecutionStatus.COMPLETED
    assert reads.rows <= 4 * length


class CountedReads:
    """A store that counts the node rows that it reads."""

    def __init__(self, base: SqliteStore) -> None:
        self._base = base
        self.rows = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._base, name)

    def query_nodes(self, *args: Any, **options: Any) -> list[NodeRow]:
        found = self._base.query_nodes(*args, **options)
        self.rows += len(found)
        return found

    def get_nodes(self, *args: Any) -> dict[int, NodeRow]:
        found = self._base.get_nodes(*args)
        self.rows += len(found)
        return found


def test_a_batch_runs_side_by_side_however_large_it_is() -> None:
    size = 10
    together = threading.Barrier(size, timeout=60)
    records = [{"messageId": str(number), "body": "{}"} for number in range(size)]

    def meet(_: object) -> None:
        together.wait()

    answer = run_batch(
        {"Records": records}, LambdaContext(), EmfMetrics("worker"), meet, side_by_side=True
    )
    assert answer == {"batchItemFailures": []}


# --- What is wrong stops there -------------------------------------------------------------


def test_a_stored_result_that_is_not_what_its_hash_says_is_given_to_nobody(host: Host) -> None:
    given: list[object] = []

    def large(_context: Context, _inputs: Inputs) -> str:
        return "x" * (host.settings.inline_bytes + 1)

    def take(_context: Context, inputs: Inputs) -> None:
        given.append(inputs)

    class SpoiltBlobs(SqliteBlobs):
        def get(self, key: str) -> bytes | None:
            body = super().get(key)
            return body and body.replace(b"x", b"y", 1)

    host.blobs = SpoiltBlobs(host.rows.database)
    host.tasks = {"large": large, "take": take}
    ref = host.start(node("a", "large"), node("b", "take", needs=["a"]))
    host.run()
    row = host.nodes(ref)["b"]
    assert given == []
    assert (row.status, row.reason) == (NodeStatus.FAILED, Reason.PAYLOAD_MISSING)


def test_nothing_is_dispatched_behind_a_node_whose_failure_ends_the_execution(host: Host) -> None:
    """A sweep meets both ends at once; the one that comes first in the rows had succeeded."""

    def fail(_context: Context, _inputs: Inputs) -> None:
        raise Permanent("BROKEN", "as planned")

    host.tasks = {"trivial": trivial, "fail": fail}
    ref = host.start(node("a"), node("b", "fail"), node("c", needs=["a"]), node("d", needs=["b"]))
    engine = host.engine()
    engine.advance.start(ref)
    for dispatch in host.collect():
        if isinstance(dispatch, Dispatch):
            host.worker(engine).run(dispatch, PLENTY_MS)
    host.collect()
    host.clock.now = host.execution(ref).due_at or 0
    engine.sweep.run(10, lambda: PLENTY_MS)
    assert host.execution(ref).status is ExecutionStatus.FAILED
    assert "c" not in host.nodes(ref)
