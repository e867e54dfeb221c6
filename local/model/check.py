"""The whole check: which systems are explored, within which bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from local.model.explore import Advanced, Exploration, Explored
from local.model.graphs import CHAIN, DIAMOND, FATAL_JOIN, JOIN, Small
from local.model.rows import RowTable
from local.model.space import Space
from local.model.system import Bounds, System


@dataclass(frozen=True, slots=True)
class Exercise:
    """One exploration. `about` says how many states it has, for whoever shows progress."""

    small: Small
    bounds: Bounds
    about: int

    def run(self, advanced: Advanced = lambda _: None) -> Explored:
        """Explore it to the end, or to the first violation. `advanced` is told of the states."""
        system = System(Space(self.small, RowTable({})), self.bounds)
        return Exploration(system).run(advanced)

    def __str__(self) -> str:
        bounds = self.bounds
        return (
            f"{self.small.name}: {bounds.at_once} calls at once of {bounds.workers} workers, "
            f"{bounds.step_runners} step runner, {_sweeps(bounds.sweeps_at_once)}; in all "
            f"{_sweeps(bounds.sweeps)}, {bounds.cancels} cancel, {bounds.resumes} resume, "
            "any number of faults"
        )


EXERCISES: Final = (
    Exercise(DIAMOND, Bounds(), 3_260_000),
    Exercise(CHAIN, Bounds(sweeps=2, sweeps_at_once=2), 2_960_000),
    Exercise(JOIN, Bounds(), 2_860_000),
    Exercise(CHAIN, Bounds(at_once=3), 1_920_000),
    Exercise(FATAL_JOIN, Bounds(), 1_540_000),
)
"""The largest first, so that processes that share them end at about the same time."""


def _sweeps(number: int) -> str:
    return "1 sweep" if number == 1 else f"{number} sweeps"
