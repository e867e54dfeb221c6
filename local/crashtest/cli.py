"""`piton crashtest`: what happens to a workflow when a process dies, at every place it can."""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from local.crashtest.deployed.cli import REPORT as DEPLOYED_REPORT
from local.crashtest.deployed.cli import crashtest_deployed
from local.crashtest.points import Point
from local.crashtest.report import Failure, Report, command_line
from local.crashtest.subject import FindTask, Subject, load_tasks, stub
from local.crashtest.sweep import MOST_PAIRS, CrashtestError, replay, run
from local.numbers import positive
from piton.domain.canonical import Json
from piton.domain.compile import PoolLimits, Pools
from piton.domain.errors import InvalidDefinition
from piton.domain.graph import DEFAULT_POOL
from piton.domain.status import ExecutionStatus

REPORT: Final = Path("build/reports/crashtest.json")
SUMMARY: Final = "crash a workflow before and after every call that it makes"
_SHOWN: Final = 10


def add_arguments(parser: ArgumentParser) -> None:
    """Add what the command takes."""
    parser.add_argument("file", help="the workflow's file, - for standard input")
    parser.add_argument(
        "--tasks",
        nargs="+",
        metavar="MODULE",
        help="modules with its tasks; those of the pool `default` unless given",
    )
    parser.add_argument("--stub", action="store_true", help="run no task, each returns its node")
    parser.add_argument("--input", metavar="JSON", help="an object, @FILE or -")
    parser.add_argument("--pairs", action="store_true", help="also crash a second time")
    parser.add_argument(
        "--most-pairs",
        type=positive,
        metavar="N",
        help=f"with --pairs: an even share of so many, {MOST_PAIRS} by default",
    )
    parser.add_argument(
        "--at", nargs="+", metavar="POINT", help="only crash there, such as 17:after, and trace it"
    )
    parser.add_argument(
        "--deployed",
        action="store_true",
        help="on an embedded AWS of its own, by SIGKILL; its tasks have to be those of a pool",
    )
    parser.add_argument(
        "--report",
        type=Path,
        help=f"{REPORT}, or {DEPLOYED_REPORT} of the deployed, by default",
    )


def crashtest(asked: Namespace, text: str, execution_input: Mapping[str, Json]) -> bool:
    """Carry out the command; True when the workflow survives. Raises `CrashtestError`."""
    if asked.deployed:
        report_file = asked.report or DEPLOYED_REPORT
        return crashtest_deployed(asked, text, execution_input, report_file)
    if asked.most_pairs is not None and not asked.pairs:
        raise CrashtestError("--most-pairs needs --pairs")
    if asked.at and asked.pairs:
        raise CrashtestError("--pairs means nothing with --at: name both points there")
    subject = _subject(asked, text, execution_input)
    # Tasks and services log every failure, and here they fail as planned.
    logging.disable(logging.CRITICAL)
    try:
        return _replay(asked, subject) if asked.at else _sweep(asked, subject)
    finally:
        logging.disable(logging.NOTSET)


def _sweep(asked: Namespace, subject: Subject) -> bool:
    most_pairs = (asked.most_pairs or MOST_PAIRS) if asked.pairs else 0
    console = Console(stderr=asked.json)
    report = _with_progress(subject, most_pairs, console)
    command = _command(asked)
    report_file = asked.report or REPORT
    report.write(report_file, command)
    if report.ended != ExecutionStatus.COMPLETED:
        console.print(
            f"warning: even without a crash the workflow is {report.ended}; "
            "only what runs until then is tested",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    if asked.json:
        print(json.dumps(report.to_json(command)))
    else:
        _show(console, subject, report, most_pairs, command)
        console.print(f"report: {report_file}", highlight=False)
    return not report.failures


def _replay(asked: Namespace, subject: Subject) -> bool:
    try:
        points = sorted(Point.parse(text) for text in asked.at)
        failure, trace = replay(subject, points)
    except (ValueError, CrashtestError) as error:
        raise CrashtestError(f"--at {' '.join(asked.at)}: {error}") from error
    if asked.json:
        problem = failure.problem if failure else None
        print(json.dumps({"problem": problem, "trace": list(trace)}))
    else:
        for line in trace:
            print(line)
        print(failure.problem if failure else "survived")
    return failure is None


# --- The subject ---------------------------------------------------------------------------


def _subject(asked: Namespace, text: str, execution_input: Mapping[str, Json]) -> Subject:
    limits, default_modules = _pools()
    modules = asked.tasks or default_modules
    find = stub if asked.stub else _tasks(modules)
    try:
        subject = Subject.parse(text, find, execution_input, limits)
    except InvalidDefinition as error:
        problems = "; ".join(str(problem) for problem in error.problems)
        raise CrashtestError(f"{asked.file}: {problems}") from error
    missing = sorted({spec.task for spec in subject.specs if spec.task and not find(spec.task)})
    if missing:
        raise CrashtestError(
            f"{asked.file}: {', '.join(modules)} register no task {', '.join(missing)}; name "
            "the modules that do with --tasks, or let --stub stand for every task"
        )
    return subject


def _tasks(modules: list[str]) -> FindTask:
    # The user's own modules lie where the command is called.
    sys.path.insert(0, str(Path.cwd()))
    try:
        return load_tasks(modules)
    except ImportError as error:
        raise CrashtestError(f"the tasks cannot be imported: {error}") from error


def _pools() -> tuple[Pools, list[str]]:
    """The limits of every pool, and the modules of the default one."""
    # Only here: it starts the Node process of the CDK.
    os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")
    pools = importlib.import_module("infra.pools").POOLS
    limits = {
        pool.name: PoolLimits(pool.max_task_timeout_s, frozenset(pool.allowed_lambdas))
        for pool in pools
    }
    modules = [
        module for pool in pools if pool.name == DEFAULT_POOL for module in pool.task_modules
    ]
    return limits, modules


def _command(asked: Namespace) -> str:
    words = [asked.file]
    words += ["--tasks", *asked.tasks] if asked.tasks else []
    words += ["--stub"] if asked.stub else []
    words += ["--input", asked.input] if asked.input else []
    return command_line(words)


# --- What is shown -------------------------------------------------------------------------


def _with_progress(subject: Subject, most_pairs: int, console: Console) -> Report:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failed]} failed"),
    )
    with Progress(*columns, console=console) as progress:
        singly = progress.add_task("one crash", total=None, failed=0)
        twice = progress.add_task("two crashes", total=None, failed=0, visible=most_pairs > 0)

        def advanced(report: Report, total: int) -> None:
            if report.pairs:
                failed = report.pairs - report.pairs_survived
                progress.update(twice, completed=report.pairs, total=total, failed=failed)
            else:
                failed = report.crash_points - report.survived
                progress.update(singly, completed=report.crash_points, total=total, failed=failed)

        return run(subject, most_pairs=most_pairs, advanced=advanced)


def _show(
    console: Console, subject: Subject, report: Report, most_pairs: int, command: str
) -> None:
    table = Table(title=report.workflow, title_justify="left", show_header=False)
    table.add_row("clean run", f"{report.ended}, {report.calls} calls")
    table.add_row("crash points survived", f"{report.survived} of {report.crash_points}")
    if most_pairs:
        table.add_row("pairs survived", f"{report.pairs_survived} of {report.pairs}")
        table.add_row("pairs left out", f"{report.pairs_skipped} (at most {most_pairs} are run)")
    if subject.lambdas:
        table.add_row("Lambda nodes, as stubs", ", ".join(subject.lambdas))
    if report.unstable:
        table.add_row("results that change", ", ".join(report.unstable))
    console.print(table, highlight=False)
    alike: dict[str, list[Failure]] = {}
    for failure in report.failures:
        alike.setdefault(failure.problem, []).append(failure)
    for problem, failures in list(alike.items())[:_SHOWN]:
        lines = [f"{len(failures)} x {problem}"]
        lines += [f"  {crash}" for crash in failures[0].crashes]
        lines += [f"  {command} --at {failures[0].at}"]
        for line in lines:
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    if len(alike) > _SHOWN:
        console.print(f"and {len(alike) - _SHOWN} other problems, all in the report")
