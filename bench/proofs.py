"""What `make faults` proves: its parts, their pieces of work, and what these came to."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from bench import guards
from bench.parts import Part
from bench.progress import Board
from bench.workers import Tell
from local.crashtest.report import Report
from local.crashtest.samples import SAMPLE_SUBJECTS, chain, hello
from local.crashtest.sweep import run as crash_everywhere
from local.crashtest.trial import attempt
from local.model.callers import Tries, try_all
from local.model.check import EXERCISES, Exercise
from local.model.explore import Explored
from local.simulator.campaign import CHUNK, Summary, run_seeds
from local.simulator.strands import Strands

SEEDS: Final = 10_000
PARTS: Final = ("models", "writes", "pairs", "crashes", "guards", "worlds")
"""The names of all parts, those with the largest pieces first."""

_SMALL_SUBJECTS: Final = (hello, partial(chain, 2))
"""Small enough for all pairs of crashes."""
_MOST_PAIRS: Final = 10_000
_ABOUT_PAIRS: Final = 4_500
_ABOUT_TRIED: Final = 9_200


class Proofs:
    """All parts, and what each of them says when a piece of it is done."""

    def __init__(self, board: Board) -> None:
        self._say = board.say
        self.models = Part("model states", _explore, EXERCISES, _total_states(), self._explored)
        self.writes = Part("states by writes alone", _try_all, (None,), _ABOUT_TRIED, self._tried)
        subjects = range(len(SAMPLE_SUBJECTS))
        self.crashes = Part("crash points", _crash, subjects, _total_crashes(), self._crashed)
        small = range(len(_SMALL_SUBJECTS))
        self.pairs = Part(
            "pairs of crashes", _crash_twice, small, _ABOUT_PAIRS, self._crashed_twice
        )
        clauses = range(len(guards.mutants()))
        self.guards = Part("guard clauses", guards.try_mutant, clauses, len(clauses), self._mutated)
        chunks = [range(first, first + CHUNK) for first in range(0, SEEDS, CHUNK)]
        self.worlds = Part("random worlds", _play, chunks, SEEDS, self._played)

    @property
    def parts(self) -> dict[str, Part[Any, Any]]:
        """The parts by their names in `PARTS`."""
        parts = (self.models, self.writes, self.pairs, self.crashes, self.guards, self.worlds)
        return dict(zip(PARTS, parts, strict=True))

    def figures(self) -> dict[str, float]:
        """Return what all parts came to."""
        summary = Summary()
        for part in self.worlds.results:
            summary.merge(part)
        checked: list[Explored | Tries] = [*self.models.results, *self.writes.results]
        wrong = sum(found.violation is not None for found in checked)
        crashes, catches = self.crashes.results, self.guards.results
        as_declared = map(guards.is_as_declared, guards.mutants(), catches)
        return {
            "seeds": summary.seeds,
            "steps": summary.steps,
            "violations": len(summary.violations) + wrong,
            "crash_points": sum(report.crash_points for report in crashes),
            "survived": sum(report.survived for report in crashes),
            "crash_pairs": sum(report.pairs for report in self.pairs.results),
            "crash_pairs_survived": sum(report.pairs_survived for report in self.pairs.results),
            "model_states": sum(found.states for found in checked),
            "guards": len(catches),
            "guards_caught": sum(catch.caught for catch in catches),
            "guards_caught_by_model": sum(catch.model is not None for catch in catches),
            "guards_caught_by_simulator": sum(catch.seed is not None for catch in catches),
            "guards_implied": len(guards.IMPLIED),
            "guards_as_declared": sum(as_declared),
        }

    def _explored(self, exercise: Exercise, found: Explored) -> None:
        self._say(
            f"model {exercise}: {found.states:,} states, {found.row_states:,} contents of the "
            f"rows, each recovered from; depth {found.depth}, fences up to {found.fence}, "
            f"attempts up to {found.attempt}"
        )
        if found.violation is not None:
            self._say(f"  {found.violation}, after:", "red")
            for step in found.path:
                self._say(f"    {step}")

    def _tried(self, _: None, tries: Tries) -> None:
        self._say(f"every write by anybody at any time: {tries.states:,} states")
        if tries.violation is not None:
            self._say(f"  {tries.violation}", "red")

    def _crashed(self, _: int, report: Report) -> None:
        points = f"{report.survived} of {report.crash_points}"
        self._say(f"crash points of {report.workflow}: {points} survived")
        self._say_failures(report)

    def _crashed_twice(self, _: int, report: Report) -> None:
        pairs = f"{report.pairs_survived:,} of {report.pairs:,}"
        self._say(f"pairs of crashes of {report.workflow}: {pairs} survived")
        self._say_failures(report)

    def _say_failures(self, report: Report) -> None:
        for failure in report.failures:
            self._say(f"  {'; '.join(map(str, failure.crashes))}: {failure.problem}", "red")

    def _mutated(self, number: int, catch: guards.Catch) -> None:
        mutant = guards.mutants()[number]
        if not catch.refusals:
            self._say(f"{mutant.name}: no test fails", "red")
        elif not guards.is_as_declared(mutant, catch):
            implied = mutant.implied or "not declared as implied"
            self._say(f"{mutant.name}: {implied}; the models noticed: {catch.model}", "red")

    def _played(self, _: range, part: Summary) -> None:
        for seed, violation in sorted(part.violations.items()):
            self._say(f"seed {seed}: {violation} (piton simulate --replay {seed})", "red")


def is_good(figures: Mapping[str, float]) -> bool:
    """True when nothing was violated, lost or missed. Readings of speed are not judged."""
    return (
        figures["violations"] == 0
        and figures["survived"] == figures["crash_points"]
        and figures["crash_pairs_survived"] == figures["crash_pairs"]
        and figures["guards_caught"] == figures["guards_as_declared"] == figures["guards"]
    )


# --- Pieces of work, each in a process of its own --------------------------------------------


def _explore(exercise: Exercise, tell: Tell) -> Explored:
    return exercise.run(tell)


def _try_all(_: None, tell: Tell) -> Tries:
    tries = try_all({})
    tell(tries.states)
    return tries


def _crash(number: int, tell: Tell) -> Report:
    def advanced(report: Report, total: int) -> None:
        del total
        tell(report.crash_points)

    return crash_everywhere(SAMPLE_SUBJECTS[number](), advanced=advanced)


def _crash_twice(number: int, tell: Tell) -> Report:
    def advanced(report: Report, total: int) -> None:
        del total
        tell(report.pairs)

    return crash_everywhere(_SMALL_SUBJECTS[number](), most_pairs=_MOST_PAIRS, advanced=advanced)


def _play(seeds: range, tell: Tell) -> Summary:
    summary = run_seeds(seeds)
    tell(summary.seeds)
    return summary


def _total_states() -> int:
    return sum(exercise.about for exercise in EXERCISES)


def _total_crashes() -> int:
    """Before and after each call of a clean run."""
    strands = Strands()
    try:
        return sum(2 * len(attempt(subject(), strands).calls) for subject in SAMPLE_SUBJECTS)
    finally:
        strands.close()
