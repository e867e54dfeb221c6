"""What can go wrong, as data: each fault names the event at which it strikes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from piton.domain.canonical import Json


class Place(StrEnum):
    """What is counted to say when a fault strikes.

    Calls are those that a process of one kind makes to the stores, the bus and the queues; `CALL`
    counts all of them. `COMMIT` counts writes that changed something, `BODY` bodies that start.
    """

    COMMANDS = "commands"
    STEP_RUNNER = "step runner"
    WORKER = "worker"
    WATCHDOG = "watchdog"
    RELAY = "relay"
    DEAD_LETTERS = "dead letters"
    CALL = "call"
    DISPATCH = "dispatch"
    EVENT = "event"
    BODY = "body"
    COMMIT = "commit"


ROLES: Final = (
    Place.COMMANDS,
    Place.STEP_RUNNER,
    Place.WORKER,
    Place.WATCHDOG,
    Place.RELAY,
    Place.DEAD_LETTERS,
)
"""Kinds of processes."""


class Kind(StrEnum):
    """What goes wrong."""

    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    THROTTLED = "throttled"
    LOST_ANSWER = "lost answer"
    REPEATED = "repeated call"
    LATE = "late commit"
    PAUSED = "paused"
    STALE_INDEX = "stale index"
    STALLED = "stalled"

    MESSAGE_LOST = "message lost"
    MESSAGE_REPEATED = "message repeated"
    MESSAGE_DELAYED = "message delayed"
    DEAD_LETTERED = "dead-lettered"

    CANCEL = "cancel"
    RESUME = "resume"
    SWEEP = "extra sweep"
    RELAY_AGAIN = "relay again"
    RESTART = "restart"
    START_AGAIN = "start again"


CALL_FAULTS: Final = (
    Kind.CRASH_BEFORE,
    Kind.CRASH_AFTER,
    Kind.THROTTLED,
    Kind.LOST_ANSWER,
    Kind.REPEATED,
    Kind.LATE,
    Kind.PAUSED,
    Kind.STALE_INDEX,
)
MESSAGE_FAULTS: Final = (Kind.MESSAGE_LOST, Kind.MESSAGE_REPEATED, Kind.MESSAGE_DELAYED)
_IN_THE_WAY_OF_ATTEMPTS: Final = frozenset({Place.WORKER, Place.DEAD_LETTERS, Place.CALL})


@dataclass(frozen=True, slots=True)
class Fault:
    """`kind` strikes at event `number` (from 1) of `place`.

    `amount` is in milliseconds; for a stale index it is how many commits the answer is behind.
    """

    kind: Kind
    place: Place
    number: int
    amount: int = 0

    def __str__(self) -> str:
        unit = "changes behind" if self.kind is Kind.STALE_INDEX else "ms"
        extent = f" ({self.amount} {unit})" if self.amount else ""
        return f"{self.kind} at {self.place} {self.number}{extent}"

    @property
    def may_cost_an_attempt(self) -> bool:
        """True when an attempt of a node may be used up by this fault."""
        if self.kind in (Kind.RESTART, Kind.DEAD_LETTERED, Kind.STALLED):
            return True
        return self.kind in CALL_FAULTS and self.place in _IN_THE_WAY_OF_ATTEMPTS

    def to_json(self) -> Json:
        """Return the printed form."""
        return [self.kind.value, self.place.value, self.number, self.amount]


class FaultPlan:
    """Tells at each event what goes wrong there, and remembers what did.

    `quiet_since` is when the last of it had passed, by the given clock.
    """

    def __init__(self, faults: Iterable[Fault], now: Callable[[], int] = lambda: 0) -> None:
        self.quiet_since = 0
        self._now = now
        self._by_place: Mapping[Place, dict[int, list[Fault]]] = defaultdict(dict)
        for fault in faults:
            self._by_place[fault.place].setdefault(fault.number, []).append(fault)
        self.counts: Counter[Place] = Counter()
        self.struck: list[Fault] = []

    def next(self, place: Place) -> list[Fault]:
        """Count one event at `place` and return the faults that strike there."""
        self.counts[place] += 1
        planned = self._by_place.get(place)
        faults = planned.pop(self.counts[place], []) if planned else []
        self.struck += faults
        if faults:
            passed = self._now() + max(fault.amount for fault in faults)
            self.quiet_since = max(self.quiet_since, passed)
        return faults
