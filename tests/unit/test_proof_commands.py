"""`piton simulate` and `piton crashtest`: what they refuse, what they answer, what they print."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.cli import main
from piton.services.run import Run
from tests.support.markdown import ROOT

HELLO = str(ROOT / "examples/hello/workflow.yaml")
TEXT = '{"text": "to be or not to be"}'


@pytest.fixture(autouse=True)
def _with_logs_afterwards() -> Iterator[None]:
    """The commands switch logging off."""
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "scope", property(lambda _: "nobody's"))


def exit_code(*arguments: str) -> int:
    """Run a command line; refusals and violations exit."""
    try:
        return main(arguments)
    except SystemExit as end:
        return int(end.code or 0)


# --- Random worlds -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value"),
    [("--jobs", "0"), ("--jobs", "-1"), ("--seeds", "0"), ("--seeds", "-5"), ("--seeds", "many")],
)
def test_a_number_that_would_prove_nothing_is_refused(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("simulate", option, value) == 2
    message = f"argument {option}: '{value}' is no whole number from 1 on"
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--trace"], "--trace needs --replay SEED"),
        (["--replay", "1", "--seeds", "5", "--jobs", "1"], "--seeds, --jobs cannot go with"),
    ],
)
def test_options_that_would_be_ignored_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("simulate", *arguments) == 2
    assert capsys.readouterr().err.startswith(f"USAGE: {message}")


@pytest.mark.parametrize("arguments", [["--json", "simulate"], ["simulate", "--json"]])
def test_figures_are_answered_as_json(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "deep/report.json"
    more = ["--seeds", "3", "--from", "16", "--jobs", "1", "--report", str(report)]
    assert exit_code(*arguments, *more) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["seeds"], figures["violations"]) == (3, {})
    assert json.loads(report.read_text()) == figures


def test_a_trace_names_nodes_as_the_scenario_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("simulate", "--replay", "3", "--trace") == 0
    trace = capsys.readouterr().out
    assert "node.claim n0: Applied" in trace
    assert "NODE#" not in trace
    assert trace.endswith("no violation\n")


@pytest.mark.usefixtures("broken")
def test_what_is_violated_is_shrunk_and_printed_in_whole_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert exit_code("simulate", "--replay", "2") == 1
    _, small = capsys.readouterr().out.split("--- shrunk ---\n")
    assert small.startswith("seed 2, 1 node(s), 1 execution(s)\n")
    assert "violation: " in small
    assert small.endswith("replay it with: piton simulate --replay 2\n")


@pytest.mark.usefixtures("broken")
def test_a_violation_is_answered_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("simulate", "--replay", "2", "--json", "--trace") == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["seed"] == 2
    assert "decided in scope" in answer["violation"]
    assert len(answer["shrunk"]) < len(answer["scenario"])
    assert answer["trace"]


# --- Crash points --------------------------------------------------------------------------


def test_a_workflow_whose_tasks_are_not_there_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workflow = tmp_path / "strange.yaml"
    workflow.write_text(
        "id: strange\nnodes: [{id: a, task: no.such}, {id: b, task: hello.words}]\n"
    )
    assert exit_code("crashtest", str(workflow)) == 2
    message = capsys.readouterr().err
    assert "register no task no.such;" in message
    assert "--tasks" in message
    assert "--stub" in message


def test_a_workflow_that_fails_without_a_crash_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = str(tmp_path / "report.json")
    assert exit_code("crashtest", HELLO, "--report", report) == 0
    warning = "warning: even without a crash the workflow is failed with TEXT_MISSING at words;"
    assert warning in capsys.readouterr().out
    assert exit_code("crashtest", HELLO, "--input", TEXT, "--report", report) == 0
    assert "warning" not in capsys.readouterr().out


def test_what_fails_in_the_same_way_is_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workflow = tmp_path / "once.yaml"
    workflow.write_text("id: once\nnodes: [{id: a, task: t, retry: {max_attempts: 1}}]\n")
    report = tmp_path / "report.json"
    assert exit_code("crashtest", str(workflow), "--stub", "--report", str(report)) == 1
    failures = json.loads(report.read_text())["failures"]
    shown = capsys.readouterr().out
    assert len(failures) > 1
    assert shown.count("a higher max_attempts") == len({each["problem"] for each in failures})


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--most-pairs", "3"], "--most-pairs needs --pairs"),
        (["--at", "9:after", "--pairs"], "--pairs means nothing with --at"),
        (["--at", "999:after"], "--at 999:after: this run makes only"),
    ],
)
def test_options_of_a_crashtest_that_cannot_be_meant_are_refused(
    more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("crashtest", HELLO, "--input", TEXT, *more) == 2
    assert capsys.readouterr().err.startswith(f"USAGE: {message}")


def test_a_file_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("crashtest", "nope.yaml") == 2
    assert capsys.readouterr().err == "USAGE: nope.yaml cannot be read: No such file or directory\n"
