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
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.embedded import microseconds_per_node
from bench.guards import check_guards, mutants
from bench.long_run import SEEDS as LONG_SEEDS
from bench.long_run import long_run
from local.crashtest import samples
from local.docs.cases import counts
from local.model.check import Exercise
from local.model.graphs import CHAIN, DIAMOND, FATAL_JOIN, JOIN
from local.model.system import Bounds
from local.simulator.campaign import Summary, run_campaign

REPORT: Final = Path("build/reports/faults.json")
SEEDS: Final = 10_000
MOST_US_PER_NODE: Final = 1000
_SEEDS_PER_MUTANT: Final = 60
_CHAIN: Final = 1000
_JOBS: Final = os.cpu_count() or 1
EXERCISES: Final = (
    Exercise(CHAIN, Bounds(at_once=2)),
    Exercise(FATAL_JOIN, Bounds(at_once=2, resumes=0)),
    Exercise(JOIN, Bounds(at_once=2, cancels=0, resumes=0)),
    Exercise(DIAMOND, Bounds(at_once=2, sweeps=0, resumes=0)),
)
"""What is explored to its end: bounds at which each takes a minute at most."""

console: Final = Console()


def models() -> tuple[int, int]:
    """Explore every small model. Returns the states and the violations."""
    states = violations = 0
    for exercise in EXERCISES:
        found = exercise.run()
        states += found.states
        console.print(
            f"model {exercise.small.name}: {found.states} states, fences up to {found.fence}, "
            f"attempts up to {found.attempt}, bounds {exercise.bounds}"
        )
        if found.violation is not None:
            violations += 1
            console.print(f"  [red]{found.violation}[/] after {' / '.join(found.path)}")
    return states, violations


def guards() -> dict[str, int]:
    """Take out every guard clause. Returns how many there are and how many were missed."""
    with _progress() as progress:
        bar = progress.add_task("guards", total=len(mutants()))
        found = list(check_guards(_SEEDS_PER_MUTANT, _JOBS, lambda: progress.advance(bar)))
    for catch in found:
        if not catch.caught:
            console.print(f"[red]{catch.mutant}: nothing noticed[/]")
    return {
        "guards": len(found),
        "guards_caught": sum(catch.caught for catch in found),
        "guards_caught_by_simulator": sum(catch.seed is not None for catch in found),
    }


def worlds(seeds: range) -> Summary:
    """Play random worlds, with progress, and name those in which something went wrong."""
    with _progress() as progress:
        bar = progress.add_task("random worlds", total=len(seeds))
        summary = run_campaign(
            seeds, _JOBS, lambda sum_: progress.update(bar, completed=sum_.seeds)
        )
    for seed, violation in sorted(summary.violations.items()):
        console.print(f"[red]seed {seed}[/]: {violation} (piton simulate --replay {seed})")
    return summary


def embedded() -> float:
    """Time per node on the embedded file store, in microseconds: the best of three runs."""
    with tempfile.TemporaryDirectory() as folder:
        runs = [microseconds_per_node(Path(folder) / f"{run}.db", _CHAIN) for run in range(3)]
    return round(min(runs), 1)


def measure() -> dict[str, float]:
    """Run everything and return the report."""
    states, model_violations = models()
    crashes = samples.figures()
    console.print(f"crash points: {crashes['survived']} of {crashes['crash_points']} survived")
    guarded = guards()
    summary = worlds(range(SEEDS))
    return {
        "seeds": summary.seeds,
        "steps": summary.steps,
        "violations": len(summary.violations) + model_violations,
        **crashes,
        "model_states": states,
        **guarded,
        **counts(),
        "sqlite_us_per_node_chain_1000": embedded(),
    }


def is_good(report: Mapping[str, float]) -> bool:
    """True when nothing was violated, lost or missed. Readings of speed are not judged."""
    return (
        report["violations"] == 0
        and report["survived"] == report["crash_points"]
        and report["guards_caught"] == report["guards"]
    )


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


def main() -> int:
    """Command line. Exits with 1 when something was violated, lost or missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--long", action="store_true", help="random worlds alone, in as many runs as it takes"
    )
    parser.add_argument("--seeds", type=int, default=LONG_SEEDS, help="with --long: how many")
    parser.add_argument("--jobs", type=int, default=_JOBS, help="processes")
    parser.add_argument(
        "--build", type=Path, default=Path("build"), help="folder of reports and of what is kept"
    )
    asked = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if asked.long:
        return long_run(console, asked.build, asked.seeds, asked.jobs)
    report = measure()
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    console.print_json(json.dumps(report))
    console.print(f"written to {REPORT}")
    return 0 if is_good(report) else 1


if __name__ == "__main__":
    sys.exit(main())
