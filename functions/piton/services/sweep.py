"""The watchdog: one pass over the executions that are due.

Every live execution is on the due list from its birth until long after its end, so whatever a
crash or a lost message leaves behind is found here and gets a definite disposition.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from piton.domain.errors import Bug, Retry, Stale
from piton.domain.rows import ExecutionRef, ExecutionRow, LogEntry, NodeRow, Value
from piton.domain.settings import Settings
from piton.domain.stall import next_due_at, resend_due_at, stall_reason
from piton.domain.status import ExecutionStatus, NodeStatus, Reason
from piton.ports import (
    Applied,
    Clock,
    Counter,
    DueExecution,
    Metrics,
    Store,
    Timer,
    WorkflowStore,
)
from piton.services.advance import Advance
from piton.services.dispatching import Dispatching, Disposition
from piton.services.drain import Drain
from piton.services.frontier import Frontier
from piton.services.run import Run, load_live_run
from piton.storage import keys
from piton.storage import operations as op
from piton.storage.algebra import Operation
from piton.storage.views import NodeView

_log = logging.getLogger("piton.sweep")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SweepReport:
    """How many executions one sweep took, and how many of them had a step that failed."""

    swept: int
    failed: int


class Sweep:
    """Finds and repairs what is stuck."""

    def __init__(
        self,
        store: Store,
        workflows: WorkflowStore,
        frontier: Frontier,
        advance: Advance,
        dispatching: Dispatching,
        drain: Drain,
        clock: Clock,
        metrics: Metrics,
        settings: Settings,
    ) -> None:
        self._store = store
        self._workflows = workflows
        self._frontier = frontier
        self._advance = advance
        self._dispatching = dispatching
        self._drain = drain
        self._clock = clock
        self._metrics = metrics
        self._settings = settings

    def run(self, limit: int, time_left_ms: Callable[[], int]) -> SweepReport:
        """Sweep at most `limit` due executions, oldest first, while there is time.

        One execution's fault never keeps another from being swept. Raises `Retry` only when the
        due list itself cannot be read.
        """
        started = self._clock.now_ms()
        swept = failed = 0
        for due in self._store.due(started, limit):
            if time_left_ms() < self._settings.handler_timeout_ms // 4:
                break
            self._metrics.time(Timer.SWEEP_LAG, max(0, started - due.due_at))
            swept += 1
            failed += not self._sweep_isolated(due, started)
        if swept:
            self._metrics.count(Counter.SWEPT, swept)
            self._metrics.time(Timer.SWEEP_TIME, self._clock.now_ms() - started)
        return SweepReport(swept, failed)

    def _sweep_isolated(self, due: DueExecution, started: int) -> bool:
        steps = _Steps(self._store, self._metrics, due.ref)
        steps.attempt("sweep", partial(self._sweep_one, due, started, steps))
        return not steps.failed

    def _sweep_one(self, due: DueExecution, started: int, steps: _Steps) -> None:
        execution = self._read(due, started)
        if execution is None or execution.due_at != due.due_at:
            return
        # First of all, so that an execution that kills the watchdog cannot block the list.
        parked = execution.parked is not None
        pause = self._settings.sweep_slowest_ms if parked else self._settings.sweep_latest_ms
        seen = self._defer(execution.ref, due.due_at, started + pause)
        if seen is None:
            return
        if execution.terminal:
            self._sweep_ended(execution, seen, started)
            return
        rows = self._sweep_live(execution, steps)
        if rows is not None:
            self._defer(execution.ref, seen, next_due_at(execution, rows, started, self._settings))

    def _read(self, due: DueExecution, started: int) -> ExecutionRow | None:
        try:
            return self._store.get_execution(due.ref)
        except Bug:
            # A row that cannot be read must not stay at the head of the list either.
            self._defer(due.ref, due.due_at, started + self._settings.sweep_slowest_ms)
            raise

    def _sweep_ended(self, execution: ExecutionRow, seen: int, started: int) -> None:
        live = self._drain.cancel_live(execution.ref, self._store.query_nodes(execution.ref))
        retire_at = (execution.finished_at or 0) + self._settings.drain_ms
        if live == 0 and started >= retire_at:
            outcome = self._store.apply(op.RETIRE, keys.meta(execution.ref), {"seen_due_at": seen})
            if isinstance(outcome, Applied):
                self._metrics.count(Counter.RETIRED)
        elif live == 0:
            self._defer(execution.ref, seen, retire_at)

    def _sweep_live(self, execution: ExecutionRow, steps: _Steps) -> list[NodeRow] | None:
        """Repair a live execution. Returns its rows as read, None once it has ended.

        Its end comes at its time even when nothing else about it can be read any more.
        """
        now = self._clock.now_ms()
        if execution.deadline is not None and execution.deadline <= now:
            steps.attempt("deadline", partial(self._pass_deadline, execution, steps))
            return None if not steps.failed else []
        rows = steps.attempt("repair", partial(self._repair, execution, steps))
        if execution.ends_by <= now and (rows is not None or steps.failed):
            steps.attempt("timeout", partial(self._time_out, execution, steps))
        return rows

    def _repair(self, execution: ExecutionRow, steps: _Steps) -> list[NodeRow] | None:
        ref = execution.ref
        if execution.started_at is None:
            steps.attempt("start", partial(self._advance.start, ref))
        run = load_live_run(self._store, self._workflows, ref)
        if run.execution.status is ExecutionStatus.PENDING:
            # It could not be started, and no root may be queued before the execution runs.
            return []
        rows = self._store.query_nodes(ref)
        ended = steps.attempt("lost frontier", partial(self._lost_frontier, run, rows))
        if ended:
            return None
        steps.attempt("lost dispatch", partial(self._lost_dispatches, run, rows))
        steps.attempt("stalled nodes", partial(self._stalled_nodes, run, rows))
        return rows

    def _lost_frontier(self, run: Run, rows: Sequence[NodeRow]) -> bool:
        this = self._frontier.schedule_frontier(run, rows, {row.ordinal: row for row in rows})
        if this.changes:
            recovered = Counter.FINALISE_RECOVERED if this.ended else Counter.FRONTIER_RECOVERED
            self._metrics.count(recovered)
        return this.ended

    def _lost_dispatches(self, run: Run, rows: Sequence[NodeRow]) -> None:
        now = self._clock.now_ms()
        for row in rows:
            if row.status is not NodeStatus.QUEUED or now < resend_due_at(row, self._settings):
                continue
            if self._dispatching.send_again(run.ref, row) and (
                row.sends + 1 >= self._settings.resends_before_parking
            ):
                park(self._store, self._metrics, run.ref, Reason.RESENDS_EXHAUSTED)

    def _stalled_nodes(self, run: Run, rows: Sequence[NodeRow]) -> None:
        for row in rows:
            if row.status is not NodeStatus.RUNNING:
                continue
            reason = stall_reason(row, self._clock.now_ms(), self._settings)
            if reason is None:
                continue
            disposition = self._dispatching.settle_failure(
                run.ref,
                row,
                reason.value,
                retry=op.RETRY_STALLED,
                fail=op.FAIL_STALLED,
                ends_by=run.execution.ends_by,
                default_policy=run.graph.nodes[row.ordinal].retry,
                seen_lease=row.lease_until,
            )
            if disposition is not Disposition.STALE:
                self._metrics.count(Counter.STALL_RECOVERED)

    def _pass_deadline(self, execution: ExecutionRow, steps: _Steps) -> None:
        self._settle_then(
            execution, steps, op.PASS_DEADLINE, Reason.DEADLINE_PASSED, Counter.DEADLINE_PASSED
        )

    def _time_out(self, execution: ExecutionRow, steps: _Steps) -> None:
        self._settle_then(execution, steps, op.TIME_OUT, Reason.TIMED_OUT, Counter.TIMED_OUT)

    def _settle_then(
        self,
        execution: ExecutionRow,
        steps: _Steps,
        operation: Operation,
        reason: Reason,
        counter: Counter,
    ) -> None:
        """Take in everything that had finished in time; end the execution if that did not.

        What the store does not tell now, the next sweep takes in. What cannot be read at all
        keeps no execution alive.
        """
        if steps.attempt("settle", partial(self._settles, execution)) or steps.unanswered:
            return
        now = self._clock.now_ms()
        args: dict[str, Value] = {
            "now": now,
            "due_at": now + self._settings.drain_ms,
            "reason": reason.value,
            "log": LogEntry(str(operation.transition), now, reason=reason.value).to_value(),
        }
        if isinstance(self._store.apply(operation, keys.meta(execution.ref), args), Applied):
            self._metrics.count(counter)
            self._metrics.time(Timer.JOB_AGE, now - execution.created_at)

    def _settles(self, execution: ExecutionRow) -> bool:
        """Pass over the frontier, dispatching nothing, until no write is left or it has ended."""
        if execution.started_at is None:
            return False
        run = load_live_run(self._store, self._workflows, execution.ref)
        fresh = {row.ordinal: row for row in self._store.query_nodes(run.ref)}
        known: dict[int, NodeRow] = {}
        # Each pass goes on from the nodes that the one before has decided, so this ends.
        while fresh:
            known |= fresh
            this = self._frontier.schedule_frontier(run, fresh.values(), known, dispatching=False)
            if this.ended:
                return True
            if not this.decided:
                return False
            touched = {*this.decided, run.graph.end}
            fresh = self._store.get_nodes(run.ref, touched, NodeView.CONTROL)
        return False

    def _defer(self, ref: ExecutionRef, seen: int, due_at: int) -> int | None:
        """Move the execution on the due list. None when another sweep has moved it."""
        if due_at == seen:
            return seen
        outcome = self._store.apply(
            op.DEFER, keys.meta(ref), {"seen_due_at": seen, "due_at": due_at}
        )
        return due_at if isinstance(outcome, Applied) else None


class _Steps:
    """Runs the steps of one execution's sweep so that none keeps the next from running."""

    def __init__(self, store: Store, metrics: Metrics, ref: ExecutionRef) -> None:
        self._store = store
        self._metrics = metrics
        self._ref = ref
        self.failed = False
        self.unanswered = False

    def attempt(self, step: str, work: Callable[[], T]) -> T | None:
        """Run one step and return what it returns, None when it fails.

        A step that the store did not answer is tried by the next sweep. Any other fault is one
        of the engine or of stored data: the execution is parked, which raises an alarm.
        """
        try:
            return work()
        except Stale:
            return None
        except Retry:
            self.unanswered = True
            self._fails(step)
        except Exception:  # noqa: BLE001
            # Named outcome: SWEEP_FAILED on this execution; the other executions go on.
            self._fails(step)
            self._park()
        return None

    def _fails(self, step: str) -> None:
        self.failed = True
        self._metrics.count(Counter.SWEEP_ERROR)
        _log.exception("sweep step failed", extra={"step": step, **_names(self._ref)})

    def _park(self) -> None:
        try:
            park(self._store, self._metrics, self._ref, Reason.SWEEP_FAILED)
        except Retry:
            _log.warning("could not park", extra=_names(self._ref))


def park(store: Store, metrics: Metrics, ref: ExecutionRef, reason: Reason) -> None:
    """Mark a running execution for an operator; it is swept on, at the slowest cadence."""
    outcome = store.apply(op.PARK, keys.meta(ref), {"reason": reason.value})
    if isinstance(outcome, Applied):
        _log.error("execution parked", extra={"reason": reason.value, **_names(ref)})
        metrics.count(Counter.PARKED)


def _names(ref: ExecutionRef) -> dict[str, str]:
    return {"tenant": ref.tenant, "execution_id": ref.execution_id}
