"""Where processes have to die: by execution, and by what a process is about to ask."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from local.crashtest.deployed.wire import Request
from local.crashtest.points import Side

FIRST: Final = 1


@dataclass(frozen=True, order=True, slots=True)
class Spot:
    """A call of an execution: the `nth` time that this function asks for this."""

    function: str
    what: str
    nth: int = FIRST

    def __str__(self) -> str:
        again = f" ({self.nth})" if self.nth > FIRST else ""
        return f"{self.what}{again}"


@dataclass(frozen=True, order=True, slots=True)
class Trap:
    """A spot at which the process dies, and on which side of the call."""

    spot: Spot
    side: Side

    def __str__(self) -> str:
        return f"{self.spot.function} dies {self.side} {self.spot}"


@dataclass
class Run:
    """One execution under watch, known by the document that it is started for.

    `traps` spring in this order, each at its spot or, when that was passed before its turn, at the
    next call of the kind. `calls` are those seen so far, with whether they write.
    """

    document: str
    traps: Sequence[Trap] = ()
    sprung: int = 0
    calls: dict[Spot, bool] = field(default_factory=dict)
    _times: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def is_through(self) -> bool:
        """Whether every trap has sprung."""
        return self.sprung == len(self.traps)

    def meets(self, function: str, what: str, *, writes: bool) -> None:
        """Note a call."""
        self._times[function, what] += 1
        self.calls[Spot(function, what, self._times[function, what])] = writes

    def springs(self, function: str, whats: Iterable[str]) -> Side | None:
        """Return the side on which the next trap springs at these calls, and count it."""
        if self.is_through:
            return None
        trap = self.traps[self.sprung]
        spot = trap.spot
        reached = self._times[function, spot.what] >= spot.nth
        if spot.function != function or spot.what not in whats or not reached:
            return None
        self.sprung += 1
        return trap.side


class Traps:
    """All runs under watch. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[str, Run] = {}

    def watch(self, run: Run) -> None:
        """Watch a run from before its start."""
        with self._lock:
            self._runs[run.document] = run

    def meet(self, function: str, request: Request) -> Side | None:
        """Note a request, and say on which side of it the process has to die, if it has to.

        A request about several runs springs one trap only. The others spring when it is repeated,
        which it is, because its process died.
        """
        with self._lock:
            for document, execution_id in request.creates.items():
                if document in self._runs:
                    self._runs[execution_id] = self._runs[document]
            about: dict[str, tuple[Run, list[str]]] = {}
            for touch in request.touches:
                if run := self._runs.get(touch.owner):
                    run.meets(function, touch.what, writes=request.writes)
                    about.setdefault(run.document, (run, []))[1].append(touch.what)
            for run, whats in about.values():
                if side := run.springs(function, whats):
                    return side
        return None
