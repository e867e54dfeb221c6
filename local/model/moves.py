"""What one call can do next, given rows and messages: worked out once and remembered."""

from __future__ import annotations

from collections.abc import Iterator
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
from local.model.interning import Numbers
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
from local.model.rows import ABSENT
from local.model.settled import message_is_dead
from local.model.space import META, RowNumbers, Space, place_of
from local.simulator.host import Violation
from local.simulator.invariants import ended_by_its_holder
from piton.domain.status import ExecutionStatus
from piton.storage import operations as op

_FOR_SWEEPS: Final = frozenset({"due_at", "due_shard", "exec_parked", "exec_finished_at"})
_NOT_FOR_WORKERS: Final = _FOR_SWEEPS | {"exec_started_at", "exec_reason", "exec_node"}


class Ground(NamedTuple):
    """All rows, and the messages that can still have an effect."""

    rows: RowNumbers
    messages: tuple[int, ...]


class Move(NamedTuple):
    """What one call does: rows and messages after it, and the call after it, None if it ended."""

    name: str
    ground: int
    number: int | None


class Moves:
    """All moves of all calls. `grounds` gives rows and messages their numbers.

    `is_last` says that no further sweep will begin: then nobody asks any more when the execution
    is due.
    """

    def __init__(self, space: Space, calls: Calls, messages: Numbers[Call]) -> None:
        self.grounds = Numbers[Ground]()
        self._space = space
        self._calls = calls
        self._messages = messages
        self._known: dict[tuple[int, int, int, bool], tuple[Move, ...]] = {}
        self._seen_by: dict[tuple[int, bool], int] = {}

    def of(self, ground: int, number: int, now: int, *, is_last: bool) -> tuple[Move, ...]:
        """Every move of a call. Raises `Violation`."""
        key = (ground, number, now, is_last)
        if key not in self._known:
            found = self._moves(ground, number, now, is_last=is_last)
            # One name is enough for moves that come to the same.
            different = {(move.ground, move.number): move for move in found}
            self._known[key] = tuple(different.values())
        return self._known[key]

    def _moves(self, ground: int, number: int, now: int, *, is_last: bool) -> Iterator[Move]:
        question = self._calls.question(number)
        name = f"{self._calls.call(number)}: {question}"

        def told(after: int, told: Told, how: str) -> Move:
            following = self._tell(after, number, told, now, is_last=is_last)
            return Move(f"{name} - {how}", after, following)

        yield Move(f"{name} - dies", ground, None)
        # A sweep that cannot read gives up, as if it had died.
        may_miss = self._calls.may_miss_an_answer(number) and (
            isinstance(question, Writes) or not self._calls.is_sweep(number)
        )
        if may_miss:
            yield told(ground, GotNothing(), "no answer")
        if not isinstance(question, Writes):
            yield told(ground, self._read(ground, number, question), "answered")
            return
        answer, after = self.apply(ground, question, is_last=is_last)
        if isinstance(answer, GotRefused):
            yield told(after, answer, "refused")
            return
        yield told(after, answer, "applied")
        yield Move(f"{name} - applied, dies", after, None)
        if may_miss:
            yield told(after, GotNothing(), "applied, no answer")
        again, twice = self.apply(after, question, is_last=is_last)
        refused = isinstance(again, GotRefused)
        yield told(twice, again, "applied, then refused" if refused else "applied twice")

    def apply(self, ground: int, question: Writes, *, is_last: bool) -> tuple[Told, int]:
        """Carry out a write. Raises `Violation`."""
        rows, messages = self.grounds.item(ground)
        place = place_of(question.key.sk)
        applied = self._space.table.apply(question.operation, rows[place], question.args)
        if applied is None:
            return GotRefused(), ground
        rows, sent = self._space.commit(rows, place, applied.row)
        if is_last:
            rows = self._space.without_due_time(rows)
        all_ = {*messages, *(self._messages.number(call) for call in sent)}
        alive = [m for m in all_ if not message_is_dead(self._space, rows, self._messages.item(m))]
        after = self.grounds.number(Ground(rows, tuple(sorted(alive))))
        return GotApplied(applied.returned), after

    def _tell(self, ground: int, number: int, told: Told, now: int, *, is_last: bool) -> int | None:
        """Give a call its answer. It goes on to the next question that matters, or ends."""
        while True:
            number = self._calls.tell(number, told, now)
            match self._calls.question(number):
                case Finished():
                    return None
                case StartsBody() as question:
                    told = self._read(ground, number, question)
                case Writes(operation) if is_last and self._only_defers(number, operation.name):
                    return None
                case _:
                    return number

    def _only_defers(self, number: int, name: str) -> bool:
        """True for a sweep that has done its work and sets the time of one that never comes."""
        return name == op.DEFER.name and self._calls.is_beyond_first_row(number)

    def _read(self, ground: int, number: int, question: Question | Finished) -> Told:
        rows = self.grounds.item(ground).rows
        match question:
            case ReadsExecution():
                return GotExecution(self._as_seen_by(number, rows[META]))
            case ReadsNodes(ordinals):
                wanted = range(len(rows) - 1) if ordinals is None else ordinals
                found = [(ordinal, rows[1 + ordinal]) for ordinal in wanted]
                return GotNodes(tuple(pair for pair in found if pair[1] != ABSENT))
            case ReadsDue(now):
                due_at = self._space.execution(rows[META]).due_at
                return GotDue(due_at if due_at is not None and due_at <= now else None)
            case StartsBody(ordinal, fence):
                row = self._space.node(rows[1 + ordinal], ordinal)
                if ended_by_its_holder(row) and row.fence == fence:
                    raise Violation(f"{row.node_id}: its body starts though it is {row.status}")
                return GotGo()
            case _:
                raise Violation(f"nothing to be read: {question}")

    def _as_seen_by(self, number: int, row: int) -> int:
        """META without what the call never looks at. A sweep looks at everything, once."""
        act = self._calls.call(number).act
        if act is Act.SWEEP and self._calls.is_at_first_row(number):
            return row
        works = act is Act.WORK
        if (row, works) not in self._seen_by:
            attributes = self._space.table.attributes(row)
            dropped = _NOT_FOR_WORKERS if works else _FOR_SWEEPS
            kept = {name: value for name, value in attributes.items() if name not in dropped}
            if works:
                ended = self._space.execution(row).terminal
                status = ExecutionStatus.CANCELLED if ended else ExecutionStatus.RUNNING
                kept["exec_status"] = status.value
            self._seen_by[row, works] = self._space.table.number(kept)
        return self._seen_by[row, works]
