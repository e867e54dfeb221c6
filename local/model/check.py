"""The whole check: which systems are explored, within which bounds."""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Final

from local.model.explore import Exploration, Explored
from local.model.graphs import CHAIN, DIAMOND, FATAL_JOIN, JOIN, Small
from local.model.rows import RowTable
from local.model.space import Space
from local.model.system import Bounds, System


@dataclass(frozen=True, slots=True)
class Exercise:
    """One exploration."""

    small: Small
    bounds: Bounds

    def run(self) -> Explored:
        """Explore it to the end, or to the first violation."""
        return Exploration(System(Space(self.small, RowTable({})), self.bounds)).run()

    def __str__(self) -> str:
        bounds = self.bounds
        return (
            f"{self.small.name}: {bounds.at_once} calls at once ({bounds.workers} workers, "
            f"{bounds.step_runners} step runner, a sweep), {bounds.sweeps} sweep, "
            f"{bounds.cancels} cancel, {bounds.resumes} resume, any number of faults"
        )


EXERCISES: Final = (
    Exercise(DIAMOND, Bounds()),
    Exercise(JOIN, Bounds()),
    Exercise(FATAL_JOIN, Bounds()),
    Exercise(CHAIN, Bounds(at_once=3)),
)
"""The largest first, so that processes that share them end at about the same time."""


def run_exercises(
    jobs: int, exercises: Sequence[Exercise] = EXERCISES
) -> Iterator[tuple[Exercise, Explored]]:
    """Run explorations in `jobs` processes and yield each one when it is done."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_be_quiet) as pool:
        running = {pool.submit(exercise.run): exercise for exercise in exercises}
        for future in as_completed(running):
            yield running[future], future.result()


def _be_quiet() -> None:
    # Each replayed call logs what it logged before.
    logging.disable(logging.CRITICAL)
