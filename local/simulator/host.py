"""Processes, and the calls that run in them until they end, crash or run out of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from random import Random
from typing import Final, TypeVar

from local.simulator.agenda import EPOCH_MS, Agenda, SkewedClock
from local.simulator.faults import Fault, FaultPlan, Kind, Place
from local.simulator.randomness import chance
from local.simulator.scenario import Tempo
from local.simulator.strands import Killed, Strand, Strands
from piton.domain.errors import Retry

T = TypeVar("T")

_PAUSES: Final = 0.3
_MEAN_PAUSE_MS: Final = 200
_SLOW_TASKS: Final = 0.25
_SLOWEST_MS: Final = 15_000


class Violation(BaseException):
    """Something happened that the engine promises never happens.

    Not an `Exception`: no handling of errors inside the engine may swallow it.
    """


class End(Enum):
    """How a handler's run ended, as its caller sees it."""

    DONE = auto()
    FAILED = auto()
    CRASHED = auto()


class Process:
    """One process with its clock. `number` is unique among all processes of a world."""

    def __init__(self, role: Place, number: int, clock: SkewedClock) -> None:
        self.role = role
        self.number = number
        self.name = f"{role} {number}"
        self.clock = clock
        self.lives = 1
        self.tasks: list[Task] = []

    def replace(self) -> None:
        """Begin a new life: whatever was in memory is gone."""
        self.lives += 1


class Task:
    """One run of a handler within a process. `kill_at` is when its time is up."""

    def __init__(
        self,
        process: Process,
        strand: Strand,
        on_end: Callable[[End], None],
        kill_at: int | None,
    ) -> None:
        self.process = process
        self.strand = strand
        self.on_end = on_end
        self.kill_at = kill_at
        self.end = End.CRASHED
        self.slow = False


@dataclass(frozen=True, slots=True)
class Call:
    """One call to the outside: which kind of process asked for what."""

    role: Place
    what: str
    writes: bool


class Host:
    """Runs tasks one at a time on the agenda's clock and lets the planned faults strike.

    `trace` collects what happened, in words, and `asked` every call, when they are lists.
    """

    def __init__(
        self, agenda: Agenda, strands: Strands, plan: FaultPlan, tempo: Tempo, random: Random
    ) -> None:
        self.agenda = agenda
        self.plan = plan
        self.random = random
        self.calls = 0
        self.index_lag = 0
        self.trace: list[str] | None = None
        self.asked: list[Call] | None = None
        self._strands = strands
        self._tempo = tempo
        self._current: Task | None = None
        self._crashing: Process | None = None
        self._living: list[Task] = []

    def spawn(
        self,
        process: Process,
        work: Callable[[], End],
        on_end: Callable[[End], None],
        *,
        limit_ms: int | None = None,
    ) -> None:
        """Begin to run `work` in a process now. `on_end` is told how it ended."""
        kill_at = None if limit_ms is None else self.agenda.now + limit_ms

        def body() -> None:
            task.end = work()

        task = Task(process, self._strands.new(body), on_end, kill_at)
        # A slow worker would lose its lease, which is for the planned faults to decide.
        task.slow = (
            self._tempo is Tempo.UNEVEN
            and process.role is not Place.WORKER
            and chance(self.random, _SLOW_TASKS)
        )
        process.tasks.append(task)
        self._living.append(task)
        self._go(task)

    def latency(self) -> int:
        """How long one call takes."""
        if self._current is not None and self._current.slow:
            return self.random.randint(1, _SLOWEST_MS)
        match self._tempo:
            case Tempo.LOCKSTEP:
                return 1
            case Tempo.USUAL | Tempo.UNEVEN:
                return self.random.randint(1, 20)
            case Tempo.WILD:
                if not chance(self.random, _PAUSES):
                    return 3
                return int(self.random.expovariate(1 / _MEAN_PAUSE_MS))

    def now_ms(self) -> int:
        """Wall-clock time as the process believes it whose task is running."""
        if self._current is None:
            raise Violation("asked for the time outside any task")
        return self._current.process.clock.now_ms()

    def sleep(self, delay_ms: int) -> None:
        """Stop the current task for a while. Others go on in the meantime."""
        task = self._current
        if task is None:
            raise Violation("a call outside any task")
        if task.kill_at is not None and self.agenda.now + delay_ms >= task.kill_at:
            wait = max(0, task.kill_at - self.agenda.now)
            self.agenda.after(wait, partial(self.crash_process, task.process))
        else:
            self.agenda.after(delay_ms, partial(self._go, task))
        task.strand.pause()

    def stall(self) -> int:
        """For how long the process of the next body to start stands still."""
        return _amount(self.plan.next(Place.BODY), Kind.STALLED)

    def call(self, action: Callable[[], T], what: str, *, writes: bool) -> T:
        """Carry out one call to the outside, with whatever is planned to go wrong with it."""
        task = self._current
        if task is None:
            raise Violation("a call outside any task")
        self.calls += 1
        if self.asked is not None:
            self.asked.append(Call(task.process.role, what, writes))
        faults = [*self.plan.next(task.process.role), *self.plan.next(Place.CALL)]
        kinds = {fault.kind for fault in faults}
        self.sleep(self.latency() + _amount(faults, Kind.PAUSED))
        if Kind.CRASH_BEFORE in kinds:
            self._crash_here(task)
        if Kind.THROTTLED in kinds:
            raise Retry("throttled")
        if Kind.LATE in kinds and writes:
            self.agenda.after(_amount(faults, Kind.LATE), _ignoring_answer(action))
            raise Retry("no answer in time")
        self.index_lag = _amount(faults, Kind.STALE_INDEX)
        answer = action()
        if Kind.CRASH_AFTER in kinds:
            self._crash_here(task)
        if Kind.LOST_ANSWER in kinds:
            raise Retry("the answer was lost")
        if Kind.REPEATED in kinds and writes:
            self.sleep(self.latency())
            answer = action()
        return answer

    def crash_process(self, process: Process) -> None:
        """End a process with everything in it, from outside."""
        self.note(f"{process.name} dies")
        tasks = list(process.tasks)
        process.tasks.clear()
        for task in tasks:
            self._current = task
            task.strand.kill()
        self._current = None
        process.replace()
        for task in tasks:
            self._over(task)

    def close(self) -> None:
        """End every task that is left."""
        for task in self._living:
            self._current = task
            task.strand.kill()
        self._current = None
        self._living.clear()

    def note(self, text: str) -> None:
        """Write a line of the trace, if one is kept."""
        if self.trace is not None:
            who = self._current.process.name if self._current else "world"
            self.trace.append(f"{self.agenda.now - EPOCH_MS:>9} {who}: {text}")

    def _go(self, task: Task) -> None:
        if task.strand.has_ended():
            return
        self._current = task
        try:
            task.strand.resume()
        finally:
            self._current = None
        crashing, self._crashing = self._crashing, None
        if crashing is not None:
            self.crash_process(crashing)
        elif task.strand.has_ended():
            task.process.tasks.remove(task)
            self._over(task)

    def _over(self, task: Task) -> None:
        self._living.remove(task)
        task.on_end(task.end)

    def _crash_here(self, task: Task) -> None:
        self._crashing = task.process
        raise Killed


def _amount(faults: list[Fault], kind: Kind) -> int:
    return sum(fault.amount for fault in faults if fault.kind is kind)


def _ignoring_answer(action: Callable[[], object]) -> Callable[[], None]:
    def carry_out() -> None:
        action()

    return carry_out
