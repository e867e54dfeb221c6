"""Rows of one small workflow: what a write makes of them, the rules it must keep, what it sends."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from local.model.asking import WORKFLOW_HASH
from local.model.graphs import Small
from local.model.questions import Act, Call
from local.model.replayed import SETTINGS
from local.model.rows import ABSENT, REF, RowTable, execution_row, node_row
from local.simulator.agenda import EPOCH_MS
from local.simulator.changes import ExecutionChange, NodeChange, Rows
from local.simulator.host import Violation
from local.simulator.invariants import (
    cancelled_only_under_an_end,
    claimed_in_time,
    completed_only_with_all_ended,
    decided_only_when_all_is_known,
    edges_only_resolve,
    execution_terminal_never_changes,
    fences_only_grow,
    live_is_on_the_due_list,
    parked_once,
    running_has_an_owner,
    sources_have_ended,
    terminal_never_changes,
)
from piton.domain.messages import Dispatch, Message, execution_messages, node_messages
from piton.domain.rows import META_SK, ExecutionRow, NodeRow, Value, node_ordinal, node_sk
from piton.domain.status import EventType, NodeStatus
from piton.storage import keys
from piton.storage import operations as op

META: Final = 0
"""Place of META among the rows of a state; node `i` is at `1 + i`."""

RowNumbers = tuple[int, ...]

NODE_RULES: Final = (
    terminal_never_changes,
    fences_only_grow,
    edges_only_resolve,
    decided_only_when_all_is_known,
    sources_have_ended,
    cancelled_only_under_an_end,
    running_has_an_owner,
    claimed_in_time,
)
EXECUTION_RULES: Final = (
    execution_terminal_never_changes,
    live_is_on_the_due_list,
    completed_only_with_all_ended,
    parked_once,
)
"""The simulator's rules, without those about logs: states have none."""

_NEVER_READ: Final = frozenset(
    {
        "node_queued_at",
        "node_finished_at",
        "node_code_hash",
        "node_scope",
        "node_pool",
        "exec_resumes",
        "exec_resumed_at",
        "exec_resumed_by",
    }
)
_MOST_SENDS: Final = 1
"""Sends are counted up to here. A stale re-send may then pass that the engine would refuse."""

_ONLY_WHILE_RUNNING: Final = frozenset({"node_claimed_at", "node_progress"})
_ONLY_WHILE_LIVE: Final = frozenset({"node_sent_at", "node_sends", "node_not_before", "dead_at"})
_ACTS: Final = {
    EventType.START_REQUESTED: Act.START,
    EventType.RESUME_REQUESTED: Act.RESUME,
    EventType.WORKFLOW_CANCELLED: Act.DRAIN,
    EventType.WORKFLOW_FAILED: Act.DRAIN,
    EventType.NODE_COMPLETED: Act.ADVANCE,
    EventType.NODE_FAILED: Act.ADVANCE,
    EventType.NODE_SKIPPED: Act.ADVANCE,
}


class Space:
    """All rows that occur, by number. Commits are checked once and remembered.

    A thrifty space forgets what no service looks at again, so that fewer states differ.
    """

    def __init__(self, small: Small, table: RowTable, *, thrifty: bool = True) -> None:
        self.small = small
        self._thrifty = thrifty
        self.table = table
        self._nodes: dict[tuple[int, int], NodeRow] = {}
        self._executions: dict[int, ExecutionRow] = {}
        self._without_due: dict[int, int] = {}
        self._commits: dict[tuple[RowNumbers, int, int], tuple[RowNumbers, tuple[Call, ...]]] = {}

    def created(self) -> tuple[RowNumbers, tuple[Call, ...]]:
        """The rows of a new execution, and its request to start."""
        applied = self.table.apply(op.CREATE_EXECUTION, ABSENT, creation())
        if applied is None:
            raise Violation("an execution cannot be created")
        empty = (ABSENT,) * (1 + len(self.small.graph.nodes))
        return self.commit(empty, META, applied.row)

    def commit(self, rows: RowNumbers, place: int, row: int) -> tuple[RowNumbers, tuple[Call, ...]]:
        """Put a row into its place. Returns the rows and the calls that this lets out.

        Raises `Violation` when the change breaks a rule.
        """
        if row == rows[place]:
            return rows, ()
        key = (rows, place, row)
        if key not in self._commits:
            sent = self._check(rows, place, row)
            kept = self._plain(row) if place == META else self._essence(row, place - 1)
            after = (*rows[:place], kept, *rows[place + 1 :])
            self._commits[key] = after, tuple(filter(None, map(_call_of, sent)))
        return self._commits[key]

    def without_due_time(self, rows: RowNumbers) -> RowNumbers:
        """Rows after which no sweep will ask when the execution is due: only whether it ended."""
        row = rows[META]
        if row not in self._without_due:
            attributes = self.table.attributes(row)
            due_at = EPOCH_MS + self.execution(row).terminal
            self._without_due[row] = self.table.number({**attributes, "due_at": due_at})
        return (self._without_due[row], *rows[1:])

    def node(self, row: int, ordinal: int) -> NodeRow:
        """Read a node's row."""
        key = (row, ordinal)
        if key not in self._nodes:
            self._nodes[key] = node_row(self.table.attributes(row), node_sk(ordinal))
        return self._nodes[key]

    def execution(self, row: int) -> ExecutionRow:
        """Read META."""
        if row not in self._executions:
            self._executions[row] = execution_row(self.table.attributes(row))
        return self._executions[row]

    def nodes(self, rows: RowNumbers) -> dict[int, NodeRow]:
        """Read all nodes' rows that exist."""
        return {
            ordinal: self.node(row, ordinal)
            for ordinal, row in enumerate(rows[1:])
            if row != ABSENT
        }

    def as_rows(self, rows: RowNumbers) -> Rows:
        """Read a state's rows as the rules want them."""
        seen = Rows(self.small.graph, lambda _: None)
        if rows[META] != ABSENT:
            seen.executions[REF] = self.execution(rows[META])
        seen.nodes.update({(REF, o): node for o, node in self.nodes(rows).items()})
        return seen

    def _check(self, rows: RowNumbers, place: int, row: int) -> list[Message]:
        seen = self.as_rows(rows)
        if place == META:
            old_execution = self.execution(rows[META]) if rows[META] != ABSENT else None
            execution = self.execution(row)
            for execution_rule in EXECUTION_RULES:
                execution_rule(seen, ExecutionChange(REF, old_execution, execution))
            return execution_messages(old_execution, execution)
        ordinal = place - 1
        old = self.node(rows[place], ordinal) if rows[place] != ABSENT else None
        new = self.node(row, ordinal)
        for node_rule in NODE_RULES:
            node_rule(seen, NodeChange(REF, old or NodeRow(ordinal), new))
        return node_messages(REF, old, new)

    def _plain(self, row: int) -> int:
        """META without what no service looks at: of its start, only that there was one."""
        attributes = self.table.attributes(row)
        kept = {name: v for name, v in attributes.items() if name not in _NEVER_READ}
        if "exec_started_at" in kept:
            kept["exec_started_at"] = EPOCH_MS
        return self.table.number(kept)

    def _essence(self, row: int, ordinal: int) -> int:
        """The row without what no service will ever look at again."""
        if not self._thrifty:
            return row
        node = self.node(row, ordinal)
        dropped = _NEVER_READ
        if node.status is not NodeStatus.RUNNING:
            dropped |= _ONLY_WHILE_RUNNING
        if node.terminal:
            dropped |= _ONLY_WHILE_LIVE
        attributes = self.table.attributes(row)
        kept = {name: v for name, v in attributes.items() if name not in dropped}
        sends = kept.get("node_sends")
        if isinstance(sends, int):
            kept["node_sends"] = min(sends, _MOST_SENDS)
        return self.table.number(kept)


def place_of(sk: str) -> int:
    """Place of a row, by its sort key."""
    return META if sk == META_SK else 1 + node_ordinal(sk)


def _call_of(message: Message) -> Call | None:
    if isinstance(message, Dispatch):
        # Only its fence and attempt tell one dispatch of a node from another.
        plain = replace(message, pool="", not_before=0, delay_s=0)
        return Call(Act.WORK, message.ordinal, plain)
    act = _ACTS.get(message.type)
    if act is Act.ADVANCE:
        ordinal = message.detail["ordinal"]
        return Call(act, ordinal if isinstance(ordinal, int) else -1)
    return None if act is None else Call(act)


def creation() -> dict[str, Value]:
    """Arguments of the operation that creates the execution."""
    life = SETTINGS.default_life_ms
    return {
        "workflow_id": "small",
        "workflow_version": 1,
        "definition_hash": WORKFLOW_HASH,
        "root_id": REF.execution_id,
        "scope": "{}",
        "now": EPOCH_MS,
        "ends_by": EPOCH_MS + life,
        "actor": "somebody",
        "expires_at": (EPOCH_MS + life + SETTINGS.retention_ms) // 1000,
        "due_shard": keys.due_shard(REF),
        "due_at": EPOCH_MS + SETTINGS.sweep_soonest_ms,
        "tenant_pk": keys.tenant_partition(REF.tenant),
        "tenant_sk": "0",
    }
