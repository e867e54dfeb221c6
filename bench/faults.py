"""The proofs of recovery in one run: `build/reports/faults.json`.

Small models to their end, every crash point of small workflows, every guard clause taken out, and
thousands of random worlds. `--long` goes on with random worlds alone, may be interrupted, and
takes up where it stopped.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Final

from rich.console import Console

from bench import guards
from bench.embedded import microseconds_per_node
from bench.long_run import SEEDS as LONG_SEEDS
from bench.long_run import long_run
from bench.parts import Part, run_parts
from bench.progress import Board, duration
from bench.workers import INTERRUPTS, Tell
from local.crashtest.report import Report
from local.crashtest.samples import SAMPLE_SUBJECTS
from local.crashtest.sweep import run as crash_everywhere
from local.crashtest.trial import attempt
from local.docs.cases import counts
from local.model.callers import Tries, try_all
from local.model.check import EXERCISES, Exercise
from local.model.explore import Explored
from local.simulator.campaign import CHUNK, Summary, run_seeds
from local.simulator.strands import Strands

SEEDS: Final = 10_000
_CHAIN: Final = 1000
_ABOUT_TRIED: Final = 9_200
_JOBS: Final = os.cpu_count() or 1


class Proofs:
    """All parts, and what each of them says when a piece of it is done."""

    def __init__(self, board: Board) -> None:
        self._say = board.say
        self.models = Part("models", _explore, EXERCISES, _total_states(), self._explored)
        self.alone = Part("writes alone", _try_all, (None,), _ABOUT_TRIED, self._tried)
        subjects = range(len(SAMPLE_SUBJECTS))
        self.crashes = Part("crash points", _crash, subjects, _total_crashes(), self._crashed)
        clauses = range(len(guards.mutants()))
        self.guards = Part("guard clauses", guards.try_mutant, clauses, len(clauses), self._mutated)
        chunks = [range(first, first + CHUNK) for first in range(0, SEEDS, CHUNK)]
        self.worlds = Part("random worlds", _play, chunks, SEEDS, self._played)

    @property
    def parts(self) -> tuple[Part[Any, Any], ...]:
        """The parts, those with the largest pieces first."""
        return self.models, self.alone, self.crashes, self.guards, self.worlds

    def figures(self) -> dict[str, float]:
        """Return what all parts came to."""
        summary = Summary()
        for part in self.worlds.results:
            summary.merge(part)
        checked: list[Explored | Tries] = [*self.models.results, *self.alone.results]
        wrong = sum(found.violation is not None for found in checked)
        crashes, catches = self.crashes.results, self.guards.results
        as_declared = map(guards.is_as_declared, guards.mutants(), catches)
        return {
            "seeds": summary.seeds,
            "steps": summary.steps,
            "violations": len(summary.violations) + wrong,
            "crash_points": sum(report.crash_points for report in crashes),
            "survived": sum(report.survived for report in crashes),
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
        self._say(
            f"crash points of {report.workflow}: "
            f"{report.survived} of {report.crash_points} survived"
        )
        for failure in report.failures:
            self._say(f"  {'; '.join(map(str, failure.crashes))}: {failure.problem}", "red")

    def _mutated(self, number: int, catch: guards.Catch) -> None:
        mutant = guards.mutants()[number]
        if not catch.caught:
            self._say(f"{mutant.name}: nothing noticed", "red")
        elif not guards.is_as_declared(mutant, catch):
            model = catch.model or "nothing"
            self._say(f"{mutant.name}: the models noticed {model}, against IMPLIED", "red")

    def _played(self, _: range, part: Summary) -> None:
        for seed, violation in sorted(part.violations.items()):
            self._say(f"seed {seed}: {violation} (piton simulate --replay {seed})", "red")


def measure(console: Console, jobs: int, reports: Path) -> bool:
    """Run everything and write the reports. True when all is good."""
    began = time.monotonic()
    with Board(console) as board:
        proofs = Proofs(board)
        run_parts(proofs.parts, jobs, board)
        figures = proofs.figures() | counts()
        board.say("time per node on the embedded store")
        figures["sqlite_us_per_node_chain_1000"] = _embedded()
    took = time.monotonic() - began
    report: dict[str, Any] = {
        **figures,
        "processes": jobs,
        "seconds": round(took),
        "cpu_seconds": {part.name: round(part.cpu_seconds, 1) for part in proofs.parts},
    }
    _write(reports / "faults.json", report)
    _write(reports / "guards.json", guards.listed(proofs.guards.results))
    for part in proofs.parts:
        console.print(
            f"{part.name}: {duration(part.cpu_seconds)} of processor time, "
            f"done after {duration(part.wall_seconds)}",
            highlight=False,
        )
    console.print_json(json.dumps(report))
    console.print(f"{duration(took)} in all; written to {reports}/faults.json and guards.json")
    return is_good(figures)


def is_good(figures: Mapping[str, float]) -> bool:
    """True when nothing was violated, lost or missed. Readings of speed are not judged."""
    return (
        figures["violations"] == 0
        and figures["survived"] == figures["crash_points"]
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


def _play(seeds: range, tell: Tell) -> Summary:
    summary = run_seeds(seeds)
    tell(summary.seeds)
    return summary


# --- The rest ----------------------------------------------------------------------------------


def _total_states() -> int:
    return sum(exercise.about for exercise in EXERCISES)


def _total_crashes() -> int:
    """Before and after each call of a clean run."""
    strands = Strands()
    try:
        return sum(2 * len(attempt(subject(), strands).calls) for subject in SAMPLE_SUBJECTS)
    finally:
        strands.close()


def _embedded() -> float:
    """Time per node on the embedded file store, in microseconds: the best of three runs."""
    with tempfile.TemporaryDirectory() as folder:
        runs = [microseconds_per_node(Path(folder) / f"{run}.db", _CHAIN) for run in range(3)]
    return round(min(runs), 1)


def _write(file: Path, document: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document, indent=2) + "\n", "utf-8")


def _raise(number: int, frame: FrameType | None) -> None:
    del frame
    raise SystemExit(128 + number)


def main() -> int:
    """Command line. Exits with 1 when something was violated, lost or missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true", help="random worlds alone, until stopped")
    parser.add_argument("--seeds", type=int, default=LONG_SEEDS, help="with --long: how many")
    parser.add_argument("--jobs", type=int, default=_JOBS, help="processes")
    parser.add_argument(
        "--build", type=Path, default=Path("build"), help="folder of reports and of what is kept"
    )
    asked = parser.parse_args()
    logging.disable(logging.CRITICAL)
    console = Console()
    if asked.long:
        return long_run(console, asked.build, asked.seeds, asked.jobs)
    for number in INTERRUPTS:
        signal.signal(number, _raise)
    return 0 if measure(console, asked.jobs, asked.build / "reports") else 1


if __name__ == "__main__":
    sys.exit(main())
