"""Dispatches that no worker could take: they reached the pool's dead-letter queue."""

from __future__ import annotations

from piton.domain.errors import Stale
from piton.domain.messages import Dispatch
from piton.domain.status import NodeStatus, Reason
from piton.ports import Clock, Store, WorkflowStore
from piton.services.dispatching import Dispatching, Disposition
from piton.services.run import load_live_run
from piton.storage import operations as op
from piton.storage.views import NodeView


class DeadLetters:
    """Gives undeliverable dispatches a disposition."""

    def __init__(
        self, store: Store, workflows: WorkflowStore, dispatching: Dispatching, clock: Clock
    ) -> None:
        self._store = store
        self._workflows = workflows
        self._dispatching = dispatching
        self._clock = clock

    def undeliverable(self, dispatch: Dispatch) -> Disposition:
        """Retry or dead-letter a node that is still queued at the dispatch's fence (N10).

        Raises `Stale` when the node has moved on, `Retry` when the store does not answer.
        """
        run = load_live_run(self._store, self._workflows, dispatch.ref)
        rows = self._store.get_nodes(dispatch.ref, [dispatch.ordinal], NodeView.CONTROL)
        row = rows.get(dispatch.ordinal)
        if row is None or (row.status, row.fence) != (NodeStatus.QUEUED, dispatch.fence):
            raise Stale(f"{dispatch.ref.execution_id}/{dispatch.ordinal} has moved on")
        if row.not_before > self._clock.now_ms():
            # It was handed out and put back because its time had not come; the sweep sends again.
            raise Stale(f"{dispatch.ref.execution_id}/{dispatch.ordinal} is not due yet")
        return self._dispatching.settle_failure(
            dispatch.ref,
            row,
            Reason.DELIVERY_EXHAUSTED.value,
            retry=op.RETRY_UNDELIVERED,
            fail=op.FAIL_UNDELIVERED,
            ends_by=run.execution.ends_by,
            default_policy=run.graph.nodes[row.ordinal].retry,
        )
