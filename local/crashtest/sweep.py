"""All crash points of a workflow: each by itself, then pairs of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from local.crashtest.compare import changing_results, difference
from local.crashtest.ending import Ending
from local.crashtest.points import Point, distinct_points, points_of
from local.crashtest.report import Crash, Failure, Report
from local.crashtest.subject import Subject
from local.crashtest.trial import Trial, attempt
from local.simulator.strands import Strands
from piton.storage.algebra import Operation

MOST_PAIRS: Final = 2000
"""How many pairs are run unless the caller says otherwise."""

_OTHER_SEED: Final = "crashtest, again"


class CrashtestError(Exception):
    """The workflow cannot be tested: its clean run fails, or never is the same twice."""


Advanced = Callable[[Report, int], None]
"""Told of the report after each run, and how many runs there will be in this part."""


def run(
    subject: Subject,
    *,
    most_pairs: int = 0,
    mutations: Mapping[str, Operation] | None = None,
    advanced: Advanced = lambda _report, _total: None,
) -> Report:
    """Crash at every point of the workflow, and at pairs of points, up to `most_pairs`.

    A second crash may come at any call after the first one, those that recover included. Beyond
    `most_pairs` an even share of all pairs is run. Raises `CrashtestError`.
    """
    strands = Strands()
    try:
        sweep = _Sweep(subject, strands, mutations or {}, advanced)
        firsts = sweep.singly(keeping=most_pairs > 0)
        if most_pairs:
            sweep.in_pairs(firsts, most_pairs)
        return sweep.report
    finally:
        strands.close()


def replay(subject: Subject, points: Sequence[Point]) -> tuple[Failure | None, tuple[str, ...]]:
    """Crash at these points once more: what is wrong then, and everything that happened.

    Raises `CrashtestError`, also when a point is never reached.
    """
    strands = Strands()
    try:
        sweep = _Sweep(subject, strands, {}, lambda _report, _total: None)
        failure, trial = sweep.crash(points, trace=True)
        if trial.struck < len(points):
            raise CrashtestError(f"this run makes only {len(trial.calls)} calls")
        return failure, trial.trace
    finally:
        strands.close()


@dataclass
class _Sweep:
    subject: Subject
    strands: Strands
    mutations: Mapping[str, Operation]
    advanced: Advanced
    report: Report = field(init=False)

    def __post_init__(self) -> None:
        self._clean = attempt(self.subject, self.strands, mutations=self.mutations)
        self._ending = _ending(self._clean)
        again = attempt(self.subject, self.strands, mutations=self.mutations)
        if again.calls != self._clean.calls:
            raise CrashtestError("two runs make different calls: the bodies are not repeatable")
        other = attempt(self.subject, self.strands, seed=_OTHER_SEED, mutations=self.mutations)
        self._unstable = changing_results(self._ending, _ending(again))
        self._unstable |= changing_results(self._ending, _ending(other))
        self.report = Report(
            self.subject.workflow_id,
            str(self._ending),
            len(self._clean.calls),
            tuple(sorted(self._unstable)),
        )

    def singly(self, *, keeping: bool) -> list[tuple[Point, Trial]]:
        """Crash at every point. Returns the runs worth a second crash, if they are kept."""
        kept: list[tuple[Point, Trial]] = []
        calls = self._clean.calls
        for number, call in enumerate(calls, 1):
            distinct = distinct_points(number, call)
            for point in points_of(number):
                failure, trial = self.crash((point,))
                self.report.add(failure, pair=False)
                self.advanced(self.report, 2 * len(calls))
                if keeping and failure is None and point in distinct:
                    kept.append((point, trial))
        return kept

    def in_pairs(self, firsts: Sequence[tuple[Point, Trial]], most: int) -> None:
        """Crash again after each of the first crashes."""
        pairs = [
            (first, second)
            for first, trial in firsts
            for number, call in enumerate(trial.calls[first.number :], first.number + 1)
            for second in distinct_points(number, call)
        ]
        count = min(most, len(pairs))
        self.report.pairs_skipped = len(pairs) - count
        for index in range(count):
            failure, _ = self.crash(pairs[index * len(pairs) // count])
            self.report.add(failure, pair=True)
            self.advanced(self.report, count)

    def crash(
        self, points: Sequence[Point], *, trace: bool = False
    ) -> tuple[Failure | None, Trial]:
        """Run with crashes at `points` and say what is wrong, if anything is."""
        trial = attempt(self.subject, self.strands, points, mutations=self.mutations, trace=trace)
        problem = self._problem(points, trial)
        if problem is None:
            return None, trial
        crashes = [_crash(point, trial) for point in points if point.number <= len(trial.calls)]
        return Failure(tuple(crashes), problem), trial

    def _problem(self, points: Sequence[Point], trial: Trial) -> str | None:
        if trial.ending is None:
            return trial.violation
        if trial.struck < len(points):
            return "the run took another course before the crash: its bodies are not repeatable"
        return difference(self._ending, trial.ending, self._unstable)


def _ending(clean: Trial) -> Ending:
    if clean.ending is None:
        raise CrashtestError(f"the run without a crash already fails: {clean.violation}")
    return clean.ending


def _crash(point: Point, trial: Trial) -> Crash:
    call = trial.calls[point.number - 1]
    return Crash(point, call.role.value, call.what)
