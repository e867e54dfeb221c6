"""States of a small system, and every step that leads out of one.

Nothing limits the faults. A message that was sent can be delivered at any later time, any number
of times, or never: lost, repeated, late and reordered messages are all in that. A call can die at
any question; a write may be stored while its answer is lost, or be repeated. What is limited is
how many calls run at once, and how often a sweep, a cancel and a resume happen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from local.model.calls import (
    Calls,
    GotApplied,
    GotDue,
    GotExecution,
    GotGo,
    GotNodes,
    GotNothing,
    GotRefused,
    Told,
)
from local.model.interning import Numbers, with_one, without_one
from local.model.questions import (
    Act,
    Call,
    Finished,
    Question,
    ReadsDue,
    ReadsExecution,
    ReadsNodes,
    StartsBody,
    Writes,
)
from local.model.replayed import SETTINGS
from local.model.rows import ABSENT, REF
from local.model.settled import answer_is_settled, message_is_dead
from local.model.space import META, RowNumbers, Space, place_of
from local.simulator.agenda import EPOCH_MS
from local.simulator.host import Violation
from local.simulator.invariants import ended_by_its_holder
from piton.domain.rows import Value
from piton.domain.settings import MINUTE
from piton.domain.status import ExecutionStatus, Reason
from piton.storage import keys
from piton.storage import operations as op
from piton.storage.algebra import Operation

STEP_MS: Final = 2 * MINUTE
"""Time that passes before a sweep: every lease and every dispatch of before is overdue then."""

_FOR_SWEEPS: Final = frozenset({"due_at", "due_shard", "exec_parked", "exec_finished_at"})
_NOT_FOR_WORKERS: Final = _FOR_SWEEPS | {"exec_started_at", "exec_reason", "exec_node"}


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far the exploration goes."""

    at_once: int = 3
    workers: int = 2
    step_runners: int = 1
    sweeps: int = 1
    cancels: int = 1
    resumes: int = 1


class Left(NamedTuple):
    """What may still happen on the way from a state."""

    sweeps: int
    cancels: int
    resumes: int


class State(NamedTuple):
    """Rows, messages and calls by their numbers. `time` counts the sweeps that have begun."""

    rows: RowNumbers
    messages: tuple[int, ...]
    calls: tuple[int, ...]
    left: Left
    time: int


Step = tuple[str, State]


class System:
    """One small workflow with all that can happen to it."""

    def __init__(self, space: Space, bounds: Bounds) -> None:
        self.space = space
        self.bounds = bounds
        self.messages = Numbers[Call]()
        self.calls = Calls(space)
        self._essences: dict[tuple[int, bool], int] = {}

    def initial(self) -> State:
        """An execution that has just been created."""
        rows, sent = self.space.created()
        bounds = self.bounds
        left = Left(bounds.sweeps, bounds.cancels, bounds.resumes)
        return State(rows, tuple(self.messages.number(call) for call in sent), (), left, 0)

    def steps(self, state: State) -> Iterator[Step]:
        """Every step out of a state, with its name. Raises `Violation`.

        A call whose next answer can never change any more moves alone: whatever the others do,
        they do it before or after with the same effect.
        """
        for number in state.calls:
            if answer_is_settled(self.space, state.rows, self.calls, number):
                yield from self._proceed(state, number)
                return
        yield from self._deliver(state)
        for number in dict.fromkeys(state.calls):
            yield from self._proceed(state, number)
        yield from self._happen(state)

    def now(self, state: State) -> int:
        """The time, which is the same for everybody."""
        return EPOCH_MS + state.time * STEP_MS

    # --- Messages --------------------------------------------------------------------------

    def _deliver(self, state: State) -> Iterator[Step]:
        for message in state.messages:
            call = self.messages.item(message)
            if self._has_room(state, call.act):
                yield f"deliver {name_of(call)}", self._begin(state, call)

    def _has_room(self, state: State, act: Act) -> bool:
        works = act is Act.WORK
        most = self.bounds.workers if works else self.bounds.step_runners
        acts = [self.calls.call(number).act for number in state.calls]
        busy = [(act is Act.WORK) is works for act in acts if act is not Act.SWEEP]
        return sum(busy) < most and len(acts) < self.bounds.at_once

    def _begin(self, state: State, call: Call) -> State:
        if call.act is Act.WORK:
            call = replace(call, nonce=self._free_nonce(state))
        begun = self.calls.begin(call, self.now(state))
        return state._replace(calls=with_one(state.calls, begun))

    def _free_nonce(self, state: State) -> int:
        """The smallest nonce that nobody has and no row carries."""
        taken = {self.calls.call(number).nonce for number in state.calls}
        for row in state.rows[1:]:
            owner = self.space.table.attributes(row).get("node_lease_owner")
            if isinstance(owner, str):
                taken.add(int(owner.rpartition("/")[2]))
        return next(nonce for nonce in range(1, len(taken) + 2) if nonce not in taken)

    # --- Calls -----------------------------------------------------------------------------

    def _proceed(self, state: State, number: int) -> Iterator[Step]:
        question = self.calls.question(number)
        name = f"{name_of(self.calls.call(number))}: {_text(question)}"
        rest = state._replace(calls=without_one(state.calls, number))
        yield f"{name} - dies", rest
        # A sweep that cannot read gives up, as if it had died.
        quiet = self.calls.may_miss_an_answer(number) and (
            isinstance(question, Writes) or not self.calls.is_sweep(number)
        )
        if quiet:
            yield f"{name} - no answer", self._tell(rest, number, GotNothing())
        if isinstance(question, Writes):
            yield from self._write(rest, number, question, name, quiet=quiet)
        elif not isinstance(question, Finished):
            yield name, self._tell(rest, number, self._read(state, number, question))

    def _write(
        self, rest: State, number: int, question: Writes, name: str, *, quiet: bool
    ) -> Iterator[Step]:
        told, after = self._apply(rest, question)
        yield f"{name} - {_result(told)}", self._tell(after, number, told)
        if isinstance(told, GotRefused):
            return
        yield f"{name} - applied, dies", after
        if quiet:
            yield f"{name} - applied, no answer", self._tell(after, number, GotNothing())
        again, twice = self._apply(after, question)
        yield f"{name} - repeated, {_result(again)}", self._tell(twice, number, again)

    def _tell(self, state: State, number: int, told: Told) -> State:
        """Give a call its answer. It goes on to the next question that matters, or ends."""
        now = self.now(state)
        while True:
            number = self.calls.tell(number, told, now)
            match self.calls.question(number):
                case Finished():
                    return state
                case StartsBody() as question:
                    told = self._read(state, number, question)
                case Writes() as question if self._only_defers(state, number, question):
                    return state
                case _:
                    return state._replace(calls=with_one(state.calls, number))

    def _only_defers(self, state: State, number: int, question: Writes) -> bool:
        """True for a sweep that has done its work and sets the time of one that never comes."""
        defers = question.operation.name == op.DEFER.name
        return defers and not state.left.sweeps and self.calls.is_beyond_first_row(number)

    def _read(self, state: State, number: int, question: Question) -> Told:
        match question:
            case ReadsExecution():
                return GotExecution(self._as_seen_by(number, state.rows[META]))
            case ReadsNodes(ordinals):
                wanted = range(len(state.rows) - 1) if ordinals is None else ordinals
                rows = [(ordinal, state.rows[1 + ordinal]) for ordinal in wanted]
                return GotNodes(tuple(pair for pair in rows if pair[1] != ABSENT))
            case ReadsDue(now):
                due_at = self.space.execution(state.rows[META]).due_at
                return GotDue(due_at if due_at is not None and due_at <= now else None)
            case StartsBody(ordinal, fence):
                row_of_body = self.space.node(state.rows[1 + ordinal], ordinal)
                if ended_by_its_holder(row_of_body) and row_of_body.fence == fence:
                    raise Violation(f"{row_of_body.node_id}: its body starts after its end")
                return GotGo()
            case Writes():
                raise Violation("a write is no read")

    def _as_seen_by(self, number: int, row: int) -> int:
        """META without what the call never looks at. A sweep looks at everything, once."""
        act = self.calls.call(number).act
        if act is Act.SWEEP and self.calls.is_at_first_row(number):
            return row
        works = act is Act.WORK
        if (row, works) not in self._essences:
            attributes = self.space.table.attributes(row)
            dropped = _NOT_FOR_WORKERS if works else _FOR_SWEEPS
            kept = {name: v for name, v in attributes.items() if name not in dropped}
            if works:
                ended = self.space.execution(row).terminal
                status = ExecutionStatus.CANCELLED if ended else ExecutionStatus.RUNNING
                kept["exec_status"] = status.value
            self._essences[row, works] = self.space.table.number(kept)
        return self._essences[row, works]

    def _apply(self, state: State, question: Writes) -> tuple[Told, State]:
        place = place_of(question.key.sk)
        row = state.rows[place]
        applied = self.space.table.apply(question.operation, row, question.args)
        if applied is None:
            return GotRefused(), state
        rows, sent = self.space.commit(state.rows, place, applied.row)
        if not state.left.sweeps:
            rows = self.space.without_due_time(rows)
        messages = {*state.messages, *(self.messages.number(call) for call in sent)}
        alive = [
            m for m in messages if not message_is_dead(self.space, rows, self.messages.item(m))
        ]
        after = state._replace(rows=rows, messages=tuple(sorted(alive)))
        return GotApplied(applied.returned), after

    # --- What comes from outside -----------------------------------------------------------

    def _happen(self, state: State) -> Iterator[Step]:
        left = state.left
        free = len(state.calls) < self.bounds.at_once
        if left.sweeps and free and not any(map(self.calls.is_sweep, state.calls)):
            later = state._replace(time=state.time + 1, left=left._replace(sweeps=left.sweeps - 1))
            yield "a sweep begins", self._begin(later, Call(Act.SWEEP))
        now = self.now(state)
        if left.cancels:
            reason = Reason.CANCELLED_BY_CALLER.value
            cancel: dict[str, Value] = {
                "now": now,
                "reason": reason,
                "due_at": now + SETTINGS.drain_ms,
            }
            after = self._command(state, op.CANCEL_EXECUTION, cancel)
            yield "cancel", after._replace(left=left._replace(cancels=left.cancels - 1))
        if left.resumes:
            after = self._command(state, op.RESUME, {"now": now, "actor": "somebody"})
            yield "resume", after._replace(left=left._replace(resumes=left.resumes - 1))

    def _command(self, state: State, operation: Operation, args: dict[str, Value]) -> State:
        return self._apply(state, Writes(operation, keys.meta(REF), args))[1]


def name_of(call: Call) -> str:
    """Name a call for a person."""
    if call.dispatch is not None:
        return f"work on {call.dispatch.node_id} (fence {call.dispatch.fence}, {call.nonce})"
    act = call.act.name.lower()
    return act if call.ordinal < 0 else f"{act} from {call.ordinal}"


def _text(question: Question | Finished) -> str:
    if isinstance(question, Writes):
        return f"{question.operation.name} {question.key.sk}"
    return type(question).__name__


def _result(told: Told) -> str:
    return "refused" if isinstance(told, GotRefused) else "applied"
