"""A million random worlds in as many runs as it takes.

What is done is kept by the code it was done on: figures of two engines are never added up.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter, deque
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from bench.progress import Board, duration
from bench.workers import Done, Stop, Tell, Workers
from local.simulator.campaign import CHUNK, Summary, run_seeds
from local.simulator.faults import Kind

SEEDS: Final = 1_000_000
FIRST: Final = 1_000_000
"""The first seed: far from those of every other run."""

_ROOT: Final = Path(__file__).parent.parent
_CODE: Final = ("functions/piton", "local/simulator")
_SAVE_EVERY_S: Final = 5.0
_REFRESH_S: Final = 0.25
_AHEAD: Final = 4
"""Chunks in hand for each process: results are added up in order, and some take longer."""
_HASH_SHOWN: Final = 12


def code_hash(root: Path = _ROOT) -> str:
    """Return a hash over the engine and the simulator: their files' names and contents."""
    digest = hashlib.sha256()
    for folder in _CODE:
        for file in sorted((root / folder).rglob("*.py")):
            content = file.read_bytes()
            digest.update(f"{file.relative_to(root).as_posix()} {len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()[:_HASH_SHOWN]


@dataclass
class Totals:
    """What all runs on one code have come to. `seconds` is the time that they took."""

    code: str
    seconds: float = 0.0
    summary: Summary = field(default_factory=Summary)

    @property
    def rate(self) -> float:
        """Seeds per second."""
        return self.summary.seeds / self.seconds if self.seconds else 0.0

    def to_json(self, seeds: int) -> dict[str, Any]:
        """Return the report, which is also what the next run starts from."""
        summary = self.summary
        operations: dict[str, dict[str, int]] = {}
        for (name, applied), number in sorted(summary.outcomes.items()):
            operations.setdefault(name, {})["applied" if applied else "refused"] = number
        return {
            "code": self.code,
            "first_seed": FIRST,
            "seeds": summary.seeds,
            "seeds_wanted": seeds,
            "steps": summary.steps,
            "violations": len(summary.violations),
            "violated": {str(seed): text for seed, text in sorted(summary.violations.items())},
            "seconds": round(self.seconds, 1),
            "seeds_per_second": round(self.rate, 1),
            "faults": {kind.value: number for kind, number in summary.struck.most_common()},
            "ends": dict(summary.ends.most_common()),
            "operations": operations,
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Totals:
        """Read what `to_json` returned."""
        return cls(
            document["code"],
            document["seconds"],
            Summary(
                seeds=document["seeds"],
                steps=document["steps"],
                violations={int(seed): text for seed, text in document["violated"].items()},
                struck=Counter({Kind(kind): n for kind, n in document["faults"].items()}),
                ends=Counter(document.get("ends", {})),
                outcomes=Counter(
                    {
                        (name, how == "applied"): number
                        for name, hows in document["operations"].items()
                        for how, number in hows.items()
                    }
                ),
            ),
        )


class Files:
    """Where totals are kept: a state for each code, and a report of the latest one."""

    def __init__(self, build: Path) -> None:
        self.report = build / "reports" / "faults-long.json"
        self._states = build / "faults-long"

    def state(self, code: str) -> Path:
        """The file of one code's totals."""
        return self._states / f"{code}.json"

    def load(self, code: str) -> Totals:
        """Return what was done on this code, nothing if nothing was."""
        file = self.state(code)
        if not file.exists():
            return Totals(code)
        return Totals.from_json(json.loads(file.read_text("utf-8")))

    def save(self, totals: Totals, seeds: int) -> None:
        """Keep a totals. Whoever is killed in between leaves the files as they were."""
        text = json.dumps(totals.to_json(seeds), indent=2) + "\n"
        for file in (self.state(totals.code), self.report):
            file.parent.mkdir(parents=True, exist_ok=True)
            fresh = file.with_suffix(".new")
            fresh.write_text(text, "utf-8")
            fresh.replace(file)

    def other_code(self, code: str) -> str | None:
        """The code of the latest report, if that is another one."""
        if not self.report.exists():
            return None
        latest: str = json.loads(self.report.read_text("utf-8"))["code"]
        return None if latest == code else latest


def long_run(console: Console, build: Path, seeds: int, jobs: int) -> int:
    """Play worlds until there are `seeds` of them, or an interrupt comes.

    Returns the exit code: 0, 1 after a violation, 128 and the signal's number when interrupted.
    """
    files, code = Files(build), code_hash()
    totals = files.load(code)
    _greet(console, files, totals)
    with Stop() as stop:
        try:
            _play(console, files, totals, seeds, jobs, stop)
        except KeyboardInterrupt:
            console.print("stopped at once: worlds in progress are dropped")
        finally:
            files.save(totals, seeds)
    summary = totals.summary
    console.print(
        f"{summary.seeds:,} of {seeds:,} seeds on code {code}, {summary.steps:,} steps, "
        f"{summary.struck.total():,} faults, {len(summary.violations)} violations, "
        f"{totals.rate:.0f} seeds/s; written to {files.report}",
        highlight=False,
        soft_wrap=True,
    )
    if stop.signal is not None and summary.seeds < seeds:
        console.print("interrupted; the next run goes on from here")
        return 128 + stop.signal
    return 1 if summary.violations else 0


def _greet(console: Console, files: Files, totals: Totals) -> None:
    seeds = totals.summary.seeds
    if seeds:
        text = f"code {totals.code}: goes on after {seeds:,} seeds"
    elif other := files.other_code(totals.code):
        text = (
            f"code {totals.code} is not {other}, which {files.report} is about: starts over; "
            f"what was done on {other} stays in {files.state(other)}"
        )
    else:
        text = f"code {totals.code}: starts"
    console.print(text, highlight=False, soft_wrap=True)


def _play(
    console: Console, files: Files, totals: Totals, seeds: int, jobs: int, stop: Stop
) -> None:
    began, before, saved = time.monotonic(), totals.seconds, time.monotonic()
    seeds_before = totals.summary.seeds
    with Board(console) as board, Workers(jobs) as workers:
        bar = board.add("random worlds", seeds)
        bar.done = seeds_before
        starts = count(FIRST + seeds_before, CHUNK)
        last = FIRST + seeds
        pending: deque[Future[Done[Summary]]] = deque()

        while True:
            while not stop and len(pending) < _AHEAD * jobs and (start := next(starts)) < last:
                chunk = range(start, min(start + CHUNK, last))
                pending.append(workers.submit(_play_chunk, chunk))
            while stop and pending and pending[-1].cancel():
                pending.pop()
            if not pending:
                break
            wait([pending[0]], _REFRESH_S)
            while pending and pending[0].done():
                part = pending.popleft().result().result
                totals.summary.merge(part)
                totals.seconds = before + time.monotonic() - began
                _tell_violations(board, part)
            bar.done = totals.summary.seeds
            bar.note = _note(totals, bar.done - seeds_before, bar.total - bar.done, began)
            if time.monotonic() - saved > _SAVE_EVERY_S:
                saved = time.monotonic()
                files.save(totals, seeds)
            board.refresh()


def _play_chunk(seeds: range, tell: Tell) -> Summary:
    del tell
    return run_seeds(seeds)


def _tell_violations(board: Board, part: Summary) -> None:
    for seed, violation in sorted(part.violations.items()):
        board.say(f"seed {seed}: {violation} (piton simulate --replay {seed})", "red")


def _note(totals: Totals, played: int, left: int, began: float) -> str:
    """Rate and time left by this run's speed; violations of all runs."""
    violations = f"{len(totals.summary.violations)} violations"
    if not played:
        return violations
    rate = played / (time.monotonic() - began)
    return f"{rate:.0f}/s, {duration(left / rate)} left, {violations}"
