"""From any rows to a right end, though every message is lost and every call has died.

Only sweeps are sure to come. They run one after another, with whatever they let out handled in
between, until nothing is due any more.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import replace
from typing import Final

from local.model.graphs import FAILURE, RESULT, Small, condition
from local.model.questions import (
    Act,
    Call,
    Question,
    ReadsDue,
    ReadsExecution,
    ReadsNodes,
    StartsBody,
    Writes,
)
from local.model.replayed import Replayed
from local.model.rows import REF
from local.model.space import META, RowNumbers, Space, place_of
from local.simulator.agenda import EPOCH_MS
from local.simulator.host import Violation
from local.simulator.oracle import Outcome, Verdict, judge
from piton.domain.canonical import Json
from piton.domain.compile import NodeSpec
from piton.domain.errors import Retry, Stale
from piton.domain.rows import NodeRow
from piton.domain.settings import MINUTE
from piton.domain.status import LIVE_NODE_STATUSES, ExecutionStatus, NodeStatus, Reason
from piton.ports import Applied, DueExecution, Refused

MOST_SWEEPS: Final = 40
_BETWEEN_SWEEPS_MS: Final = 16 * MINUTE
_EXPLAINED: Final = frozenset({Reason.LEASE_EXPIRED, Reason.PAYLOADS_UNAVAILABLE})


class Recovery:
    """Checks that sweeps alone bring an execution to the end that it must have."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._replayed = Replayed(space.small)

    def check(self, rows: RowNumbers) -> None:
        """Raise `Violation` unless these rows recover."""
        run = _Run(self._space, rows)
        for _ in range(MOST_SWEEPS):
            if run.is_retired():
                break
            run.now += _BETWEEN_SWEEPS_MS
            self._handle(run)
        else:
            raise Violation(f"no end after {MOST_SWEEPS} sweeps")
        _check_end(self._space, run.rows)

    def _handle(self, run: _Run) -> None:
        run.waiting.append(Call(Act.SWEEP))
        while run.waiting:
            with suppress(Stale, Retry):
                self._replayed.run(run, run.waiting.popleft())


class _Run:
    """A run without faults: `replayed.Script` over rows that change at once."""

    def __init__(self, space: Space, rows: RowNumbers) -> None:
        self.rows = rows
        self.now = EPOCH_MS + 4 * MINUTE
        self.waiting: deque[Call] = deque()
        self._space = space
        self._nonces = 1000

    def is_retired(self) -> bool:
        execution = self._space.execution(self.rows[META])
        return execution.terminal and execution.due_at is None

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> int:
        return 0

    def ask(self, question: Question) -> object:
        match question:
            case Writes():
                return self._write(question)
            case ReadsExecution():
                return self._space.execution(self.rows[META])
            case ReadsNodes(ordinals):
                nodes = self._space.nodes(self.rows)
                return [row for o, row in nodes.items() if ordinals is None or o in ordinals]
            case ReadsDue(now):
                due_at = self._space.execution(self.rows[META]).due_at
                return [] if due_at is None or due_at > now else [DueExecution(REF, due_at)]
            case StartsBody():
                return None

    def _write(self, question: Writes) -> Applied | Refused:
        place = place_of(question.key.sk)
        row = self.rows[place]
        applied = self._space.table.apply(question.operation, row, question.args)
        if applied is None:
            return Refused()
        self.rows, sent = self._space.commit(self.rows, place, applied.row)
        for call in sent:
            self._nonces += 1
            self.waiting.append(replace(call, nonce=self._nonces))
        return Applied(dict(applied.returned))  # type: ignore[arg-type]


def _check_end(space: Space, rows: RowNumbers) -> None:
    small, execution = space.small, space.execution(rows[META])
    nodes = {row.node_id: row for row in space.nodes(rows).values()}
    live = [row.node_id for row in nodes.values() if row.status in LIVE_NODE_STATUSES]
    if live:
        raise Violation(f"{live} live under an execution that is {execution.status}")
    verdict = _verdict(small, nodes)
    match execution.status:
        case ExecutionStatus.COMPLETED:
            right = not verdict.fatal
        case ExecutionStatus.FAILED:
            right = verdict.fatal.get(execution.node or "") == execution.reason
        case _:
            right = execution.reason == Reason.CANCELLED_BY_CALLER
    if not right:
        raise Violation(f"ended {execution.status}, fatal nodes are {dict(verdict.fatal)}")
    for spec in small.specs:
        status = nodes[spec.id].status if spec.id in nodes else NodeStatus.PENDING
        allowed = _allowed(verdict.outcomes.get(spec.id), execution.status)
        if status not in allowed:
            raise Violation(f"{spec.id} is {status} at the end, expected {sorted(allowed)}")


def _verdict(small: Small, nodes: dict[str, NodeRow]) -> Verdict:
    def runs(spec: NodeSpec, inputs: Json) -> Outcome:
        del inputs
        row = nodes.get(spec.id)
        if row is not None and row.status is NodeStatus.FAILED and row.reason in _EXPLAINED:
            return Outcome(NodeStatus.FAILED, reason=row.reason)
        if spec.id in small.failing:
            return Outcome(NodeStatus.FAILED, reason=FAILURE)
        return Outcome(NodeStatus.COMPLETED, RESULT)

    return judge(small.specs, {}, condition, runs)


def _allowed(expected: Outcome | None, end: ExecutionStatus) -> set[NodeStatus]:
    if end is ExecutionStatus.COMPLETED:
        return {expected.status if expected else NodeStatus.PENDING}
    allowed = {NodeStatus.PENDING}
    if expected is not None:
        allowed.add(expected.status)
        if expected.status is not NodeStatus.SKIPPED:
            allowed.add(NodeStatus.CANCELLED)
    return allowed
