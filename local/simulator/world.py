"""One world: processes, queues and rows of one workflow, from its start to the end of its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from local.simulator import handling
from local.simulator.agenda import EPOCH_MS, Agenda
from local.simulator.changes import BodyStart
from local.simulator.clients import CALLER, Clients, Request
from local.simulator.engine import Machine, Outside
from local.simulator.faults import ROLES, Fault, FaultPlan, Kind, Place
from local.simulator.host import End, Host, Violation
from local.simulator.network import BusAndQueues, Message, Queue, Stream
from local.simulator.patience import Patience, longest_standstill
from local.simulator.randomness import chance, seeded
from local.simulator.scenario import Recovery, Tempo
from local.simulator.store import ObservedStore
from local.simulator.strands import Strands
from local.simulator.tally import Tally
from local.simulator.watch import ExpectedInputs, Watch
from piton.adapters.workflows import Workflows
from piton.domain.canonical import Json
from piton.domain.graph import Graph
from piton.domain.rows import META_SK, ExecutionRef
from piton.domain.settings import DAY, MINUTE, Settings
from piton.ports import TaskRegistry
from piton.services.relay import Change
from piton.storage.algebra import Operation
from piton.storage.keys import Key
from piton.storage.sqlite import FeedRecord
from piton.tasks import Context, Inputs

MOST_CALLS: Final = 60_000
LONGEST_MS: Final = 60 * DAY
ONE_OF_EACH: Final = dict.fromkeys(ROLES, (0,))
_LATE_ARRIVALS: Final = 4


@dataclass(frozen=True)
class Workload:
    """What is run: a compiled workflow, its tasks and its input."""

    graph: Graph
    tasks: Callable[[Callable[[Context, Inputs], None]], TaskRegistry]
    input: Mapping[str, Json]
    inputs: ExpectedInputs
    executions: int = 1
    rivals: int = 0
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
    recovery: Recovery = Recovery.WATCHDOG
    trace: bool = False


class World:
    """A run in progress. `close` it in the end."""

    def __init__(self, workload: Workload, conditions: Conditions, strands: Strands) -> None:
        random = seeded(f"schedule/{conditions.seed}")
        self.workload = workload
        self.settings = conditions.settings
        self.tally = Tally()
        self.agenda = Agenda(random)
        plan = FaultPlan(conditions.faults, self._true_time)
        self.host = Host(self.agenda, strands, plan, conditions.tempo, random)
        if conditions.trace:
            self.host.trace = []
        self.rows = ObservedStore(
            self._committed, conditions.mutations, [node.id for node in workload.graph.nodes]
        )
        self.watch = Watch(
            workload.graph,
            workload.inputs,
            self.rows.blobs.get,
            conditions.settings,
            self._true_time,
            self._patience(conditions) if conditions.recovery is Recovery.WATCHDOG else None,
        )
        self.refs: list[ExecutionRef] = []
        self._random = random
        self._recovery = conditions.recovery
        self._retention = conditions.retention and self._recovery is Recovery.WATCHDOG
        self._forgotten: set[tuple[str, str]] = set()
        self._keys: dict[Key, int] = {}
        limit_ms = self.settings.handler_timeout_ms
        self.dead = self._queue(None, Place.DEAD_LETTERS, handling.bury, limit_ms, self._lost)
        self.events = self._queue(
            Place.EVENT, Place.STEP_RUNNER, handling.advance, limit_ms, self._lost
        )
        self.dispatches = self._queue(
            Place.DISPATCH, Place.WORKER, handling.work, None, self.dead.send
        )
        self._stream = Stream(self.host, self._relay, limit_ms)
        workflows = Workflows(self.rows.base, self.rows.blobs)
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
        request = _request(workload, workflows)
        self.clients = Clients(self.host, request, partial(self._pick, Place.COMMANDS), limit_ms)

    def run(self) -> None:
        """Run to the end of everything. Raises `Violation`."""
        for number in range(self.workload.executions):
            for _ in range(1 + self.workload.rivals):
                self.clients.start(number)
        if self._recovery is Recovery.WATCHDOG:
            self.agenda.after(self._random.randrange(MINUTE), self._tick)
        self._until_quiet()
        if self._recovery is Recovery.OPERATOR:
            self._resume_what_stands()
        if self._retention:
            self._let_expire()

    def close(self) -> None:
        """End what is left of the run."""
        self.host.close()
        self.rows.base.close()

    def _resume_what_stands(self) -> None:
        """Resume what has not ended, as often as something was lost: each time it gets further."""
        resumes = 0
        while resumes < len(self.host.plan.struck):
            resumes += 1
            for ref in self.refs:
                if not self.watch.rows.executions[ref].terminal:
                    self.agenda.after(MINUTE, partial(self.clients.resume, ref))
            self._until_quiet()

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
            fastest = max(other.clock.skew_ms for other in self._processes[Place.WATCHDOG])
            wait = max(MINUTE, (due - self.agenda.now - fastest) // MINUTE * MINUTE)
        self.agenda.after(wait, self._tick)

    def _all_retired(self) -> bool:
        executions = self.watch.rows.executions
        return not self.clients.unanswered_starts and all(
            executions[ref].terminal and executions[ref].due_at is None for ref in self.refs
        )

    def _sweep(self, process: Machine) -> None:
        self.host.spawn(
            process,
            partial(handling.sweep, process),
            lambda _: None,
            limit_ms=self.settings.handler_timeout_ms,
        )

    def _pick(self, role: Place) -> Machine:
        return self._random.choice(self._processes[role])

    def _true_time(self) -> int:
        return self.agenda.now

    def _patience(self, conditions: Conditions) -> Patience:
        skews = [skew for skews in conditions.skews.values() for skew in skews]
        uneven = conditions.tempo is Tempo.UNEVEN
        longest = longest_standstill(self.workload.graph, self.settings, skews, uneven=uneven)
        plan = self.host.plan
        return Patience(longest, self.settings.drain_ms, self._true_time, lambda: plan.quiet_since)

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
                self.clients.cancel(self._random.choice(self.refs))
            case Kind.RESUME:
                self.clients.resume(self._random.choice(self.refs))
            case Kind.START_AGAIN:
                self.clients.start(self._random.randrange(self.workload.executions))
            case Kind.SWEEP:
                self._sweep(self._pick(Place.WATCHDOG))
            case Kind.RELAY_AGAIN:
                self._stream.relay_again()
            case _:
                role = self._random.choice((Place.WORKER, Place.STEP_RUNNER, Place.WATCHDOG))
                self.host.crash_process(self._pick(role))

    # --- Messages --------------------------------------------------------------------------

    def _queue(
        self,
        place: Place | None,
        role: Place,
        handle: Callable[[Machine, Message], End],
        limit_ms: int | None,
        dead: Callable[[str], None],
    ) -> Queue:
        def consumer() -> tuple[Machine, Callable[[Message], End]]:
            process = self._pick(role)
            return process, partial(handle, process)

        return Queue(self.host, place, consumer, limit_ms=limit_ms, dead=dead)

    def _relay(self) -> tuple[Machine, Callable[[Sequence[Change]], End]]:
        process = self._pick(Place.RELAY)
        return process, partial(handling.relay, process)

    def _lost(self, body: str) -> None:
        self.host.note(f"a message is given up: {body[:60]}")

    def _body_starts(self, context: Context, inputs: Inputs) -> None:
        self.host.note(f"body of {context.node_id} starts at fence {context.fence}")
        ref = ExecutionRef(context.tenant, context.execution_id)
        self.watch.body(BodyStart(ref, context, inputs, self.host.now_ms()))

    # --- The end of the rows ---------------------------------------------------------------

    def _let_expire(self) -> None:
        """Let every row expire, in any order, while messages of long ago still arrive."""
        doomed = [key for key in self._keys if key.pk.startswith("EX#")]
        if not doomed:
            return
        self.agenda.now = max(self.agenda.now, *(1000 * self._keys[key] for key in doomed))
        self._random.shuffle(doomed)
        late = self._late_arrivals()
        for key in doomed:
            self.rows.expire(key)
            self._forgotten.add((key.pk, key.sk))
            if late and chance(self._random, _LATE_ARRIVALS / len(doomed)):
                late.pop()()
                self._until_quiet()

    def _late_arrivals(self) -> list[Callable[[], None]]:
        late: list[Callable[[], None]] = [
            partial(queue.deliver_again, self._random.choice(queue.sent))
            for queue in (self.events, self.dispatches, self.dead)
            if queue.sent
        ]
        late.append(self._stream.relay_again)
        late.append(partial(self.clients.resume, self.refs[0]))
        late.append(partial(self.clients.start, 0))
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


def _request(workload: Workload, workflows: Workflows) -> Request:
    graph, deadline_s = workload.graph, workload.deadline_s
    registered = workflows.register(CALLER.tenant, "{}", graph, EPOCH_MS, CALLER.subject)
    deadline_at = None if deadline_s is None else EPOCH_MS + int(deadline_s * 1000)
    return Request(graph.workflow_id, registered.version, dict(workload.input), deadline_at)
