"""What a worker does with one dispatch: claim, run, record.

The guarantee: a node that has finished never runs again, and of all attempts of a node exactly
one outcome is recorded. The limit: a worker that is paused between its claim and its body may
start the body after a newer attempt has finished or just after the execution was cancelled. It
can record nothing then, because its fence has passed; effects on the outside world that must not
repeat need a key that the other side deduplicates.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from piton.domain import canonical
from piton.domain.canonical import NotJson
from piton.domain.errors import Bug, NotYet, Retry, Stale
from piton.domain.graph import Graph, Node
from piton.domain.messages import Dispatch
from piton.domain.rows import AttemptPolicy, ExecutionRef, ExecutionRow, LogEntry, NodeRow, Value
from piton.domain.settings import Settings
from piton.domain.status import NodeStatus, Reason
from piton.ports import (
    Applied,
    Clock,
    Counter,
    LeaseLost,
    Metrics,
    Outcome,
    Random,
    Returned,
    Store,
    Timer,
    WorkflowStore,
)
from piton.services.bodies import Attempt, Bodies, Failure, Renew
from piton.services.dispatching import Dispatching, Disposition
from piton.services.payloads import Payloads
from piton.services.recent import Recent
from piton.services.run import load_graph
from piton.storage import keys
from piton.storage import operations as op
from piton.storage.algebra import Operation
from piton.storage.views import NodeView

_log = logging.getLogger("piton.work")
_CACHED_EXECUTIONS: Final = 256


@dataclass(frozen=True, slots=True)
class WorkerIdentity:
    """Which process works, and with which code. Both end up in the node's history."""

    host: str
    code_hash: str


class Work:
    """Runs dispatches of one pool. Safe to call from several threads at once."""

    def __init__(
        self,
        store: Store,
        workflows: WorkflowStore,
        payloads: Payloads,
        bodies: Bodies,
        dispatching: Dispatching,
        clock: Clock,
        random: Random,
        metrics: Metrics,
        settings: Settings,
        identity: WorkerIdentity,
    ) -> None:
        self._store = store
        self._workflows = workflows
        self._payloads = payloads
        self._bodies = bodies
        self._dispatching = dispatching
        self._clock = clock
        self._random = random
        self._metrics = metrics
        self._settings = settings
        self._identity = identity
        self._executions: Recent[ExecutionRef, ExecutionRow] = Recent(_CACHED_EXECUTIONS)

    def run(self, dispatch: Dispatch, available_ms: int) -> Disposition:
        """Claim the node at the dispatch's fence, run its body and record the outcome.

        `available_ms` is how long this process may still run. Raises `Stale` when the claim is
        refused for good, `NotYet` when it came too early or too little time is left here, and
        `Retry` when the store does not answer.
        """
        graph = self._graph(dispatch.ref)
        node = _node_of(graph, dispatch)
        policy = self._bodies.policy(node)
        if available_ms < min(policy.timeout_ms, self._bodies.max_timeout_ms):
            raise NotYet(0)
        began = self._clock.monotonic_ms()
        self._claim(dispatch, policy)
        execution = self._store.get_execution(dispatch.ref)
        if execution is None or execution.terminal:
            return self._cancel(dispatch)
        attempt = Attempt(dispatch, graph, node, policy, self._lease(dispatch))
        outcome = self._bodies.run(attempt, began)
        took = self._clock.monotonic_ms() - began
        self._metrics.time(Timer.TASK_TIME, took)
        return self._record(attempt, execution, outcome)

    def _graph(self, ref: ExecutionRef) -> Graph:
        """The graph never changes during an execution, so META is read for it only once."""
        execution = self._executions.get(ref)
        if execution is None:
            execution = self._store.get_execution(ref)
            if execution is None or execution.terminal:
                raise Stale(f"{ref.execution_id} has ended or is gone")
            self._executions.put(ref, execution)
        return load_graph(self._workflows, execution)

    def _claim(self, dispatch: Dispatch, policy: AttemptPolicy) -> None:
        now = self._clock.now_ms()
        owner = f"{self._identity.host}/{self._random.nonce()}"
        entry = LogEntry(
            "N4",
            now,
            fence=dispatch.fence,
            attempt=dispatch.attempt,
            owner=owner,
            code=self._identity.code_hash,
        )
        outcome = self._apply(
            op.CLAIM,
            dispatch,
            {
                "now": now,
                "owner": owner,
                "lease_until": now + self._settings.lease_ms,
                "policy": policy.to_value(),
                "code_hash": self._identity.code_hash,
                "log": entry.to_value(),
            },
        )
        if not isinstance(outcome, Applied):
            self._explain_refused_claim(dispatch, owner, now)
        self._metrics.time(Timer.QUEUE_WAIT, max(0, now - dispatch.not_before))

    def _explain_refused_claim(self, dispatch: Dispatch, owner: str, now: int) -> None:
        """Return when the claim is mine after all: it was stored and its answer got lost."""
        row = self._row(dispatch)
        if row is not None and row.fence == dispatch.fence:
            if row.status is NodeStatus.RUNNING and row.lease_owner == owner:
                return
            if row.status is NodeStatus.QUEUED and row.not_before > now:
                raise NotYet(row.not_before - now)
        self._metrics.count(Counter.CLAIM_REFUSED)
        raise Stale(f"{dispatch.ref.execution_id}/{dispatch.ordinal} is not queued at this fence")

    def _cancel(self, dispatch: Dispatch) -> Disposition:
        now = self._clock.now_ms()
        reason = Reason.EXECUTION_ENDED.value
        entry = LogEntry("N15", now, fence=dispatch.fence + 1, reason=reason)
        outcome = self._apply(op.CANCEL_CLAIMED, dispatch, {"now": now, "log": entry.to_value()})
        if not isinstance(outcome, Applied):
            return self._stale()
        self._metrics.count(Counter.NODE_CANCELLED)
        return Disposition.CANCEL

    def _lease(self, dispatch: Dispatch) -> Renew:
        def renew(percent: int | None = None, note: str = "") -> bool:
            args: dict[str, Value] = {"lease_until": self._clock.now_ms() + self._settings.lease_ms}
            operation = op.RENEW_LEASE
            if percent is not None:
                operation = op.REPORT_PROGRESS
                args |= {"percent": percent, "note": note}
            return isinstance(self._apply(operation, dispatch, args), Applied)

        return renew

    def _record(
        self, attempt: Attempt, execution: ExecutionRow, outcome: Returned | Failure | LeaseLost
    ) -> Disposition:
        if isinstance(outcome, LeaseLost):
            return self._stale()
        end = self._complete(attempt, outcome.value) if isinstance(outcome, Returned) else outcome
        if isinstance(end, Disposition):
            return end
        return self._dispatching.settle_failure(
            attempt.dispatch.ref,
            attempt.as_row(),
            end.code,
            retry=op.RETRY,
            fail=op.FAIL,
            ends_by=execution.ends_by,
            permanent=end.permanent,
        )

    def _complete(self, attempt: Attempt, value: object) -> Disposition | Failure:
        try:
            text = canonical.dumps(value)
        except NotJson as fault:
            _log.warning("result refused: %s", fault, extra=attempt.names)
            return Failure(Reason.RESULT_NOT_JSON, permanent=True)
        if len(text.encode("utf-8")) > self._settings.result_limit_bytes:
            return Failure(Reason.RESULT_TOO_LARGE, permanent=True)
        try:
            stored = self._payloads.save(attempt.dispatch.ref, text)
        except Retry:
            _log.exception("result could not be stored", extra=attempt.names)
            return Failure(Reason.PAYLOADS_UNAVAILABLE)
        dispatch, now = attempt.dispatch, self._clock.now_ms()
        outcome = self._apply(
            op.COMPLETE,
            dispatch,
            {
                "result": stored.body,
                "result_ref": stored.ref,
                "result_hash": stored.hash,
                "now": now,
                "log": LogEntry("N6", now, fence=dispatch.fence).to_value(),
            },
        )
        if isinstance(outcome, Applied) or self._completed_by_me(dispatch, stored.hash):
            self._metrics.count(Counter.NODE_COMPLETED)
            return Disposition.COMPLETED
        return self._stale()

    def _completed_by_me(self, dispatch: Dispatch, result_hash: str) -> bool:
        """True when a completion was refused only because its lost answer had been a yes."""
        rows = self._store.get_nodes(dispatch.ref, [dispatch.ordinal], NodeView.RESULT)
        row = rows.get(dispatch.ordinal)
        return (
            row is not None
            and row.status is NodeStatus.COMPLETED
            and (row.fence, row.result_hash) == (dispatch.fence, result_hash)
        )

    def _stale(self) -> Disposition:
        self._metrics.count(Counter.STALE_WRITE_REFUSED)
        return Disposition.STALE

    def _row(self, dispatch: Dispatch) -> NodeRow | None:
        rows = self._store.get_nodes(dispatch.ref, [dispatch.ordinal], NodeView.CONTROL)
        return rows.get(dispatch.ordinal)

    def _apply(self, operation: Operation, dispatch: Dispatch, args: dict[str, Value]) -> Outcome:
        key = keys.node(dispatch.ref, dispatch.ordinal)
        return self._store.apply(operation, key, {"fence": dispatch.fence, **args})


def _node_of(graph: Graph, dispatch: Dispatch) -> Node:
    if not 0 <= dispatch.ordinal < len(graph.nodes):
        raise Bug(f"dispatch for ordinal {dispatch.ordinal} of {graph.workflow_id}")
    node = graph.nodes[dispatch.ordinal]
    if node.id != dispatch.node_id or node.is_gate:
        raise Bug(f"dispatch names node {dispatch.node_id!r} at the place of {node.id!r}")
    return node
