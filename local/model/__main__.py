"""`python -m local.model`: explore all small workflows and print what was found."""

from __future__ import annotations

import os
import sys

from rich.console import Console

from local.model.callers import try_all
from local.model.check import run_exercises


def main() -> int:
    """Run everything. Returns 1 after a violation."""
    console, is_sound = Console(), True
    for exercise, found in run_exercises(os.cpu_count() or 1):
        console.print(
            f"{exercise}\n  {found.states:,} states, {found.steps:,} steps, depth {found.depth}; "
            f"{found.row_states:,} contents of the rows, each recovered from; "
            f"fences to {found.fence}, attempts to {found.attempt}",
            highlight=False,
        )
        if found.violation is not None:
            is_sound = False
            for step in (*found.path, found.violation):
                console.print(f"    {step}", markup=False, highlight=False)
    tried = try_all({})
    console.print(f"guards alone: {tried.states:,} states, {tried.steps:,} steps")
    if tried.violation is not None:
        is_sound = False
        console.print(f"    {tried.violation}", markup=False)
    return 0 if is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
