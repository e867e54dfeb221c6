"""Watches the change stream and the bodies, and applies the rules to each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from local.simulator.attempts import ATTEMPT_RULES, START_RULES
from local.simulator.changes import BodyStart, Claim, ExecutionChange, NodeChange, Rows
from local.simulator.host import Violation
from local.simulator.invariants import (
    BODY_RULES,
    EXECUTION_RULES,
    NODE_RULES,
)
from local.simulator.oracle import Outcome
from local.simulator.patience import Patience
from piton.domain.canonical import Json
from piton.domain.graph import Graph
from piton.domain.rows import META_SK, NODE_SK_PREFIX, ExecutionRef, ExecutionRow, NodeRow
from piton.domain.settings import Settings
from piton.storage.sqlite import FeedRecord

ExpectedInputs = Callable[[str, Mapping[str, Outcome]], Json]
"""The inputs of a node, from how the nodes that have ended did so, by id."""


class Watch:
    """Applies the rules to each change and to each start of a body."""

    def __init__(
        self,
        graph: Graph,
        inputs: ExpectedInputs,
        blob: Callable[[str], bytes | None],
        settings: Settings,
        now: Callable[[], int],
        patience: Patience | None = None,
    ) -> None:
        self.rows = Rows(graph, blob, now, settings)
        self.patience = patience
        self.bodies: Counter[Claim] = Counter()
        self.node_rules = [*NODE_RULES, *ATTEMPT_RULES]
        self.execution_rules = list(EXECUTION_RULES)
        self.body_rules = [*BODY_RULES, *START_RULES]
        self._inputs = inputs

    def change(self, record: FeedRecord) -> None:
        """Take in one commit. Raises `Violation`."""
        self._check_life(record)
        if record.sk == META_SK:
            self._execution(record)
        elif record.sk.startswith(NODE_SK_PREFIX):
            self._node(record)

    def body(self, start: BodyStart) -> None:
        """Take in the start of a body. Raises `Violation`."""
        self.bodies[start.claim] += 1
        if self.bodies[start.claim] > 1:
            raise Violation(f"{start.context.node_id}: two bodies with fence {start.context.fence}")
        for rule in self.body_rules:
            rule(self.rows, start)
        expected = self._inputs(start.context.node_id, self.rows.outcomes(start.ref))
        if dict(start.inputs) != expected:
            raise Violation(
                f"{start.context.node_id}: was given {start.inputs}, expected {expected}"
            )

    def _check_life(self, record: FeedRecord) -> None:
        place = (record.pk, record.sk)
        expires = record.new.get("expires_at")
        known = self.rows.expires_at.setdefault(place, expires if isinstance(expires, int) else 0)
        if known == 0 or known != expires:
            raise Violation(f"{record.sk}: expires_at is {expires!r}, was {known}")
        meta = self.rows.expires_at.get((record.pk, META_SK), known)
        if record.pk.startswith("EX#") and meta != known:
            raise Violation(f"{record.sk}: expires at {known}, its execution at {meta}")

    def _execution(self, record: FeedRecord) -> None:
        new = ExecutionRow.from_attributes(record.new)
        change = ExecutionChange(new.ref, self.rows.executions.get(new.ref), new)
        for rule in self.execution_rules:
            rule(self.rows, change)
        if self.patience is not None:
            self.patience.execution(change)
        self.rows.take_execution(change)

    def _node(self, record: FeedRecord) -> None:
        ref = ExecutionRef.from_pk(record.pk)
        new = NodeRow.from_attributes(record.new)
        old = self.rows.nodes.get((ref, new.ordinal)) or NodeRow(new.ordinal)
        change = NodeChange(ref, old, new)
        for rule in self.node_rules:
            rule(self.rows, change)
        if self.patience is not None:
            execution = self.rows.executions.get(ref)
            self.patience.node(change, ended=execution is None or execution.terminal)
        self.rows.take(change)
