"""`piton crashtest WORKFLOW --deployed`: on an embedded AWS that is started for it."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from local.crashtest.deployed.report import DeployedReport
from local.crashtest.deployed.rig import WATCHDOG, Rig
from local.crashtest.deployed.sweep import Advanced, run
from local.crashtest.sweep import CrashtestError
from local.demo.clock import DeadlinePassed
from local.demo.evidence import BodyLog, SubscriptionBroken, subscribed
from local.deploy import DeployError
from local.emulator import EmulatorError
from local.stack import running
from piton.domain.canonical import Json
from piton.services.caller import Group

REPORT: Final = Path("build/reports/crashtest-deployed.json")
_TENANT: Final = "crashtest"
_SIMULATED_ONLY: Final = ("at", "pairs", "stub", "tasks")
_SHOWN: Final = 10


def crashtest_deployed(
    asked: Namespace, text: str, execution_input: Mapping[str, Json], report_file: Path
) -> bool:
    """Carry out the command; True when the workflow survives. Raises `CrashtestError`."""
    for option in _SIMULATED_ONLY:
        if getattr(asked, option):
            raise CrashtestError(f"--{option} does not go with --deployed")
    console = Console(stderr=asked.json)
    try:
        report = _sweep(text, execution_input, console)
    except (DeadlinePassed, DeployError, EmulatorError, SubscriptionBroken) as error:
        raise CrashtestError(str(error)) from error
    report.write(report_file)
    if asked.json:
        print(json.dumps(report.to_json()))
    else:
        _show(console, report)
        console.print(f"report: {report_file}", highlight=False)
    return not report.failures


def _sweep(text: str, execution_input: Mapping[str, Json], console: Console) -> DeployedReport:
    with _progress(console) as advanced, running(progress=lambda _line: None) as stack:
        stack.aws.events.disable_rule(Name=stack.function("sweep"))
        api = stack.sign_in("crashtest", _TENANT, [Group.OPERATORS])
        with subscribed(stack.aws.events, stack.aws.sqs, stack.outputs.bus_name) as tap:
            rig = Rig(stack, api, _TENANT, tap, BodyLog(stack.body_log))
            return run(rig, text, execution_input, advanced=advanced)


@contextmanager
def _progress(console: Console) -> Iterator[Advanced]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        phases = {"": progress.add_task("deploying the stacks", total=None)}

        def advanced(phase: str, done: int, total: int) -> None:
            if phase not in phases:
                progress.update(phases[""], visible=False)
                phases[phase] = progress.add_task(phase)
            progress.update(phases[phase], completed=done, total=total)

        yield advanced


def _show(console: Console, report: DeployedReport) -> None:
    table = Table(title=report.workflow, title_justify="left", show_header=False)
    table.add_row("clean run", f"{report.ended}, {report.calls} calls")
    table.add_row("crash points survived", f"{report.survived} of {report.points}")
    table.add_row(f"with the {WATCHDOG} killed too", f"{report.pairs_survived} of {report.pairs}")
    table.add_row("not reached again", str(len(report.unreached)))
    for function, times in sorted(report.killed.items()):
        table.add_row(f"SIGKILL of {function}", str(times))
    console.print(table, highlight=False)
    for failure in report.failures[:_SHOWN]:
        console.print(f"- {failure}", markup=False, highlight=False)
    if len(report.failures) > _SHOWN:
        console.print(f"and {len(report.failures) - _SHOWN} more")
