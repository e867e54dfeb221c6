"""The judgement over a run: a pure function of what was planned, done to it and seen of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from local.demo import checks
from local.demo.ledger import (
    BodyStart,
    Drop,
    Evidence,
    ExecutionRecord,
    Expected,
    Kill,
    Resume,
)
from piton.domain.canonical import Json
from piton.domain.status import ExecutionStatus

_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class ExecutionVerdict:
    """The figures of one execution."""

    id: str
    status: ExecutionStatus
    nodes: int
    body_runs: int
    terminal_events: int

    def to_json(self) -> dict[str, Json]:
        """Return the entry of the report."""
        return {
            "id": self.id,
            "status": self.status.value,
            "nodes": self.nodes,
            "body_runs": self.body_runs,
            "terminal_events": self.terminal_events,
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """`ok` when `problems` is empty. Durations are seconds, None when there was no such fault."""

    executions: tuple[ExecutionVerdict, ...]
    finished_nodes_rerun: int
    lost: int
    double_completions: int
    kill_to_next_claim_s: float | None
    lost_signal_to_advance_s: float | None
    metrics: Mapping[str, float]
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def to_json(self, wall_s: float) -> dict[str, Json]:
        """Return the report."""
        return {
            "ok": self.ok,
            "executions": [execution.to_json() for execution in self.executions],
            "finished_nodes_rerun": self.finished_nodes_rerun,
            "lost": self.lost,
            "double_completions": self.double_completions,
            "kill_to_next_claim_s": self.kill_to_next_claim_s,
            "lost_signal_to_advance_s": self.lost_signal_to_advance_s,
            "wall_s": wall_s,
            "metrics": dict(self.metrics),
        }


def judge(
    evidence: Evidence,
    expected: Mapping[str, Expected],
    *,
    kills: Sequence[Kill] = (),
    drops: Sequence[Drop] = (),
    resumes: Sequence[Resume] = (),
    failures: Sequence[str] = (),
) -> Verdict:
    """Judge a run. `expected` has an entry for every execution that was started.

    `failures` are what went wrong in the run itself; a run that has any is not ok.
    """
    by_execution = checks.Books(evidence)
    reruns = list(by_execution.each(checks.reruns))
    lost = [
        *(f"{id_} was started and is gone" for id_ in expected.keys() - by_execution.ids),
        *by_execution.each(checks.lost),
    ]
    doubles = list(by_execution.each(checks.doubles))
    claims = [_next_claim(evidence.bodies, kill) for kill in kills]
    advances = [_advance_after(evidence.records, drop) for drop in drops]
    problems = [
        *failures,
        *reruns,
        *lost,
        *doubles,
        *by_execution.each(checks.mismatches),
        *checks.unexpected(evidence.records, expected),
        *checks.unhealed(evidence.metrics, kills, claims, drops, advances),
        *checks.reruns_after_resume(by_execution, kills, resumes),
    ]
    return Verdict(
        executions=tuple(_figures(book) for book in by_execution.books),
        finished_nodes_rerun=len(reruns),
        lost=len(lost),
        double_completions=len(doubles),
        kill_to_next_claim_s=_longest(claims),
        lost_signal_to_advance_s=_longest(advances),
        metrics=evidence.metrics,
        problems=_shortened(problems),
    )


def _figures(book: checks.Book) -> ExecutionVerdict:
    return ExecutionVerdict(
        id=book.id,
        status=book.record.status,
        nodes=len(book.record.nodes),
        body_runs=sum(len(starts) for starts in book.starts.values()),
        terminal_events=len(book.terminal),
    )


def _next_claim(bodies: Iterable[BodyStart], kill: Kill) -> float | None:
    """Seconds from the kill until its last victim ran again; None if one never did."""
    seconds: list[float] = []
    for victim in kill.victims:
        later = [
            start.at
            for start in bodies
            if (start.execution_id, start.node_id) == (victim.execution_id, victim.node_id)
            and start.fence > victim.fence
        ]
        if not later:
            return None
        seconds.append((min(later) - kill.at) / 1000)
    return max(seconds, default=None)


def _advance_after(records: Iterable[ExecutionRecord], drop: Drop) -> float | None:
    """Seconds from the drop until the first successor was queued."""
    for record in records:
        if record.id == drop.execution_id:
            queued = [
                at for id_ in drop.successors if (at := record.node(id_).queued_at) is not None
            ]
            return (min(queued) - drop.at) / 1000 if queued else None
    return None


def _longest(seconds: Iterable[float | None]) -> float | None:
    return max((each for each in seconds if each is not None), default=None)


def _shortened(problems: Sequence[str]) -> tuple[str, ...]:
    hidden = len(problems) - _SHOWN
    more = (f"and {hidden} more",) if hidden > 0 else ()
    return (*problems[:_SHOWN], *more)
