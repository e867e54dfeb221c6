"""What the step runner does with each event of the advance queue."""

from __future__ import annotations

from piton.domain.errors import Stale
from piton.domain.rows import ExecutionRef, ExecutionRow, LogEntry, NodeRow
from piton.domain.status import ExecutionStatus, NodeStatus
from piton.ports import Applied, Clock, Counter, Metrics, Store, WorkflowStore
from piton.services.dispatching import Dispatching
from piton.services.drain import Drain
from piton.services.frontier import Frontier
from piton.services.run import Run, load_graph, load_live_run
from piton.storage import keys
from piton.storage import operations as op
from piton.storage.views import NodeView


class Advance:
    """Starts, advances, resumes and drains executions.

    Every method may be called any number of times, in any order. All raise `Stale` when the
    event speaks about a state that has passed and `Retry` when the store does not answer.
    """

    def __init__(
        self,
        store: Store,
        workflows: WorkflowStore,
        frontier: Frontier,
        dispatching: Dispatching,
        drain: Drain,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._store = store
        self._workflows = workflows
        self._frontier = frontier
        self._dispatching = dispatching
        self._drain = drain
        self._clock = clock
        self._metrics = metrics

    def start(self, ref: ExecutionRef) -> None:
        """Bring a pending execution to running, then queue its roots (E2).

        In this order: a root that ran to its end before the execution is running could not
        finish it.
        """
        execution = self._store.get_execution(ref)
        if execution is None or execution.terminal:
            raise Stale(f"{ref.execution_id} has ended or is gone")
        # Before the graph is loaded: one that cannot be read must not keep the execution pending,
        # because only a running one can time out.
        if self._starts(execution):
            self._frontier.queue_roots(Run(execution, load_graph(self._workflows, execution)))
        else:
            self._pass_over_all(ref)

    def node_ended(self, ref: ExecutionRef, ordinal: int) -> None:
        """Advance from one ended node."""
        run = load_live_run(self._store, self._workflows, ref)
        row = self._store.get_nodes(ref, [ordinal], NodeView.RESULT).get(ordinal)
        if row is None or not row.terminal or row.status is NodeStatus.CANCELLED:
            raise Stale(f"{ref.execution_id}/{ordinal} has not ended")
        self._frontier.schedule_frontier(run, [row])

    def resume(self, ref: ExecutionRef) -> None:
        """Pass over the whole execution and send again every dispatch that is due (E8, N9).

        Nodes that are running keep their lease; nodes that have ended stay as they are.
        """
        now = self._clock.now_ms()
        for row in self._pass_over_all(ref):
            if row.status is NodeStatus.QUEUED and row.not_before <= now:
                self._dispatching.send_again(ref, row)

    def ended(self, ref: ExecutionRef) -> None:
        """Cancel what is left queued under an ended execution."""
        execution = self._store.get_execution(ref)
        if execution is None or not execution.terminal:
            raise Stale(f"{ref.execution_id} has not ended")
        self._drain.cancel_live(ref, self._store.query_nodes(ref))

    def _starts(self, execution: ExecutionRow) -> bool:
        if execution.status is not ExecutionStatus.PENDING:
            return False
        now = self._clock.now_ms()
        outcome = self._store.apply(
            op.START, keys.meta(execution.ref), {"now": now, "log": LogEntry("E2", now).to_value()}
        )
        if isinstance(outcome, Applied):
            self._metrics.count(Counter.EXECUTION_STARTED)
        return isinstance(outcome, Applied)

    def _pass_over_all(self, ref: ExecutionRef) -> list[NodeRow]:
        run = load_live_run(self._store, self._workflows, ref)
        rows = self._store.query_nodes(ref)
        self._frontier.schedule_frontier(run, rows, {row.ordinal: row for row in rows})
        return rows
