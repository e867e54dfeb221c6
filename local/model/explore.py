"""Breadth first through all states of a small system."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from local.model.recovery import Recovery
from local.model.space import RowNumbers, Space
from local.model.system import State, System
from local.simulator.host import Violation

Advanced = Callable[[int], None]
"""Told of the states so far, now and then."""

_TELL_EVERY: Final = 5_000


@dataclass(frozen=True, slots=True)
class Explored:
    """What an exploration found. `path` leads to the violation, if there is one.

    `row_states` counts the different contents of all rows together; from each of them recovery
    was tried. `fence` and `attempt` are the highest that occurred.
    """

    states: int
    steps: int
    depth: int
    row_states: int
    fence: int
    attempt: int
    violation: str | None = None
    path: tuple[str, ...] = ()


class Exploration:
    """One breadth-first search. States are told apart by their hashes of 64 bits."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._recovery = Recovery(system.space)
        self._seen: set[int] = set()
        self._grounds: set[int] = set()
        self._rows: set[RowNumbers] = set()
        self._steps = 0
        self._depth = 0

    def run(self, advanced: Advanced = lambda _: None) -> Explored:
        """Search until there is nothing new, or something is wrong."""
        level = [self._system.initial()]
        self._seen.add(hash(level[0]))
        try:
            while level:
                level = self._following(level, advanced)
                self._depth += 1
        except Violation as found:
            return self._result(str(found), path_to_violation(self._system))
        advanced(len(self._seen))
        return self._result(None, ())

    def _following(self, level: list[State], advanced: Advanced) -> list[State]:
        following: list[State] = []
        for place, state in enumerate(level):
            if place % _TELL_EVERY == 0:
                advanced(len(self._seen))
            for _, after in self._system.steps(state):
                self._steps += 1
                number = hash(after)
                if number not in self._seen:
                    self._seen.add(number)
                    self._check_recovery(after)
                    following.append(after)
        return following

    def _check_recovery(self, state: State) -> None:
        if state.ground not in self._grounds:
            self._grounds.add(state.ground)
            rows = self._system.ground(state).rows
            if rows not in self._rows:
                self._rows.add(rows)
                self._recovery.check(rows)

    def _result(self, violation: str | None, path: tuple[str, ...]) -> Explored:
        fence, attempt = _highest(self._system.space, self._rows)
        return Explored(
            len(self._seen),
            self._steps,
            self._depth,
            len(self._rows),
            fence,
            attempt,
            violation,
            path,
        )


def path_to_violation(system: System) -> tuple[str, ...]:
    """Search again, remembering the way, and return the names of the steps to the violation."""
    recovery = Recovery(system.space)
    origins: dict[State, tuple[State, str] | None] = {system.initial(): None}
    level = list(origins)
    while level:
        following: list[State] = []
        for state in level:
            step = "?"
            try:
                for step, after in system.steps(state):
                    if after in origins:
                        continue
                    origins[after] = (state, step)
                    recovery.check(system.ground(after).rows)
                    following.append(after)
            except Violation:
                return _way(origins, state, step)
        level = following
    return ()


def _way(
    origins: dict[State, tuple[State, str] | None], state: State, last: str
) -> tuple[str, ...]:
    names = [f"after: {last}"]
    origin = origins[state]
    while origin is not None:
        names.append(origin[1])
        origin = origins[origin[0]]
    return tuple(reversed(names))


def _highest(space: Space, all_rows: set[RowNumbers]) -> tuple[int, int]:
    rows = [row for rows in all_rows for row in space.nodes(rows).values()]
    fences = [row.fence for row in rows]
    attempts = [row.attempt for row in rows]
    return max(fences, default=0), max(attempts, default=0)
