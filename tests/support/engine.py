"""The whole engine in one process: real services, the embedded store, a turned clock.

The feed is read into messages and the messages wait in `flight` until somebody delivers them.
What to deliver when, and what to break, is decided elsewhere (`chaos`).
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Self

from piton.adapters.conditions import check_condition, evaluate_condition
from piton.adapters.workflows import Workflows
from piton.contracts import StartExecutionInput
from piton.domain import canonical
from piton.domain.errors import NotYet, Rejected, Retry, Stale
from piton.domain.messages import Dispatch, Event, Message
from piton.domain.names import Tenant
from piton.domain.rows import ExecutionRef, ExecutionRow, NodeRow
from piton.domain.settings import Settings
from piton.domain.status import EventType
from piton.ports import BodyOutcome, Counter, LeaseLost, Raised, Returned, Timer
from piton.services.assembly import Engine as Services
from piton.services.assembly import Ports
from piton.services.bodies import PoolProfile
from piton.services.caller import Caller, Group
from piton.services.commands import Commands
from piton.services.relay import Change, messages_of
from piton.services.work import WorkerIdentity
from piton.storage.sqlite import FeedRecord, SqliteStore
from piton.storage.sqlite_blobs import SqliteBlobs
from piton.storage.views import ExecutionView, NodeView
from piton.tasks import Context, Inputs, Permanent, Task, Transient
from tests.support.actors import Actor, Stage, SteppedStore
from tests.support.plans import BROKEN, INPUT, POOLS, WORKFLOW_ID, Expected, Plan, run_in_sequence

EPOCH: Final = 1_760_000_000_000
PLENTY_MS: Final = 10**9
OPERATOR: Final = Caller(Tenant("acme"), "operator", frozenset({Group.OPERATORS}))
ACTED_ON: Final = {
    EventType.START_REQUESTED,
    EventType.RESUME_REQUESTED,
    EventType.NODE_COMPLETED,
    EventType.NODE_FAILED,
    EventType.NODE_SKIPPED,
    EventType.WORKFLOW_CANCELLED,
    EventType.WORKFLOW_FAILED,
}
TERMINAL_EVENTS: Final = {
    EventType.WORKFLOW_COMPLETED,
    EventType.WORKFLOW_FAILED,
    EventType.WORKFLOW_CANCELLED,
}


class TurnedClock:
    """Stands still unless it is turned."""

    def __init__(self) -> None:
        self.now = EPOCH

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> int:
        return self.now - EPOCH


class CountedNames:
    """Names in a fixed order, and jitter in the middle of its range."""

    def __init__(self) -> None:
        self._given = 0

    def uniform(self) -> float:
        return 0.5

    def ulid(self, now_ms: int) -> str:
        del now_ms
        return f"01K{self._next():023d}"

    def nonce(self) -> str:
        return f"nonce-{self._next()}"

    def _next(self) -> int:
        self._given += 1
        return self._given


class Figures:
    """Counts what the engine counts."""

    def __init__(self) -> None:
        self.counts: Tally[Counter] = Tally()

    def count(self, counter: Counter, amount: int = 1) -> None:
        self.counts[counter] += amount

    def time(self, timer: Timer, milliseconds: int) -> None:
        assert milliseconds >= 0, timer


class SteppedRunner:
    """`ports.BodyRunner` in which others may go before, during and after a body."""

    def __init__(self, stage: Stage, clock: TurnedClock) -> None:
        self._stage = stage
        self._clock = clock

    def run(
        self,
        body: Callable[[], object],
        *,
        timeout_ms: int,
        heartbeat_ms: int,
        renew: Callable[[], bool],
    ) -> BodyOutcome:
        del timeout_ms
        start = self._clock.monotonic_ms()
        self._stage.turn()
        outcome = _run(body)
        self._stage.turn()
        if self._clock.monotonic_ms() - start >= heartbeat_ms and not renew():
            return LeaseLost()
        return outcome


def _run(body: Callable[[], object]) -> BodyOutcome:
    try:
        return Returned(body())
    except Exception as error:  # noqa: BLE001
        return Raised(error)


def _ordered(inputs: Any) -> tuple[str, list[str]]:
    """What a body is given, and in which order it would go through the results."""
    return canonical.dumps(dict(inputs)), list(inputs["nodes"])


class NoLambda:
    """No plan invokes a function."""

    def invoke(self, arn: str, payload: object, timeout_s: float) -> Any:
        raise NotImplementedError


@dataclass
class Parcel:
    """A message on its way. It is hidden until `visible_at`."""

    message: Message
    visible_at: int


@dataclass
class Engine:
    """One execution of a plan and everything that works on it."""

    plan: Plan
    settings: Settings = field(default_factory=Settings)
    expected: Expected = field(init=False)
    stage: Stage = field(default_factory=Stage)
    clock: TurnedClock = field(default_factory=TurnedClock)
    figures: Figures = field(default_factory=Figures)
    rows: SqliteStore = field(default_factory=SqliteStore)
    flight: list[Parcel] = field(default_factory=list)
    sent: list[Message] = field(default_factory=list)
    feed: list[FeedRecord] = field(default_factory=list)
    bodies_run: list[tuple[str, int]] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    deadline_at: str | None = None

    def __post_init__(self) -> None:
        self.expected = run_in_sequence(self.plan)
        store = SteppedStore(self.rows, self.stage)
        blobs, names = SqliteBlobs(self.rows.database), CountedNames()
        self.workflows = Workflows(self.rows, blobs)
        clock, figures, settings = self.clock, self.figures, self.settings
        ports = Ports(
            store=store,
            workflows=self.workflows,
            blobs=blobs,
            clock=clock,
            random=names,
            metrics=figures,
            settings=settings,
            condition=evaluate_condition,
        )
        engine = Services(ports)
        self._payloads, self.advance, self.sweep = engine.payloads, engine.advance, engine.sweep
        self.work = engine.worker(
            tasks=self,
            runner=SteppedRunner(self.stage, clock),
            invoker=NoLambda(),
            pool=PoolProfile(900_000, frozenset(), lambda _: None),
            identity=WorkerIdentity("host", "code"),
        )
        self.commands = Commands(
            store=store,
            workflows=self.workflows,
            blobs=blobs,
            clock=clock,
            random=names,
            metrics=figures,
            settings=settings,
            pools=POOLS,
            check_condition=check_condition,
        )
        self.graph = self.plan.graph()
        self.workflows.register(OPERATOR.tenant, "{}", self.graph, EPOCH, "me")
        asked = StartExecutionInput.model_validate(
            {"workflow": WORKFLOW_ID, "input": INPUT, "deadlineAt": self.deadline_at}
        )
        self.ref: ExecutionRef = self.commands.start_execution(OPERATOR, asked).execution.ref

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stage.clear()
        self.rows.close()

    # --- Messages --------------------------------------------------------------------------

    def collect(self) -> list[FeedRecord]:
        """Put what the feed has let out since the last call on its way."""
        records = self.rows.read_feed(self.feed[-1].seq if self.feed else 0, 10_000)
        for record in records:
            self.feed.append(record)
            for message in messages_of(Change(record.old, record.new)):
                self.post(message)
        return records

    def post(self, message: Message) -> None:
        """Send a message."""
        self.sent.append(message)
        if isinstance(message, Dispatch):
            self.flight.append(Parcel(message, self.clock.now + 1000 * message.delay_s))
        elif message.type in ACTED_ON:
            self.flight.append(Parcel(message, self.clock.now))

    def visible(self) -> list[Parcel]:
        """Messages that a queue would hand out now, oldest first."""
        return [parcel for parcel in self.flight if parcel.visible_at <= self.clock.now]

    def deliver(self, parcel: Parcel, *, keep: bool = False) -> Actor:
        """Start an actor on a message. With `keep` another copy stays on its way."""
        if not keep:
            self.flight.remove(parcel)
        message = parcel.message
        name = message.event_id if isinstance(message, Event) else f"dispatch {message.node_id}"
        return self.stage.add(name, lambda: self._handle(message))

    def _handle(self, message: Message) -> None:
        match message:
            case Dispatch():
                self._acknowledge(message, lambda: self.work.run(message, PLENTY_MS))
            case Event():
                self._acknowledge(message, lambda: self._route(message))

    def _route(self, event: Event) -> None:
        match event.type:
            case EventType.START_REQUESTED:
                self.advance.start(self.ref)
            case EventType.RESUME_REQUESTED:
                self.advance.resume(self.ref)
            case EventType.WORKFLOW_CANCELLED | EventType.WORKFLOW_FAILED:
                self.advance.ended(self.ref)
            case _:
                ordinal = event.detail["ordinal"]
                assert isinstance(ordinal, int)
                self.advance.node_ended(self.ref, ordinal)

    def _acknowledge(self, message: Message, handle: Callable[[], object]) -> None:
        """Handle a message as a queue's consumer does: what is not done comes again."""
        comes_again: int | None = self.clock.now
        try:
            handle()
            comes_again = None
        except Stale:
            comes_again = None
        except NotYet as early:
            comes_again = self.clock.now + early.wait_ms
        except Retry:
            comes_again = self.clock.now
        finally:
            # A crash passes through here too: the queue hands the message out again.
            if comes_again is not None:
                self.flight.append(Parcel(message, comes_again))

    # --- Other actors ----------------------------------------------------------------------

    def start_sweep(self) -> Actor:
        return self.stage.add("sweep", self._sweep)

    def _sweep(self) -> None:
        with suppress(Retry):
            self.sweep.run(10, lambda: PLENTY_MS)

    def start_resume(self) -> Actor:
        return self.stage.add("resume", self._resume)

    def _resume(self) -> None:
        with suppress(Rejected, Retry):
            self.commands.resume_execution(OPERATOR, self.ref.execution_id)

    def start_cancel(self) -> Actor:
        return self.stage.add("cancel", self._cancel)

    def _cancel(self) -> None:
        with suppress(Rejected, Retry):
            self.commands.cancel_execution(OPERATOR, self.ref.execution_id, None)

    # --- State -----------------------------------------------------------------------------

    def execution(self) -> ExecutionRow:
        execution = self.rows.get_execution(self.ref, ExecutionView.FULL)
        assert execution is not None
        return execution

    def nodes(self) -> dict[str, NodeRow]:
        """Rows by node id, gates included."""
        return {row.node_id: row for row in self.rows.query_nodes(self.ref, NodeView.FULL)}

    def payload(self, row: NodeRow) -> Any:
        """What a node returned."""
        return self._payloads.load_result(row)

    def terminal_events(self) -> list[Event]:
        """Terminal events of the execution, as often as the feed let them out."""
        return [m for m in self.sent if isinstance(m, Event) and m.type in TERMINAL_EVENTS]

    # --- Bodies ----------------------------------------------------------------------------

    def find(self, name: str) -> Task | None:
        """As `ports.TaskRegistry`: every node has the same task."""
        return Task(name, self._body, None, None)

    def _body(self, context: Context, inputs: Inputs) -> Any:
        node_id = context.node_id
        self._check_start(node_id, context.fence, inputs)
        self.bodies_run.append((node_id, context.fence))
        behaviour = self.plan.behaviours[node_id]
        if sum(run == node_id for run, _ in self.bodies_run) <= behaviour.stumbles:
            raise Transient("STUMBLED")
        if behaviour.breaks:
            raise Permanent(BROKEN, "as planned")
        return self.plan.result(node_id, inputs)

    def _check_start(self, node_id: str, fence: int, inputs: Mapping[str, Any]) -> None:
        row = self.nodes()[node_id]
        if row.terminal and row.fence == fence:
            self.violations.append(f"{node_id} had ended at fence {fence} and ran again")
        if (node_id, fence) in self.bodies_run:
            self.violations.append(f"{node_id} ran twice at fence {fence}")
        expected = self.expected.outcomes.get(node_id)
        if expected is None or expected.inputs is None:
            self.violations.append(f"{node_id} ran and should never have been dispatched")
        elif _ordered(inputs) != _ordered(expected.inputs):
            self.violations.append(f"{node_id} was given {dict(inputs)}")
