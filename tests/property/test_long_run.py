"""The long run: stopped by signals, continued, and never added up over two engines."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bench.long_run import FIRST, Files, Totals, code_hash, long_run
from bench.workers import Stop
from local.simulator.campaign import Summary, be_quiet, run_seeds
from local.simulator.faults import Kind

ROOT = Path(__file__).parents[2]
HUNG_S = 120
PROGRESS = re.compile(r"random worlds [1-9][\d,]* of")


@pytest.fixture(autouse=True)
def _without_logs() -> Iterator[None]:
    be_quiet()
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def _interruptible() -> Iterator[None]:
    """Children take interrupts although this process may have been told to ignore them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def start(build: Path, seeds: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.faults", "--long", "--jobs", "2"]
    command += ["--seeds", str(seeds), "--build", str(build)]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def until_it_has_played(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if PROGRESS.search(line):
            return
    pytest.fail("".join(lines))


def report(build: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((build / "reports" / "faults-long.json").read_text("utf-8"))
    return found


def output_of(process: subprocess.Popen[str]) -> str:
    """What it prints until it ends, or until it is taken for hung."""
    try:
        return process.communicate(timeout=HUNG_S)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0]


@pytest.mark.usefixtures("_interruptible")
def test_what_signals_interrupt_goes_on_where_it_stopped(tmp_path: Path) -> None:
    with start(tmp_path, 1_000_000) as process:
        until_it_has_played(process)
        # As a terminal does it: to the parent and to all of its children.
        os.killpg(process.pid, signal.SIGINT)
        output = output_of(process)
    assert process.returncode == 130, output
    assert "Traceback" not in output
    assert "interrupted; the next run goes on from here" in output
    first = report(tmp_path)["seeds"]
    assert first >= 25

    with start(tmp_path, 1_000_000) as process:
        until_it_has_played(process)
        process.send_signal(signal.SIGTERM)
        output = output_of(process)
    assert process.returncode == 143, output
    assert "Traceback" not in output
    second = report(tmp_path)["seeds"]
    assert second >= first

    seeds = second + 30
    with start(tmp_path, seeds) as process:
        output = output_of(process)
    assert process.returncode == 0, output
    assert f"goes on after {second:,} seeds" in output

    found, alone = report(tmp_path), run_seeds(range(FIRST, FIRST + seeds))
    assert found["seeds"] == seeds
    assert found["steps"] == alone.steps
    assert found["violations"] == len(alone.violations)
    assert found["faults"] == {kind.value: n for kind, n in alone.struck.items()}
    assert found["seeds_per_second"] > 0


def test_signals_that_are_ignored_stay_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Stop() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert not stop
            signal.raise_signal(signal.SIGTERM)
            assert stop.signal == signal.SIGTERM
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_another_code_starts_over_and_what_was_done_is_kept(tmp_path: Path) -> None:
    files, other = Files(tmp_path), Totals("other", 2.0, Summary(seeds=50, steps=7))
    files.save(other, 1000)
    console = Console(width=200, force_terminal=False)
    with console.capture() as capture:
        assert long_run(console, tmp_path, 25, 1) == 0
    assert "is not other" in capture.get()
    assert "starts over" in capture.get()
    assert report(tmp_path)["seeds"] == 25
    assert report(tmp_path)["code"] == code_hash()
    assert files.load("other") == other


def test_totals_are_read_as_they_were_written() -> None:
    summary = run_seeds(range(5))
    summary.violations[3] = "something"
    totals = Totals("code", 1.5, summary)
    assert Totals.from_json(json.loads(json.dumps(totals.to_json(1000)))) == totals
    assert set(totals.to_json(1000)["faults"]) <= {kind.value for kind in Kind}


def test_every_change_of_the_engine_or_the_simulator_is_another_code(tmp_path: Path) -> None:
    engine, simulator = tmp_path / "functions" / "piton", tmp_path / "local" / "simulator"
    for folder in (engine, simulator):
        folder.mkdir(parents=True)
        (folder / "a.py").write_text("x = 1\n")
    seen = {code_hash(tmp_path)}
    (engine / "a.py").write_text("x = 2\n")
    seen.add(code_hash(tmp_path))
    (simulator / "b.py").write_text("")
    seen.add(code_hash(tmp_path))
    (simulator / "b.py").rename(simulator / "c.py")
    seen.add(code_hash(tmp_path))
    assert len(seen) == 4
