"""`piton simulate`: random worlds, and the one that went wrong again."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from local.simulator.campaign import Summary, be_quiet, run_campaign
from local.simulator.generate import generate
from local.simulator.play import play
from local.simulator.scenario import Scenario
from local.simulator.shrink import shrink
from local.simulator.strands import Strands

FAILED: Final = 1
_SHOWN: Final = 5


def add_commands(commands: Any) -> None:
    """Add `simulate` to a parser's commands."""
    summary = "run random workflows with random faults against the engine, reproducibly"
    parser = commands.add_parser("simulate", help=summary, description=summary)
    parser.add_argument("--seeds", type=int, default=1000, metavar="N", help="how many, 1000")
    parser.add_argument("--from", type=int, default=0, metavar="SEED", dest="first", help="first")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--replay", type=int, metavar="SEED", help="run one seed and explain it")
    parser.add_argument("--trace", action="store_true", help="with --replay: print every call")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the figures as JSON")
    parser.set_defaults(run=simulate, json=False)


def simulate(asked: argparse.Namespace) -> None:
    """Run what was asked for. Exits with 1 after a violation."""
    be_quiet()
    console = Console()
    if asked.replay is not None:
        found = replay(generate(asked.replay), console, trace=asked.trace)
        sys.exit(FAILED if found else 0)
    seeds = range(asked.first, asked.first + asked.seeds)
    summary = _with_progress(seeds, asked.jobs, console)
    console.print(
        f"{summary.seeds} seeds, {summary.steps} steps, {summary.struck.total()} faults, "
        f"{len(summary.violations)} violations"
    )
    if asked.report:
        asked.report.parent.mkdir(parents=True, exist_ok=True)
        asked.report.write_text(json.dumps(figures(summary), indent=2) + "\n")
    for seed in sorted(summary.violations)[:_SHOWN]:
        replay(generate(seed), console, trace=False)
    sys.exit(FAILED if summary.violations else 0)


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


def replay(scenario: Scenario, console: Console, *, trace: bool) -> bool:
    """Run one scenario and print it; when it fails, also the smallest one that does."""
    strands = Strands()
    try:
        played = play(scenario, strands, trace=trace)
        _print(console, scenario, played.violation, played.trace)
        if played.violation is None:
            return False

        def fails(smaller: Scenario) -> bool:
            return play(smaller, strands).violation is not None

        small = shrink(scenario, fails)
        if small != scenario:
            again = play(small, strands, trace=trace)
            console.rule("shrunk")
            _print(console, small, again.violation, again.trace)
    finally:
        strands.close()
    console.print(f"replay it with: piton simulate --replay {scenario.seed}")
    return True


def _print(
    console: Console, scenario: Scenario, violation: str | None, trace: tuple[str, ...]
) -> None:
    for line in (*scenario.lines(), *trace):
        console.print(line, markup=False, highlight=False)
    console.print(f"violation: {violation}" if violation else "no violation", markup=False)


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
