"""Every write that somebody could try in a state, honest about the past and blind to the present.

Whoever acts has once read what they act on, and that may be long ago. What is true for ever can
be taken for granted: that a source has ended and which of its edges are taken, that the execution
has ended, that a fence was claimed. Everything else may be out of date: fences, leases, counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from local.model.graphs import FAILURE, RESULT, condition
from local.model.rows import ABSENT
from local.model.space import META, RowNumbers, Space, creation
from local.simulator.agenda import EPOCH_MS
from piton.domain import canonical
from piton.domain.frontier import Resolutions, evaluate_edges
from piton.domain.graph import Node, NodeKind
from piton.domain.rows import ExecutionRow, NodeRow, Value
from piton.domain.settings import MINUTE
from piton.domain.status import NodeStatus, Reason
from piton.storage import operations as op
from piton.storage.algebra import Operation

STEP_MS: Final = MINUTE
LEASE_MS: Final = MINUTE // 2
MOST_SENDS: Final = 1

Args = dict[str, Value]

_FAILURE_ARGS: Final[Args] = {"reason": FAILURE, "tenant": "model"}
_ENDED: Final[Args] = {"reason": Reason.TIMED_OUT.value}
_TEXT: Final = canonical.dumps(RESULT)


class Offer(NamedTuple):
    """Somebody tries an operation on the row at `place`."""

    operation: Operation
    place: int
    args: Args


class Tried(NamedTuple):
    """Rows, which fences of each node were ever claimed, and the time in steps."""

    rows: RowNumbers
    claimed: tuple[frozenset[int], ...]
    time: int

    @property
    def now(self) -> int:
        """The time in epoch milliseconds."""
        return EPOCH_MS + self.time * STEP_MS


@dataclass(frozen=True, slots=True)
class Limits:
    """How far it goes: steps of time, attempts of a node, and which operations are tried.

    `attempts_in_depth`: leases, re-sends and dead letters too. `ends_in_depth`: every operation
    on META.
    """

    times: int = 0
    attempts: int = 1
    attempts_in_depth: bool = False
    ends_in_depth: bool = False


class Offers:
    """Lists what can be tried."""

    def __init__(self, space: Space, limits: Limits) -> None:
        self._space = space
        self._limits = limits
        self._graph = space.small.graph

    def of(self, state: Tried) -> Iterator[Offer]:
        """Everything that somebody could try in a state."""
        execution = self._space.execution(state.rows[META])
        for operation, args in self._of_execution(state, execution):
            yield Offer(operation, META, args)
        if execution.started_at is None:
            return
        for node in self._graph.nodes:
            row = self.node(state, node.ordinal)
            offers = self._of_frontier(state, execution, node)
            if not node.is_gate and row.status is not NodeStatus.PENDING:
                offers += self._of_attempts(state, execution, row)
            for operation, args in offers:
                yield Offer(operation, 1 + node.ordinal, args)

    def node(self, state: Tried, ordinal: int) -> NodeRow:
        """A node's row; an empty one where there is none."""
        row = state.rows[1 + ordinal]
        return NodeRow(ordinal) if row == ABSENT else self._space.node(row, ordinal)

    # --- META ------------------------------------------------------------------------------

    def _of_execution(self, state: Tried, execution: ExecutionRow) -> list[tuple[Operation, Args]]:
        now = state.now
        end: Args = {"now": now, "due_at": now + 2}
        offers: list[tuple[Operation, Args]] = [
            (op.CREATE_EXECUTION, creation()),
            (op.START, {"now": now}),
            (op.CANCEL_EXECUTION, end | _ENDED),
        ]
        if self._limits.ends_in_depth:
            offers += [
                (op.PASS_DEADLINE, end | _ENDED),
                (op.RESUME, {"now": now, "actor": "somebody"}),
            ]
            for due_at in (execution.due_at or 0, EPOCH_MS - 1):
                offers.append((op.DEFER, {"seen_due_at": due_at, "due_at": now + 1}))
                if execution.terminal:
                    offers.append((op.RETIRE, {"seen_due_at": due_at}))
        if execution.started_at is None:
            return offers
        if self._limits.ends_in_depth:
            offers += [
                (op.TIME_OUT, end | _ENDED),
                (op.PARK, {"reason": Reason.SWEEP_FAILED.value}),
                (op.PARK, {"reason": Reason.RESENDS_EXHAUSTED.value}),
            ]
        gate = self.node(state, self._graph.end)
        if len(gate.resolved) == self._graph.in_degree(gate.ordinal):
            offers.append((op.COMPLETE_EXECUTION, end))
        for row in self._space.nodes(state.rows).values():
            if row.status is NodeStatus.FAILED and self._edges(row) is None:
                fatal: Args = {"reason": row.reason, "node": row.node_id}
                offers.append((op.FAIL_EXECUTION, end | fatal))
        return offers

    # --- Frontier --------------------------------------------------------------------------

    def _of_frontier(
        self, state: Tried, execution: ExecutionRow, node: Node
    ) -> list[tuple[Operation, Args]]:
        born: Args = {"node_id": node.id, "expires_at": execution.expires_at}
        decided: Args = {**born, "scope": "s", "now": state.now}
        queued: Args = {**decided, "pool": node.pool}
        degree = self._graph.in_degree(node.ordinal)
        if degree == 0:
            return [(op.QUEUE_ROOT, queued)]
        offers: list[tuple[Operation, Args]] = []
        for source in self._graph.predecessors[node.ordinal]:
            edges = self._edges(self.node(state, source))
            if edges is None:
                continue
            named: Args = {"source": source}
            if degree > 1:
                resolve = op.RESOLVE_TAKEN if edges[node.ordinal] else op.RESOLVE_DECLINED
                offers.append((resolve, born | named))
            else:
                decide = _single(node, taken=edges[node.ordinal])
                offers.append((decide, (queued if decide is op.QUEUE_SINGLE else decided) | named))
        if degree > 1:
            counted: Args = {"in_degree": degree}
            offers += [
                (decide, (queued if decide is op.QUEUE_JOIN else decided) | counted)
                for decide in _joins(node)
            ]
        return offers

    def _edges(self, row: NodeRow) -> dict[int, bool] | None:
        """Which targets of an ended node are taken; None while it lives and when it is fatal."""
        if not row.terminal or row.status is NodeStatus.CANCELLED:
            return None
        outcome = evaluate_edges(self._graph, row, lambda: RESULT, condition)
        return dict(outcome.taken) if isinstance(outcome, Resolutions) else None

    # --- Attempts --------------------------------------------------------------------------

    def _of_attempts(
        self, state: Tried, execution: ExecutionRow, row: NodeRow
    ) -> list[tuple[Operation, Args]]:
        offers: list[tuple[Operation, Args]] = []
        for fence in range(1, row.fence + 1):
            at: Args = {"fence": fence, "now": state.now}
            claim: Args = {
                "owner": f"w{fence}",
                "lease_until": state.now + LEASE_MS,
                "policy": [60_000, self._limits.attempts, 0, 0],
                "code_hash": "c",
            }
            offers.append((op.CLAIM, at | claim))
            again: Args = {"not_before": state.now + STEP_MS, "reason": Reason.TASK_ERROR.value}
            # Each attempt has its own fence, so this was not the last one.
            has_more = fence < self._limits.attempts
            if fence in state.claimed[row.ordinal]:
                offers += self._of_holder(state, execution, at, again if has_more else None)
            if execution.terminal:
                offers.append((op.CANCEL_UNCLAIMED, at))
            if self._limits.attempts_in_depth:
                offers += self._of_others(state, execution, row, at, again if has_more else None)
        return offers

    def _of_holder(
        self, state: Tried, execution: ExecutionRow, at: Args, again: Args | None
    ) -> list[tuple[Operation, Args]]:
        result: Args = {"result": _TEXT, "result_hash": canonical.digest(_TEXT)}
        offers = [(op.COMPLETE, at | result), (op.FAIL, at | _FAILURE_ARGS)]
        if again is not None:
            offers.append((op.RETRY, at | again))
        if execution.terminal:
            offers.append((op.CANCEL_CLAIMED, at))
        if self._limits.attempts_in_depth:
            lease: Args = {"fence": at["fence"], "lease_until": state.now + LEASE_MS}
            progress: Args = {"percent": 50, "note": ""}
            offers += [(op.RENEW_LEASE, lease), (op.REPORT_PROGRESS, lease | progress)]
        return offers

    def _of_others(
        self, state: Tried, execution: ExecutionRow, row: NodeRow, at: Args, again: Args | None
    ) -> list[tuple[Operation, Args]]:
        """Dead letters, re-sends, and sweeps that judged a lease which was over by then."""
        offers = [(op.FAIL_UNDELIVERED, at | _FAILURE_ARGS)]
        if again is not None:
            offers.append((op.RETRY_UNDELIVERED, at | again))
        if row.sends <= MOST_SENDS:
            offers += [(op.RESEND, at | {"seen_sends": seen}) for seen in range(row.sends + 1)]
        leases = [EPOCH_MS + time * STEP_MS + LEASE_MS for time in range(self._limits.times)]
        for until in leases:
            if until >= state.now:
                continue
            lease: Args = {"seen_lease": until}
            offers.append((op.FAIL_STALLED, at | _FAILURE_ARGS | lease))
            if again is not None:
                offers.append((op.RETRY_STALLED, at | again | lease))
            if execution.terminal:
                offers.append((op.CANCEL_STALLED, at | lease))
        return offers


def _single(node: Node, *, taken: bool) -> Operation:
    if node.kind is NodeKind.END:
        return op.PASS_SINGLE if taken else op.END_SINGLE_DECLINED
    if not taken:
        return op.SKIP_SINGLE
    return op.PASS_SINGLE if node.is_gate else op.QUEUE_SINGLE


def _joins(node: Node) -> tuple[Operation, ...]:
    """What a join could become, whichever of it is right: the guards have to tell."""
    if node.kind is NodeKind.END:
        return (op.END_JOIN,)
    return (op.SKIP_JOIN, op.PASS_JOIN if node.is_gate else op.QUEUE_JOIN)
