"""`schedule_frontier`: from ended nodes to what may run next.

Written once; a finished node passes itself, resume and the watchdog pass every row. Each step is
a guarded write on one row, so any number of callers may work on the same execution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from piton.domain.canonical import Json
from piton.domain.frontier import Condition, ConditionFault, Fatal, evaluate_edges
from piton.domain.graph import Node, NodeKind
from piton.domain.rows import LogEntry, NodeRow, Value
from piton.domain.settings import Settings
from piton.domain.status import NodeStatus, Reason
from piton.ports import Applied, Clock, Counter, Metrics, Store, Timer
from piton.services.payloads import PayloadMissing, Payloads
from piton.services.run import Run
from piton.storage import keys
from piton.storage import operations as op
from piton.storage.algebra import Operation
from piton.storage.views import NodeView

Spread = Callable[[Sequence[Callable[[], None]]], None]
"""Runs independent steps, one after another or side by side; returns when all are done."""


def in_turn(steps: Sequence[Callable[[], None]]) -> None:
    """Run steps one after another."""
    for step in steps:
        step()


@dataclass(slots=True)
class FrontierPass:
    """One call of `schedule_frontier`: what it looks at and what it has changed so far.

    `decided` are the nodes, by ordinal, that it has moved on, or somebody else just before it;
    `ended` is set once this pass has ended the execution.
    """

    run: Run
    known: Mapping[int, NodeRow] | None = None
    dispatching: bool = True
    changes: int = 0
    decided: list[int] = field(default_factory=list)
    ended: bool = False

    def row(self, ordinal: int) -> NodeRow | None:
        """The row as this pass knows it, None when unknown or absent."""
        return self.known.get(ordinal) if self.known is not None else None


class Frontier:
    """Decides and dispatches what follows from ended nodes."""

    def __init__(
        self,
        store: Store,
        payloads: Payloads,
        clock: Clock,
        metrics: Metrics,
        settings: Settings,
        condition: Condition,
        spread: Spread = in_turn,
    ) -> None:
        self._store = store
        self._payloads = payloads
        self._clock = clock
        self._metrics = metrics
        self._settings = settings
        self._condition = condition
        self._spread = spread

    def schedule_frontier(
        self,
        run: Run,
        from_nodes: Iterable[NodeRow],
        known: Mapping[int, NodeRow] | None = None,
        *,
        dispatching: bool = True,
    ) -> FrontierPass:
        """Resolve the out-edges of ended nodes and start, skip or finish what becomes ready.

        `run` was read before, present and not terminal. `known` holds every row of the execution
        when the caller passes over all of it: roots and the end gate are then looked at too, and
        edges that are already resolved cost nothing. Without `dispatching` no task is queued.
        """
        this = FrontierPass(run, known, dispatching)
        if known is not None:
            self._queue_roots(this)
        # Failures first: when one of them is fatal, nothing behind the others is dispatched.
        for row in sorted(from_nodes, key=lambda row: row.status is not NodeStatus.FAILED):
            if not this.ended and row.terminal and row.status is not NodeStatus.CANCELLED:
                self._pass_on(this, row)
        if known is not None and not this.ended:
            self._finalise_if_ready(this, known.get(run.graph.end))
        return this

    def queue_roots(self, run: Run) -> None:
        """Queue every root of an execution that has just begun to run."""
        self._queue_roots(FrontierPass(run))

    def _queue_roots(self, this: FrontierPass) -> None:
        if not this.dispatching:
            return
        nodes = this.run.graph.nodes
        waiting = [
            nodes[ordinal]
            for ordinal in this.run.graph.roots
            if (row := this.row(ordinal)) is None or row.status is NodeStatus.PENDING
        ]
        self._spread([partial(self._decide, this, op.QUEUE_ROOT, node) for node in waiting])

    def _pass_on(self, this: FrontierPass, row: NodeRow) -> None:
        if self._all_targets_decided(this, row):
            return
        outcome = evaluate_edges(
            this.run.graph, row, partial(self._result, this.run, row), self._condition
        )
        if isinstance(outcome, Fatal):
            self._fail_execution(this, row, outcome.reason)
            return
        self._spread(
            [
                partial(self._resolve, this, row.ordinal, target, taken=taken)
                for target, taken in outcome.taken.items()
            ]
        )

    def _all_targets_decided(self, this: FrontierPass, row: NodeRow) -> bool:
        # A failed node is always evaluated: it may be fatal, whatever its targets are.
        if this.known is None or row.status is NodeStatus.FAILED:
            return False
        targets = {edge.target for edge in this.run.graph.out_edges[row.ordinal]}
        return all(
            (target_row := this.row(target)) is not None
            and target_row.status is not NodeStatus.PENDING
            for target in targets
        )

    def _result(self, run: Run, row: NodeRow) -> Json:
        full = row
        if row.result is None and row.result_ref is None:
            full = self._store.get_nodes(run.ref, [row.ordinal], NodeView.RESULT)[row.ordinal]
        try:
            return self._payloads.load_result(full)
        except PayloadMissing as missing:
            raise ConditionFault("the result is not there") from missing

    def _resolve(self, this: FrontierPass, source: int, target: int, *, taken: bool) -> None:
        row = this.row(target)
        if row is not None and row.status is not NodeStatus.PENDING:
            return
        node = this.run.graph.nodes[target]
        degree = this.run.graph.in_degree(target)
        if degree == 1:
            self._decide(this, _single(node, taken=taken), node, source=source)
            return
        if row is not None and source in row.resolved:
            resolved, declined = len(row.resolved), len(row.declined)
        else:
            outcome = self._store.apply(
                op.RESOLVE_TAKEN if taken else op.RESOLVE_DECLINED,
                keys.node(this.run.ref, target),
                {
                    "node_id": node.id,
                    "expires_at": this.run.execution.expires_at,
                    "source": source,
                },
            )
            if not isinstance(outcome, Applied):
                self._decided_by_another(this, node)
                return
            this.changes += 1
            # A declined set is returned only by a write that touched it; when this edge was
            # taken, it cannot hold every source.
            resolved = _size(outcome.returned.get("node_resolved"))
            declined = 0 if taken else _size(outcome.returned.get("node_declined"))
        if resolved == degree:
            self._decide(this, _join(node, none_taken=declined == degree), node, in_degree=degree)

    def _decide(
        self,
        this: FrontierPass,
        operation: Operation,
        node: Node,
        *,
        source: int | None = None,
        in_degree: int | None = None,
    ) -> None:
        queues = operation.transition == "N1"
        if queues and not this.dispatching:
            return
        now = self._clock.now_ms()
        entry = LogEntry(str(operation.transition), now)
        args: dict[str, Value] = {
            "node_id": node.id,
            "expires_at": this.run.execution.expires_at,
            "scope": this.run.scope,
            "now": now,
            "source": source,
            "in_degree": in_degree,
            "pool": node.pool if queues else None,
            "log": (LogEntry("N1", now, fence=1, attempt=1) if queues else entry).to_value(),
        }
        outcome = self._store.apply(operation, keys.node(this.run.ref, node.ordinal), args)
        if not isinstance(outcome, Applied):
            self._decided_by_another(this, node)
            return
        this.changes += 1
        this.decided.append(node.ordinal)
        if node.kind is NodeKind.END:
            self._complete_execution(this)

    def _decided_by_another(self, this: FrontierPass, node: Node) -> None:
        this.decided.append(node.ordinal)
        # Whoever decided the end gate may have died before it finalised.
        if node.kind is NodeKind.END:
            rows = self._store.get_nodes(this.run.ref, [node.ordinal], NodeView.CONTROL)
            self._finalise_if_ready(this, rows.get(node.ordinal))

    def _finalise_if_ready(self, this: FrontierPass, end: NodeRow | None) -> None:
        if end is None or this.ended:
            return
        degree = this.run.graph.in_degree(end.ordinal)
        if end.status is NodeStatus.COMPLETED or len(end.resolved) == degree:
            self._complete_execution(this)

    def _complete_execution(self, this: FrontierPass) -> None:
        now = self._clock.now_ms()
        self._end(this, op.COMPLETE_EXECUTION, Counter.EXECUTION_COMPLETED, now, {})

    def _fail_execution(self, this: FrontierPass, row: NodeRow, reason: Reason) -> None:
        now = self._clock.now_ms()
        code = (row.reason or reason) if reason is Reason.NODE_FAILED else reason
        node_id = this.run.graph.nodes[row.ordinal].id
        self._end(
            this,
            op.FAIL_EXECUTION,
            Counter.EXECUTION_FAILED,
            now,
            {"reason": str(code), "node": node_id},
        )

    def _end(
        self,
        this: FrontierPass,
        operation: Operation,
        counter: Counter,
        now: int,
        extra: dict[str, Value],
    ) -> None:
        reason = extra.get("reason")
        entry = LogEntry(
            str(operation.transition), now, reason=reason if isinstance(reason, str) else None
        )
        outcome = self._store.apply(
            operation,
            keys.meta(this.run.ref),
            {
                "now": now,
                "due_at": now + self._settings.drain_ms,
                "log": entry.to_value(),
                **extra,
            },
        )
        this.ended = True
        if isinstance(outcome, Applied):
            this.changes += 1
            self._metrics.count(counter)
            self._metrics.time(Timer.JOB_AGE, now - this.run.execution.created_at)


def _single(node: Node, *, taken: bool) -> Operation:
    if node.kind is NodeKind.END:
        return op.PASS_SINGLE if taken else op.END_SINGLE_DECLINED
    if not taken:
        return op.SKIP_SINGLE
    return op.PASS_SINGLE if node.kind is NodeKind.GATE else op.QUEUE_SINGLE


def _join(node: Node, *, none_taken: bool) -> Operation:
    if node.kind is NodeKind.END:
        return op.END_JOIN
    if none_taken:
        return op.SKIP_JOIN
    return op.PASS_JOIN if node.kind is NodeKind.GATE else op.QUEUE_JOIN


def _size(value: Value) -> int:
    return len(value) if isinstance(value, frozenset) else 0
