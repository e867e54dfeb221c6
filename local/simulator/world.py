"""One world: processes, queues and rows of one workflow, from its start to the end of its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Final

from handlers.step_runner import route
from local.simulator.agenda import EPOCH_MS, Agenda
from local.simulator.engine import Machine, Outside
from local.simulator.faults import ROLES, Fault, FaultPlan, Kind, Place
from local.simulator.host import End, Host, Violation
from local.simulator.invariants import BodyStart, ExpectedInputs, Watch
from local.simulator.network import BusAndQueues, Message, Queue, Stream
from local.simulator.randomness import chance, seeded
from local.simulator.scenario import Tempo
from local.simulator.store import ObservedStore
from local.simulator.strands import Strands
from local.simulator.tally import Tally
from piton.adapters.workflows import Workflows
from piton.contracts import StartExecutionInput, parse_dispatch, parse_event
from piton.domain.canonical import Json
from piton.domain.errors import ErrorCode, NotYet, Rejected, Retry, Stale
from piton.domain.graph import Graph
from piton.domain.names import Tenant
from piton.domain.rows import META_SK, ExecutionRef
from piton.domain.settings import DAY, MINUTE, Settings
from piton.ports import TaskRegistry
from piton.services.caller import Caller, Group
from piton.services.relay import Change
from piton.storage.algebra import Operation
from piton.storage.keys import Key
from piton.storage.sqlite import FeedRecord
from piton.tasks import Context, Inputs

CALLER: Final = Caller(Tenant("simulation"), "simulator", frozenset({Group.OPERATORS}))
MOST_CALLS: Final = 60_000
LONGEST_MS: Final = 60 * DAY
ONE_OF_EACH: Final = dict.fromkeys(ROLES, (0,))
_WORKER_TIME_MS: Final = 1_000_000
_ASK_AGAIN_MS: Final = 700
_LATE_MESSAGES: Final = 4


@dataclass(frozen=True)
class Workload:
    """What is run: a compiled workflow, its tasks and its input."""

    graph: Graph
    tasks: Callable[[Callable[[Context, Inputs], None]], TaskRegistry]
    input: Mapping[str, Json]
    inputs: ExpectedInputs
    executions: int = 1
    deadline_s: float | None = None


@dataclass(frozen=True)
class Conditions:
    """Under which circumstances it is run."""

    seed: str
    faults: Sequence[Fault] = ()
    tempo: Tempo = Tempo.USUAL
    skews: Mapping[Place, tuple[int, ...]] = field(default_factory=lambda: ONE_OF_EACH)
    settings: Settings = field(default_factory=Settings)
    mutations: Mapping[str, Operation] = field(default_factory=dict)
    retention: bool = True
    trace: bool = False


class World:
    """A run in progress. `close` it in the end."""

    def __init__(self, workload: Workload, conditions: Conditions, strands: Strands) -> None:
        random = seeded(f"schedule/{conditions.seed}")
        self.workload = workload
        self.settings = conditions.settings
        self.tally = Tally()
        self.agenda = Agenda(random)
        plan = FaultPlan(conditions.faults)
        self.host = Host(self.agenda, strands, plan, conditions.tempo, random)
        if conditions.trace:
            self.host.trace = []
        self.rows = ObservedStore(self._committed, conditions.mutations)
        self.watch = Watch(workload.graph, workload.inputs, self.rows.blobs.get)
        self.refs: list[ExecutionRef] = []
        self.refused_starts: list[ErrorCode] = []
        self._random = random
        self._retention = conditions.retention
        self._forgotten: set[tuple[str, str]] = set()
        self._keys: dict[Key, int] = {}
        self._waiting_starts = workload.executions
        workflows = Workflows(self.rows.base, self.rows.blobs)
        self._version = workflows.register(
            CALLER.tenant, "{}", workload.graph, EPOCH_MS, CALLER.subject
        ).version
        self.events = Queue(
            self.host,
            Place.EVENT,
            partial(self._consumer, Place.STEP_RUNNER, self._advance),
            limit_ms=self.settings.handler_timeout_ms,
            dead=self._lost,
        )
        self.dispatches = Queue(
            self.host,
            Place.DISPATCH,
            partial(self._consumer, Place.WORKER, self._work),
            limit_ms=None,
            dead=self._undeliverable,
        )
        self._dead = Queue(
            self.host,
            None,
            partial(self._consumer, Place.DEAD_LETTERS, self._bury),
            limit_ms=self.settings.handler_timeout_ms,
            dead=self._lost,
        )
        self._stream = Stream(self.host, partial(self._pick, Place.RELAY), self._relay)
        outside = Outside(
            self.host,
            self.rows,
            workflows,
            BusAndQueues(self.host, self.events, self.dispatches),
            workload.tasks(self._body_starts),
            self.settings,
            self.tally,
            random,
        )
        self._processes = _processes(outside, conditions.skews)

    def run(self) -> None:
        """Run to the end of everything. Raises `Violation`."""
        for number in range(self.workload.executions):
            self.agenda.after(0, partial(self._start, number))
        self.agenda.after(self._random.randrange(MINUTE), self._tick)
        self._until_quiet()
        if self._retention:
            self._let_expire()

    def close(self) -> None:
        """End what is left of the run."""
        self.host.close()
        self.rows.base.close()

    # --- The clockwork ---------------------------------------------------------------------

    def _until_quiet(self) -> None:
        latest = self.agenda.now + LONGEST_MS
        while self.agenda:
            self.agenda.do_next()
            if self.host.calls > MOST_CALLS or self.agenda.now > latest:
                days = (self.agenda.now - EPOCH_MS) // DAY
                raise Violation(f"no end after {self.host.calls} calls and {days} days")

    def _tick(self) -> None:
        """The schedule of the watchdog: once a minute, skipping minutes with nothing to find."""
        if self._all_retired():
            return
        process = self._pick(Place.WATCHDOG)
        due = self.rows.next_due
        if due is not None and due <= process.clock.now_ms():
            self._sweep(process)
        wait = MINUTE
        if due is not None:
            ahead = due - self.agenda.now - max(p.clock.skew_ms for p in self._of(Place.WATCHDOG))
            wait = max(MINUTE, ahead // MINUTE * MINUTE)
        self.agenda.after(wait, self._tick)

    def _all_retired(self) -> bool:
        executions = self.watch.rows.executions
        return not self._waiting_starts and all(
            executions[ref].terminal and executions[ref].due_at is None for ref in self.refs
        )

    def _sweep(self, process: Machine) -> None:
        self.host.spawn(
            process,
            partial(self._handled, partial(_sweep, process)),
            _whatever,
            limit_ms=self.settings.handler_timeout_ms,
        )

    def _of(self, role: Place) -> list[Machine]:
        return self._processes[role]

    def _pick(self, role: Place) -> Machine:
        return self._random.choice(self._of(role))

    # --- Changes ---------------------------------------------------------------------------

    def _committed(self, record: FeedRecord) -> None:
        place = (record.pk, record.sk)
        if place in self._forgotten:
            raise Violation(f"{record.sk} came back after it had expired")
        self.watch.change(record)
        key = Key(record.table, record.pk, record.sk)
        self._keys[key] = self.watch.rows.expires_at[place]
        self._stream.append(Change(record.old, record.new))
        if record.sk == META_SK and record.old is None:
            self.refs.append(ExecutionRef.from_pk(record.pk))
        for fault in self.host.plan.next(Place.COMMIT):
            self.agenda.after(self._random.choice((0, 1, 30)), partial(self._happens, fault))

    def _happens(self, fault: Fault) -> None:
        match fault.kind:
            case Kind.CANCEL:
                self._command(partial(_cancel, self._random.choice(self.refs)))
            case Kind.RESUME:
                self._command(partial(_resume, self._random.choice(self.refs)))
            case Kind.SWEEP:
                self._sweep(self._pick(Place.WATCHDOG))
            case Kind.RELAY_AGAIN:
                self._stream.relay_again()
            case Kind.START_AGAIN:
                self._waiting_starts += 1
                self._start(self._random.randrange(self.workload.executions))
            case _:
                role = self._random.choice((Place.WORKER, Place.STEP_RUNNER, Place.WATCHDOG))
                self.host.crash_process(self._pick(role))

    # --- Callers ---------------------------------------------------------------------------

    def _start(self, number: int) -> None:
        asked = self._request(number)

        def started(end: End) -> None:
            if end is End.DONE:
                self._waiting_starts -= 1
            else:
                self.agenda.after(_ASK_AGAIN_MS, partial(self._start, number))

        process = self._pick(Place.COMMANDS)

        def start() -> None:
            try:
                process.services.commands.start_execution(CALLER, asked)
            except Rejected as answer:
                self.refused_starts.append(answer.code)
                raise

        self.host.spawn(
            process,
            partial(self._handled, start),
            started,
            limit_ms=self.settings.handler_timeout_ms,
        )

    def _request(self, number: int) -> StartExecutionInput:
        deadline = self.workload.deadline_s
        return StartExecutionInput.model_validate(
            {
                "workflow": self.workload.graph.workflow_id,
                "version": self._version,
                "input": dict(self.workload.input),
                "idempotency": {"document": f"document-{number}", "operationVersion": 1},
                "deadlineAt": None if deadline is None else _zoned(EPOCH_MS + int(deadline * 1000)),
            }
        )

    def _command(self, command: Callable[[Machine], None]) -> None:
        process = self._pick(Place.COMMANDS)

        def answered(end: End) -> None:
            if end is not End.DONE:
                self.agenda.after(_ASK_AGAIN_MS, partial(self._command, command))

        self.host.spawn(
            process,
            partial(self._handled, partial(command, process)),
            answered,
            limit_ms=self.settings.handler_timeout_ms,
        )

    # --- Handlers --------------------------------------------------------------------------

    def _handled(self, work: Callable[[], object], message: Message | None = None) -> End:
        """Call a service and map its errors, as the handlers do."""
        try:
            work()
        except NotYet as early:
            if message is not None:
                message.hidden_ms = early.wait_ms
            return End.FAILED
        except Retry:
            return End.FAILED
        except (Stale, Rejected):
            return End.DONE
        except Exception as error:
            raise Violation(f"a handler raised {error!r}") from error
        return End.DONE

    def _consumer(
        self, role: Place, handle: Callable[[Machine, str], object]
    ) -> tuple[Machine, Callable[[Message], End]]:
        process = self._pick(role)

        def handler(message: Message) -> End:
            return self._handled(partial(handle, process, message.body), message)

        return process, handler

    def _advance(self, process: Machine, body: str) -> None:
        route(process.services.advance, parse_event(body))

    def _work(self, process: Machine, body: str) -> None:
        process.services.work.run(parse_dispatch(body).to_dispatch(), _WORKER_TIME_MS)

    def _bury(self, process: Machine, body: str) -> None:
        process.services.dead_letters.undeliverable(parse_dispatch(body).to_dispatch())

    def _relay(self, process: Machine, changes: Sequence[Change]) -> End:
        return self._handled(partial(process.services.relay.relay, changes))

    def _undeliverable(self, body: str) -> None:
        self._dead.send(body)

    def _lost(self, body: str) -> None:
        self.host.note(f"a message is given up: {body[:60]}")

    def _body_starts(self, context: Context, inputs: Inputs) -> None:
        self.host.note(f"body of {context.node_id} starts at fence {context.fence}")
        ref = ExecutionRef(context.tenant, context.execution_id)
        self.watch.body(BodyStart(ref, context, inputs))

    # --- The end of the rows ---------------------------------------------------------------

    def _let_expire(self) -> None:
        """Let every row expire, in any order, while messages of long ago still arrive."""
        doomed = [key for key in self._keys if key.pk.startswith("EX#")]
        if not doomed:
            return
        self.agenda.now = max(self.agenda.now, *(1000 * self._keys[key] for key in doomed))
        self._random.shuffle(doomed)
        late = self._late_messages()
        for key in doomed:
            self.rows.expire(key)
            self._forgotten.add((key.pk, key.sk))
            if late and chance(self._random, _LATE_MESSAGES / len(doomed)):
                late.pop()()
                self._until_quiet()

    def _late_messages(self) -> list[Callable[[], None]]:
        late: list[Callable[[], None]] = [
            partial(queue.deliver_again, self._random.choice(queue.sent))
            for queue in (self.events, self.dispatches, self._dead)
            if queue.sent
        ]
        late.append(self._stream.relay_again)
        late.append(partial(self._command, partial(_resume, self.refs[0])))
        late.append(partial(self._start, 0))
        self._random.shuffle(late)
        return late


def _processes(
    outside: Outside, skews: Mapping[Place, tuple[int, ...]]
) -> dict[Place, list[Machine]]:
    found: dict[Place, list[Machine]] = {}
    number = 0
    for role, role_skews in skews.items():
        found[role] = []
        for skew in role_skews:
            number += 1
            found[role].append(Machine(outside, role, number, skew))
    return found


def _sweep(process: Machine) -> None:
    process.services.sweep.run(100, lambda: 60_000)


def _cancel(ref: ExecutionRef, process: Machine) -> None:
    process.services.commands.cancel_execution(CALLER, ref.execution_id, None)


def _resume(ref: ExecutionRef, process: Machine) -> None:
    process.services.commands.resume_execution(CALLER, ref.execution_id)


def _whatever(_: End) -> None:
    return


def _zoned(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()
