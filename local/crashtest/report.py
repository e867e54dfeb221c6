"""What a sweep over the crash points found."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from local.crashtest.points import Point
from piton.domain.canonical import Json


@dataclass(frozen=True, slots=True)
class Crash:
    """A crash point in words: which process died on which side of which call."""

    point: Point
    process: str
    call: str

    def __str__(self) -> str:
        return f"{self.process} dies {self.point.side} {self.call} (call {self.point.number})"


@dataclass(frozen=True, slots=True)
class Failure:
    """Crashes after which the workflow did not end as it had to."""

    crashes: tuple[Crash, ...]
    problem: str

    @property
    def at(self) -> str:
        """The crash points as `piton crashtest --at` takes them."""
        return " ".join(str(crash.point) for crash in self.crashes)


@dataclass
class Report:
    """Counts of a sweep. `calls` are those of the clean run, which ended as `ended` says.

    `unstable` are nodes whose results differ between clean runs, so that they are not compared.
    """

    workflow: str
    ended: str
    calls: int
    unstable: tuple[str, ...] = ()
    crash_points: int = 0
    survived: int = 0
    pairs: int = 0
    pairs_survived: int = 0
    pairs_skipped: int = 0
    failures: list[Failure] = field(default_factory=list)

    def add(self, failure: Failure | None, *, pair: bool) -> None:
        """Count one crash point, or one pair."""
        if pair:
            self.pairs += 1
            self.pairs_survived += failure is None
        else:
            self.crash_points += 1
            self.survived += failure is None
        if failure is not None:
            self.failures.append(failure)

    def to_json(self, command: str = "piton crashtest WORKFLOW") -> dict[str, Json]:
        """Return the report as JSON data. `command` is what was called, to replay a failure."""
        return {
            "workflow": self.workflow,
            "ended": self.ended,
            "calls": self.calls,
            "unstable": list(self.unstable),
            "crash_points": self.crash_points,
            "survived": self.survived,
            "pairs": self.pairs,
            "pairs_survived": self.pairs_survived,
            "pairs_skipped": self.pairs_skipped,
            "failures": [
                {
                    "point": failure.at,
                    "crashes": [str(crash) for crash in failure.crashes],
                    "problem": failure.problem,
                    "replay": f"{command} --at {failure.at}",
                }
                for failure in self.failures
            ],
        }

    def write(self, path: Path, command: str) -> None:
        """Write the report as a file, with its folder."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.to_json(command), indent=2) + "\n", encoding="utf-8")


def command_line(words: list[str]) -> str:
    """Return the words of a command as a shell takes them."""
    return shlex.join(["piton", "crashtest", *words])
