"""`piton simulate`: random worlds, and the one that went wrong again."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from local.numbers import positive
from local.simulator.campaign import Summary, be_quiet, run_campaign
from local.simulator.generate import generate
from local.simulator.play import Played, play
from local.simulator.scenario import Scenario
from local.simulator.shrink import shrink
from local.simulator.strands import Strands

SUMMARY: Final = "run random workflows with random faults against the engine, reproducibly"
_SEEDS: Final = 1000
_SHOWN: Final = 5


class SimulateError(ValueError):
    """The command line asks for something that cannot be meant."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes."""
    parser.add_argument(
        "--seeds",
        type=positive,
        metavar="N",
        help=f"number of random workflows, {_SEEDS} by default",
    )
    parser.add_argument(
        "--from", type=int, metavar="SEED", dest="first", help="first seed, 0 by default"
    )
    parser.add_argument(
        "--jobs", type=positive, metavar="N", help="processes side by side, by default one per CPU"
    )
    parser.add_argument(
        "--replay", type=int, metavar="SEED", help="run this one, describe it and shrink a failure"
    )
    parser.add_argument(
        "--trace", action="store_true", help="with --replay: also print everything that happens"
    )
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="also write the figures there, as JSON"
    )


def simulate(asked: argparse.Namespace) -> bool:
    """Run what was asked for; True when nothing was violated. Raises `SimulateError`."""
    if asked.trace and asked.replay is None:
        raise SimulateError("--trace needs --replay SEED: only one run at a time is traced")
    if asked.replay is not None and (unused := _beside_replay(asked)):
        raise SimulateError(f"{', '.join(unused)} cannot go with --replay")
    be_quiet()
    if asked.replay is not None:
        return _replay(asked)
    console = Console(stderr=asked.json)
    first = asked.first or 0
    seeds = range(first, first + (asked.seeds or _SEEDS))
    summary = _with_progress(seeds, asked.jobs or os.cpu_count() or 1, console)
    found = figures(summary)
    if asked.report:
        asked.report.parent.mkdir(parents=True, exist_ok=True)
        asked.report.write_text(json.dumps(found, indent=2) + "\n")
    if asked.json:
        print(json.dumps(found))
        return not summary.violations
    console.print(
        f"{summary.seeds} seeds, {summary.steps} steps, {summary.struck.total()} faults, "
        f"{len(summary.violations)} violations"
    )
    for seed in sorted(summary.violations)[:_SHOWN]:
        replay(generate(seed), trace=False)
    return not summary.violations


def figures(summary: Summary) -> dict[str, Any]:
    """Return a summary as JSON data."""
    return {
        "seeds": summary.seeds,
        "steps": summary.steps,
        "violations": {str(seed): text for seed, text in sorted(summary.violations.items())},
        "faults": {kind.value: count for kind, count in summary.struck.most_common()},
        "ends": dict(summary.ends.most_common()),
        "operations": {
            f"{name} {'applied' if applied else 'refused'}": count
            for (name, applied), count in sorted(summary.outcomes.items())
        },
    }


def replay(scenario: Scenario, *, trace: bool) -> bool:
    """Run one scenario and print it; when it fails, also the smallest one that does."""
    strands = Strands()
    try:
        played = play(scenario, strands, trace=trace)
        _print(scenario, played)
        if played.violation is None:
            return False
        small = _smallest(scenario, strands)
        if small != scenario:
            print("--- shrunk ---")
            _print(small, play(small, strands, trace=trace))
    finally:
        strands.close()
    print(f"replay it with: piton simulate --replay {scenario.seed}")
    return True


def _replay(asked: argparse.Namespace) -> bool:
    scenario = generate(asked.replay)
    if not asked.json:
        return not replay(scenario, trace=asked.trace)
    strands = Strands()
    try:
        played = play(scenario, strands, trace=asked.trace)
        small = _smallest(scenario, strands) if played.violation else scenario
    finally:
        strands.close()
    content = {
        "seed": scenario.seed,
        "violation": played.violation,
        "scenario": scenario.lines(),
        "shrunk": small.lines() if small != scenario else None,
        "trace": list(played.trace),
    }
    print(json.dumps(content, ensure_ascii=False))
    return played.violation is None


def _smallest(scenario: Scenario, strands: Strands) -> Scenario:
    def fails(smaller: Scenario) -> bool:
        return play(smaller, strands).violation is not None

    return shrink(scenario, fails)


def _print(scenario: Scenario, played: Played) -> None:
    # Not by way of a console: it would break lines in the middle.
    for line in (*scenario.lines(), *played.trace):
        print(line)
    print(f"violation: {played.violation}" if played.violation else "no violation")


def _beside_replay(asked: argparse.Namespace) -> list[str]:
    given = {
        "--seeds": asked.seeds,
        "--from": asked.first,
        "--jobs": asked.jobs,
        "--report": asked.report,
    }
    return [option for option, value in given.items() if value is not None]


def _with_progress(seeds: range, jobs: int, console: Console) -> Summary:
    columns = (
        TextColumn("simulating"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[violations]} violations"),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("seeds", total=len(seeds), violations=0)

        def advanced(total: Summary) -> None:
            progress.update(bar, completed=total.seeds, violations=len(total.violations))

        return run_campaign(seeds, jobs, advanced)
