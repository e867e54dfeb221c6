"""What a sweep over the crash points of the deployed stacks found."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from local.crashtest.deployed.traps import Run, Trap
from piton.domain.canonical import Json


@dataclass(frozen=True, slots=True)
class DeployedFailure:
    """Kills after which the workflow did not end as it had to."""

    kills: Sequence[Trap]
    execution_id: str
    problem: str

    def __str__(self) -> str:
        kills = ", then ".join(str(trap) for trap in self.kills) or "no kill"
        return f"{kills}: {self.problem} ({self.execution_id})"


@dataclass
class DeployedReport:
    """Counts of a sweep over `calls` calls, in a run that ended as `ended` says.

    `points` are executions in which a process was killed at its call, `pairs` those in which the
    watchdog was killed too, at a write that recovered from the first kill. `unreached` are crash
    points whose call the run did not make again: reads that depend on what a process remembers.
    """

    workflow: str
    ended: str
    calls: int
    points: int = 0
    survived: int = 0
    pairs: int = 0
    pairs_survived: int = 0
    killed: Counter[str] = field(default_factory=Counter)
    unreached: list[str] = field(default_factory=list)
    failures: list[DeployedFailure] = field(default_factory=list)
    wall_s: float = 0.0

    def add(self, run: Run, execution_id: str, problem: str | None) -> None:
        """Count one execution, and its crash points if its processes died at all of them."""
        kills = run.traps[: run.sprung]
        self.killed.update(trap.spot.function for trap in kills)
        if run.is_through and len(kills) > 1:
            self.pairs += 1
            self.pairs_survived += problem is None
        elif run.is_through:
            self.points += 1
            self.survived += problem is None
        if problem is not None:
            self.failures.append(DeployedFailure(kills, execution_id, problem))

    def to_json(self) -> dict[str, Json]:
        """Return the report as JSON data."""
        return {
            "workflow": self.workflow,
            "ended": self.ended,
            "calls": self.calls,
            "crash_points": self.points,
            "survived": self.survived,
            "pairs": self.pairs,
            "pairs_survived": self.pairs_survived,
            "kills": sum(self.killed.values()),
            "kills_by_function": dict(sorted(self.killed.items())),
            "unreached": list(self.unreached),
            "failures": [str(failure) for failure in self.failures],
            "wall_s": round(self.wall_s, 1),
        }

    def write(self, path: Path) -> None:
        """Write the report as a file, with its folder."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.to_json(), indent=2) + "\n", encoding="utf-8")
