"""A crash at every single call, and sweeps that have to find what is broken on purpose."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from local.cli import main
from local.crashtest.points import Point, Side
from local.crashtest.samples import SAMPLE_SUBJECTS, chain
from local.crashtest.subject import Subject, stub
from local.crashtest.sweep import CrashtestError, replay, run
from local.simulator.network import Stream
from piton.domain.compile import NodeSpec, PoolLimits
from piton.domain.retry import RetryPolicy
from piton.services.sweep import Sweep
from piton.storage import operations as op
from piton.storage.algebra import NotExists
from piton.tasks import Context, Inputs, Task
from tests.support.commands import commands
from tests.support.markdown import blocks

HELLO = "examples/hello/workflow.yaml"
ALWAYS = (NotExists("exec_nothing"),)


@pytest.fixture(autouse=True)
def _silent() -> Iterator[None]:
    """Every crash is logged, and there are thousands."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("subject", SAMPLE_SUBJECTS, ids=lambda subject: subject.__name__)
def test_every_crash_point_is_survived(subject: Callable[[], Subject]) -> None:
    report = run(subject())
    assert report.failures == []
    assert report.survived == report.crash_points == 2 * report.calls > 80
    assert report.ended == "completed"
    assert report.unstable == ()


def test_pairs_of_crashes_are_survived_and_the_rest_is_told() -> None:
    report = run(chain(1), most_pairs=100)
    assert report.failures == []
    assert report.pairs == report.pairs_survived == 100
    assert report.pairs_skipped > 100


# --- What is broken is found -----------------------------------------------------------------


def test_a_write_without_its_guard_is_found() -> None:
    """The event comes again after the crash, and queues a node that is already on its way."""
    report = run(chain(2), mutations={"node.queue_single": replace(op.QUEUE_SINGLE, guard=ALWAYS)})
    assert report.survived < report.crash_points
    assert any("history is not legal" in failure.problem for failure in report.failures)


def test_a_relay_that_drops_what_it_held_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the watchdog's resends make up for it, so without them the execution stands still."""

    def settle(stream: Any, size: int, _end: object) -> None:
        stream._cursor += size
        stream._busy = False
        stream._wake()

    def resend_nothing(*_: object) -> None:
        return

    monkeypatch.setattr("local.simulator.world.MOST_CALLS", 1000)
    monkeypatch.setattr(Stream, "_settle", settle)
    assert run(chain(1)).failures == []
    monkeypatch.setattr(Sweep, "_lost_dispatches", resend_nothing)
    failures = run(chain(1)).failures
    assert {crash.process for failure in failures for crash in failure.crashes} == {"relay"}
    assert all("no end" in failure.problem for failure in failures)


def test_a_watchdog_that_trusts_every_lease_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def see_nothing(*_: object) -> None:
        return

    monkeypatch.setattr("local.simulator.world.MOST_CALLS", 1000)
    monkeypatch.setattr(Sweep, "_stalled_nodes", see_nothing)
    failures = run(chain(1)).failures
    assert {crash.process for failure in failures for crash in failure.crashes} == {"worker"}


# --- What users learn of their own workflows -------------------------------------------------


def test_a_node_with_one_attempt_does_not_survive() -> None:
    once = Subject("once", (NodeSpec("only", task="stub", retry=RetryPolicy(1)),), stub)
    failures = run(once).failures
    assert failures
    assert all("higher max_attempts" in failure.problem for failure in failures)
    found, trace = replay(once, [crash.point for crash in failures[0].crashes])
    assert found == failures[0]
    assert any("dies" in line for line in trace)


def test_a_lambda_node_runs_as_a_stub() -> None:
    arn = "arn:aws:lambda:eu-west-1:000000000000:function:echo"
    pools = {"default": PoolLimits(900, frozenset({arn}))}
    subject = Subject("calls", (NodeSpec("call", lambda_arn=arn),), stub, pools=pools)
    assert subject.lambdas == ("call",)
    report = run(subject)
    assert report.ended == "completed"
    assert report.failures == []


def test_results_that_change_are_told_and_not_compared() -> None:
    counted = iter(range(10**6))

    def body(_context: Context, _inputs: Inputs) -> int:
        return next(counted)

    def find(name: str) -> Task:
        return Task(name, body, None, None)

    report = run(Subject("counter", (NodeSpec("count", task="count"),), find))
    assert report.unstable == ("count",)
    assert report.failures == []


def test_a_point_that_is_never_reached_is_refused() -> None:
    with pytest.raises(CrashtestError, match="calls"):
        replay(chain(1), [Point(10_000, Side.AFTER)])


# --- The command -----------------------------------------------------------------------------


def test_the_command_of_the_readme_reports_and_replays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [block] = blocks("bash local")
    [[_, *command]] = commands(block.text)
    path = tmp_path / "report.json"
    arguments = [*command, "--report", str(path)]
    assert main([*arguments, "--json"]) == 0
    report = json.loads(path.read_text())
    assert json.loads(capsys.readouterr().out) == report
    assert report["workflow"] == "hello"
    assert report["crash_points"] == report["survived"] == 2 * report["calls"]
    assert report["failures"] == []
    assert main([*arguments, "--at", "10:after"]) == 0
    assert "dies" in capsys.readouterr().out


def test_the_command_fails_when_the_workflow_does(tmp_path: Path) -> None:
    workflow = tmp_path / "once.json"
    node = {"id": "only", "task": "anything", "retry": {"max_attempts": 1}}
    workflow.write_text(json.dumps({"id": "once", "nodes": [node]}))
    path = tmp_path / "report.json"
    with pytest.raises(SystemExit) as end:
        main(["crashtest", str(workflow), "--stub", "--report", str(path)])
    assert end.value.code == 1
    failures = json.loads(path.read_text())["failures"]
    assert failures
    assert failures[0]["replay"].endswith(f"--stub --at {failures[0]['point']}")


@pytest.mark.parametrize(
    "more",
    [["--at", "soon"], ["--at", "0:after"], ["--tasks", "no.such.module"]],
)
def test_wrong_usage_is_told(more: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crashtest", HELLO, *more]) == 2
    assert capsys.readouterr().err.startswith("USAGE: ")
