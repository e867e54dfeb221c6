"""Calls in progress as small numbers: the call and what it was told so far."""

from __future__ import annotations

from typing import Final, NamedTuple

from local.model.interning import Numbers
from local.model.questions import (
    Act,
    Answer,
    Call,
    Finished,
    Question,
    Unanswered,
)
from local.model.replayed import Replayed
from local.model.rows import ABSENT, REF, Frozen
from local.model.space import Space
from piton.ports import Applied, DueExecution, Refused

_READS_FIRST: Final = 1
"""Questions of a sweep before it reads its first row: the due list."""


class GotExecution(NamedTuple):
    """META was read."""

    row: int


class GotNodes(NamedTuple):
    """Nodes were read, as pairs of ordinal and row."""

    rows: tuple[tuple[int, int], ...]


class GotDue(NamedTuple):
    """The due list was read; None when the execution is not due."""

    due_at: int | None


class GotApplied(NamedTuple):
    """A write was stored."""

    returned: Frozen


class GotRefused(NamedTuple):
    """A write was refused."""


class GotNothing(NamedTuple):
    """No answer came."""


class GotGo(NamedTuple):
    """The body may begin."""


Told = GotExecution | GotNodes | GotDue | GotApplied | GotRefused | GotNothing | GotGo


class InProgress(NamedTuple):
    """A call that was begun and not ended. Answers are numbers."""

    call: Call
    began: int
    answers: tuple[int, ...]


class Calls:
    """All calls in progress that occur, by number, each with its next question."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._replayed = Replayed(space.small)
        self._numbers = Numbers[InProgress]()
        self._answers = Numbers[tuple[type[Told], Told, int]]()
        self._values: dict[int, Answer] = {}
        self._next: dict[int, tuple[Question | Finished, bool]] = {}

    def begin(self, call: Call, now: int) -> int:
        """Return the number of a call that begins now."""
        forgotten = self._numbers.number(InProgress(call, 0, ()))
        if not self._question(forgotten)[1]:
            return forgotten
        return self._numbers.number(InProgress(call, now, ()))

    def tell(self, number: int, told: Told, now: int) -> int:
        """Return the number of a call after one more answer.

        The time of the answer is forgotten unless the service looks at the clock after it: calls
        that differ in nothing else are one.
        """
        call = self._numbers.item(number)
        forgotten = self._with(call, told, 0)
        return forgotten if not self._question(forgotten)[1] else self._with(call, told, now)

    def call(self, number: int) -> Call:
        """Which call it is."""
        return self._numbers.item(number).call

    def question(self, number: int) -> Question | Finished:
        """What the call wants to know next, or how it ended. Raises `Violation`."""
        return self._question(number)[0]

    def may_miss_an_answer(self, number: int) -> bool:
        """True unless the call has missed one before: one in each call is enough."""
        answers = self._numbers.item(number).answers
        return all(self._values[answer].value is not Unanswered.RETRY for answer in answers)

    def is_at_first_row(self, number: int) -> bool:
        """True for a sweep that has read the due list and nothing else."""
        return len(self._numbers.item(number).answers) == _READS_FIRST

    def is_beyond_first_row(self, number: int) -> bool:
        """True for a sweep that has read META and moved it on the due list."""
        return len(self._numbers.item(number).answers) > _READS_FIRST + 1

    def is_sweep(self, number: int) -> bool:
        """True for a sweep."""
        return self.call(number).act is Act.SWEEP

    def _with(self, call: InProgress, told: Told, at: int) -> int:
        answer = self._answers.number((type(told), told, at))
        if answer not in self._values:
            self._values[answer] = Answer(self._value(told), at)
        return self._numbers.number(call._replace(answers=(*call.answers, answer)))

    def _question(self, number: int) -> tuple[Question | Finished, bool]:
        if number not in self._next:
            call = self._numbers.item(number)
            answers = [self._values[answer] for answer in call.answers]
            self._next[number] = self._replayed.proceed(call.call, call.began, answers)
        return self._next[number]

    def _value(self, told: Told) -> object:
        match told:
            case GotExecution(row):
                return None if row == ABSENT else self._space.execution(row)
            case GotNodes(rows):
                return tuple(self._space.node(row, ordinal) for ordinal, row in rows)
            case GotDue(due_at):
                return () if due_at is None else (DueExecution(REF, due_at),)
            case GotApplied(returned):
                return Applied(dict(returned))  # type: ignore[arg-type]
            case GotRefused():
                return Refused()
            case GotNothing():
                return Unanswered.RETRY
            case GotGo():
                return None
