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

from local.model.calls import Calls
from local.model.interning import Numbers, with_one, without_one
from local.model.moves import Ground, Moves
from local.model.questions import Act, Call, Writes
from local.model.replayed import SETTINGS
from local.model.rows import REF
from local.model.settled import answer_is_settled
from local.model.space import Space
from local.simulator.agenda import EPOCH_MS
from piton.domain.rows import Value
from piton.domain.settings import MINUTE
from piton.domain.status import Reason
from piton.storage import keys
from piton.storage import operations as op
from piton.storage.algebra import Operation

STEP_MS: Final = 2 * MINUTE
"""Time that passes before a sweep: every lease and every dispatch of before is overdue then."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far it goes: calls at once, in all and by kind, and what happens how often.

    `sweeps` counts those of the whole way, `sweeps_at_once` those that may overlap.
    """

    at_once: int = 2
    workers: int = 2
    step_runners: int = 1
    sweeps_at_once: int = 1
    sweeps: int = 1
    cancels: int = 1
    resumes: int = 1


class Left(NamedTuple):
    """What may still happen on the way from a state."""

    sweeps: int
    cancels: int
    resumes: int


class State(NamedTuple):
    """Rows with messages, and calls, by their numbers. `time` counts the sweeps that have begun."""

    ground: int
    calls: tuple[int, ...]
    left: Left
    time: int


Step = tuple[str, State]


class System:
    """One small workflow with all that can happen to it."""

    def __init__(self, space: Space, bounds: Bounds) -> None:
        self.space = space
        self.bounds = bounds
        self._messages = Numbers[Call]()
        self._calls = Calls(space)
        self._moves = Moves(space, self._calls, self._messages)
        self._settled: dict[tuple[int, int], bool] = {}
        self._commands: dict[tuple[int, int, bool], dict[str, int]] = {}

    def initial(self) -> State:
        """An execution that has just been created."""
        rows, sent = self.space.created()
        messages = tuple(self._messages.number(call) for call in sent)
        bounds = self.bounds
        left = Left(bounds.sweeps, bounds.cancels, bounds.resumes)
        return State(self._moves.grounds.number(Ground(rows, messages)), (), left, 0)

    def ground(self, state: State) -> Ground:
        """Rows and messages of a state."""
        return self._moves.grounds.item(state.ground)

    def steps(self, state: State) -> Iterator[Step]:
        """Every step out of a state, with its name. Raises `Violation`.

        A call whose next answer can never change any more moves alone: whatever the others do,
        they do it before or after with the same effect.
        """
        for number in state.calls:
            if self._is_settled(state.ground, number):
                yield from self._proceed(state, number)
                return
        yield from self._deliver(state)
        for number in dict.fromkeys(state.calls):
            yield from self._proceed(state, number)
        yield from self._happen(state)

    def _is_settled(self, ground: int, number: int) -> bool:
        key = (ground, number)
        if key not in self._settled:
            rows = self._moves.grounds.item(ground).rows
            self._settled[key] = answer_is_settled(self.space, rows, self._calls, number)
        return self._settled[key]

    def _proceed(self, state: State, number: int) -> Iterator[Step]:
        rest = without_one(state.calls, number)
        is_last = not state.left.sweeps
        for move in self._moves.of(state.ground, number, _now(state.time), is_last=is_last):
            calls = rest if move.number is None else with_one(rest, move.number)
            yield move.name, State(move.ground, calls, state.left, state.time)

    # --- Messages --------------------------------------------------------------------------

    def _deliver(self, state: State) -> Iterator[Step]:
        free = self._free_places(state)
        if not any(free.values()):
            return
        for message in self.ground(state).messages:
            call = self._messages.item(message)
            if free[call.act is Act.WORK]:
                yield f"deliver {call}", self._begin(state, call)

    def _free_places(self, state: State) -> dict[bool, bool]:
        """Whether a worker (True) and a step runner (False) can begin another call."""
        if len(state.calls) >= self.bounds.at_once:
            return {True: False, False: False}
        acts = [self._calls.call(number).act for number in state.calls]
        workers = sum(act is Act.WORK for act in acts)
        step_runners = len(acts) - workers - sum(act is Act.SWEEP for act in acts)
        return {
            True: workers < self.bounds.workers,
            False: step_runners < self.bounds.step_runners,
        }

    def _begin(self, state: State, call: Call) -> State:
        if call.act is Act.WORK:
            call = replace(call, nonce=self._free_nonce(state))
        begun = self._calls.begin(call, _now(state.time))
        return State(state.ground, with_one(state.calls, begun), state.left, state.time)

    def _free_nonce(self, state: State) -> int:
        """The smallest nonce that nobody has and no row carries."""
        taken = {self._calls.call(number).nonce for number in state.calls}
        for row in self.ground(state).rows[1:]:
            owner = self.space.table.attributes(row).get("node_lease_owner")
            if isinstance(owner, str):
                taken.add(int(owner.rpartition("/")[2]))
        return next(nonce for nonce in range(1, len(taken) + 2) if nonce not in taken)

    # --- What comes from outside -----------------------------------------------------------

    def _happen(self, state: State) -> Iterator[Step]:
        left = state.left
        has_place = len(state.calls) < self.bounds.at_once
        sweeping = sum(map(self._calls.is_sweep, state.calls))
        if left.sweeps and has_place and sweeping < self.bounds.sweeps_at_once:
            fewer = left._replace(sweeps=left.sweeps - 1)
            later = State(state.ground, state.calls, fewer, state.time + 1)
            yield "a sweep begins", self._begin(later, Call(Act.SWEEP))
        if left.cancels:
            fewer = left._replace(cancels=left.cancels - 1)
            ground = self._commanded(state)["cancel"]
            yield "cancel", State(ground, state.calls, fewer, state.time)
        if left.resumes:
            fewer = left._replace(resumes=left.resumes - 1)
            ground = self._commanded(state)["resume"]
            yield "resume", State(ground, state.calls, fewer, state.time)

    def _commanded(self, state: State) -> dict[str, int]:
        key = (state.ground, state.time, not state.left.sweeps)
        if key not in self._commands:
            now = _now(state.time)
            reason = Reason.CANCELLED_BY_CALLER.value
            due_at = now + SETTINGS.drain_ms
            cancel: dict[str, Value] = {"now": now, "reason": reason, "due_at": due_at}
            resume: dict[str, Value] = {"now": now, "actor": "somebody"}
            self._commands[key] = {
                "cancel": self._command(state, op.CANCEL_EXECUTION, cancel),
                "resume": self._command(state, op.RESUME, resume),
            }
        return self._commands[key]

    def _command(self, state: State, operation: Operation, args: dict[str, Value]) -> int:
        question = Writes(operation, keys.meta(REF), args)
        return self._moves.apply(state.ground, question, is_last=not state.left.sweeps)[1]


def _now(time: int) -> int:
    return EPOCH_MS + time * STEP_MS
