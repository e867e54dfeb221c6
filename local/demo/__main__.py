"""`python -m local.demo [--workflow FILE]`: exit code 0 only if the verdict is ok."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from types import FrameType

from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console
from rich.markup import escape

from local.client import ApiError
from local.demo.board import Board, Observer
from local.demo.clock import CLOCK
from local.demo.evidence import BodyLog, SubscriptionBroken, subscribed
from local.demo.reading import glance
from local.demo.run import Run
from local.demo.scenario import Plan, invoices, published
from local.demo.timeline import WIDTH, Timeline, save_svg, summary
from local.demo.verdict import Verdict
from local.deploy import ROOT, DeployError
from local.emulator import EmulatorError
from local.published import PublishedError
from local.stack import running
from piton.services.caller import Group

_REPORTS = ROOT / "build" / "reports"
_INTERRUPTED = 130


def main() -> int:
    """Run the demo and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m local.demo", description=__doc__)
    parser.add_argument("--workflow", type=Path, metavar="FILE", help="a published workflow")
    asked = parser.parse_args()
    # Like Ctrl-C: everything that was started ends on the way out.
    signal.signal(signal.SIGTERM, _interrupt)
    # Where no terminal says how wide it is, the timeline takes what it needs.
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    try:
        plan = published(asked.workflow) if asked.workflow else invoices()
        verdict = _demonstrate(plan, console)
    except (
        ApiError,
        BotoCoreError,
        ClientError,
        DeployError,
        EmulatorError,
        PublishedError,
        SubscriptionBroken,
    ) as error:
        Console(stderr=True).print(f"error: {error}", style="red", markup=False)
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED
    return 0 if verdict.ok else 1


def _demonstrate(plan: Plan, console: Console) -> Verdict:
    """Deploy, run the plan, judge, and write the report and the picture."""
    begun = CLOCK.monotonic_ms()
    report, picture = _REPORTS / "demo.json", _REPORTS / "demo.svg"
    for earlier in (report, picture):
        earlier.unlink(missing_ok=True)
    board = Board(console, plan.title)
    with running(progress=lambda line: board.note(escape(line))) as stack:
        api = stack.sign_in("demo", "acme", [Group.OPERATORS])
        board.note(f"signed in at {stack.api_url}")
        with subscribed(stack.aws.events, stack.aws.sqs, stack.outputs.bus_name) as tap:
            run = Run(stack, api, plan, board, tap, BodyLog(stack.body_log))
            observer = Observer(board, lambda id_: glance(api, id_), run.read_sweeps)
            with board.live(), observer.observing():
                verdict = run.carry_out()
        wall_s = (CLOCK.monotonic_ms() - begun) / 1000
        timeline = Timeline(run.records, run.labels, run.kills, run.drops).render()
        table = summary(verdict, wall_s)
        save_svg(picture, plan.title, timeline, table)
        report.write_text(json.dumps(verdict.to_json(wall_s), indent=2) + "\n")
        # Before all of it is taken down, which takes a while.
        console.print(timeline, table)
        _announce(console, verdict)
    return verdict


def _announce(console: Console, verdict: Verdict) -> None:
    for problem in verdict.problems:
        console.print(problem, style="red", markup=False)
    console.print(
        "ok" if verdict.ok else "not ok", style="bold green" if verdict.ok else "bold red"
    )


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
