"""What services want to know, and who answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from piton.domain.messages import Dispatch
from piton.storage.algebra import Args, Operation
from piton.storage.keys import Key


class Act(Enum):
    """What a call asks the engine to do."""

    START = auto()
    ADVANCE = auto()
    RESUME = auto()
    DRAIN = auto()
    WORK = auto()
    SWEEP = auto()


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a service. `subject` is an ordinal or a dispatch; `nonce` marks its claim."""

    act: Act
    ordinal: int = -1
    dispatch: Dispatch | None = None
    nonce: int = 0

    def __str__(self) -> str:
        act = self.act.name.lower()
        if self.dispatch is not None:
            return f"{act} on {self.dispatch.node_id}, fence {self.dispatch.fence}, #{self.nonce}"
        return act if self.ordinal < 0 else f"{act} from {self.ordinal}"


class Unanswered(Enum):
    """Stands where a call got no answer, whatever became of what it asked for."""

    RETRY = auto()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a question got, and the time at which the service goes on."""

    value: object
    now: int


@dataclass(frozen=True, slots=True)
class Writes:
    """The service wants to carry out an operation."""

    operation: Operation
    key: Key
    args: Args

    def __str__(self) -> str:
        return f"{self.operation.name} {self.key.sk}"


@dataclass(frozen=True, slots=True)
class ReadsExecution:
    """The service wants META."""


@dataclass(frozen=True, slots=True)
class ReadsNodes:
    """The service wants some nodes' rows, all of them if `ordinals` is None."""

    ordinals: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class ReadsDue:
    """The service wants the due list."""

    now: int


@dataclass(frozen=True, slots=True)
class StartsBody:
    """The body of a claimed attempt begins."""

    ordinal: int
    fence: int


Question = Writes | ReadsExecution | ReadsNodes | ReadsDue | StartsBody


class Finished(Enum):
    """A call is over: its message is done with, or has to come again."""

    DONE = auto()
    AGAIN = auto()


class Script(Protocol):
    """Answers a service's questions, and is its clock."""

    def ask(self, question: Question) -> object:
        """Return the answer. Raises `Retry` where there is none."""
        ...

    def now_ms(self) -> int:
        """Wall-clock time in epoch milliseconds."""
        ...

    def monotonic_ms(self) -> int:
        """Time that never steps back. Between a claim and its body none passes."""
        ...
