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
import time
from pathlib import Path
from types import FrameType
from typing import Any, Final

from rich.console import Console

from bench import guards
from bench.embedded import microseconds_per_node
from bench.long_run import SEEDS as LONG_SEEDS
from bench.long_run import long_run
from bench.parts import run_parts
from bench.progress import Board, duration
from bench.proofs import PARTS, Proofs, is_good
from bench.workers import on_interrupts
from local.docs.cases import counts

_CHAIN: Final = 1000
_JOBS: Final = os.cpu_count() or 1


def measure(console: Console, jobs: int, reports: Path) -> bool:
    """Run everything and write the reports. True when all is good."""
    began = time.monotonic()
    with Board(console) as board:
        proofs = Proofs(board)
        run_parts(list(proofs.parts.values()), jobs, board)
    console.print("time per node on the embedded store, three runs each way")
    figures = proofs.figures() | counts() | _embedded()
    took = time.monotonic() - began
    cpu_seconds = {name: round(part.cpu_seconds, 1) for name, part in proofs.parts.items()}
    report: dict[str, Any] = {
        **figures,
        "processes": jobs,
        "seconds": round(took),
        "cpu_seconds": cpu_seconds,
    }
    _write(reports / "faults.json", report)
    _write(reports / "guards.json", guards.listed(proofs.guards.results))
    for part in proofs.parts.values():
        console.print(
            f"{part.name}: {duration(part.cpu_seconds)} of processor time, "
            f"done after {duration(part.wall_seconds)}",
            highlight=False,
        )
    console.print_json(json.dumps(report))
    console.print(f"{duration(took)} in all; written to {reports}/faults.json and guards.json")
    return is_good(figures)


def measure_some(console: Console, jobs: int, names: list[str]) -> bool:
    """Run some parts only and write nothing. True when all is good."""
    with Board(console) as board:
        proofs = Proofs(board)
        run_parts([proofs.parts[name] for name in PARTS if name in names], jobs, board)
    figures = proofs.figures()
    console.print_json(json.dumps({name: value for name, value in figures.items() if value}))
    return is_good(figures)


def _embedded() -> dict[str, float]:
    """Time per node on the embedded file store, in microseconds: the best of three runs each.

    Once as a host would do it, which syncs what lies between two bodies together, and once with
    a sync for every single write.
    """
    return {
        "sqlite_us_per_node_chain_1000": _best_of_three(group_commits=True),
        "sqlite_us_per_node_chain_1000_each_write_synced": _best_of_three(group_commits=False),
    }


def _best_of_three(*, group_commits: bool) -> float:
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{run}.db" for run in range(3)]
        return round(
            min(microseconds_per_node(file, _CHAIN, group_commits=group_commits) for file in files),
            1,
        )


def _write(file: Path, document: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document, indent=2) + "\n", "utf-8")


def _raise(number: int, frame: FrameType | None) -> None:
    del frame
    raise SystemExit(128 + number)


def main() -> int:
    """Command line. Exits with 1 when something was violated, lost or missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", nargs="+", metavar="PART", choices=PARTS, help=f"of {', '.join(PARTS)}"
    )
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
    on_interrupts(_raise)
    if asked.only:
        return 0 if measure_some(console, asked.jobs, asked.only) else 1
    return 0 if measure(console, asked.jobs, asked.build / "reports") else 1


if __name__ == "__main__":
    sys.exit(main())
