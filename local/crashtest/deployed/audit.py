"""What has to hold of an execution whose processes were killed, judged by three witnesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from local.crashtest.compare import difference
from local.crashtest.deployed.rig import Rig
from local.crashtest.ending import Ending, ending
from local.demo.ledger import BodyStart, Evidence, ExecutionRecord, Expected, Fact
from local.demo.reading import record
from local.demo.verdict import judge
from local.simulator.host import Violation
from piton.domain.rows import ExecutionRef, ExecutionRow, NodeRow
from piton.storage.algebra import Table
from piton.storage.dynamodb import DynamoStore
from piton.storage.views import ExecutionView, NodeView

_UNDELIVERED = "N10"


@dataclass(frozen=True, slots=True)
class Seen:
    """All about one execution: its rows, what the API tells of them, body starts and events."""

    execution: ExecutionRow | None
    rows: Sequence[NodeRow]
    record: ExecutionRecord
    bodies: Sequence[BodyStart]
    facts: Sequence[Fact]

    def ending(self) -> Ending:
        """How it ended, with hashes for results. Raises `Violation` unless it ended in order."""
        return ending(self.execution, self.rows, lambda row: row.result_hash)


def collect(rig: Rig, execution_ids: Sequence[str]) -> Mapping[str, Seen]:
    """Gather what there is to see of some executions, by id."""
    tables = {Table.EXECUTIONS: rig.stack.outputs.executions_table}
    store = DynamoStore(rig.stack.aws.dynamodb, tables)
    bodies, facts = rig.bodies.starts(), rig.tap.facts()
    return {
        id_: Seen(
            execution=store.get_execution(ref := ExecutionRef(rig.tenant, id_), ExecutionView.FULL),
            rows=store.query_nodes(ref, NodeView.FULL),
            record=record(rig.api, id_),
            bodies=[start for start in bodies if start.execution_id == id_],
            facts=[fact for fact in facts if fact.execution_id == id_],
        )
        for id_ in execution_ids
    }


def problem(seen: Seen, clean: Ending, unstable: frozenset[str] = frozenset()) -> str | None:
    """Say what is wrong with an execution that was to end as `clean` did, None if nothing is.

    Nothing is when its rows are in order and say what those of the clean run say, its events and
    the body log tell the same story, no body started after the end of its node or twice for one
    attempt, and no message of it was given up. Results of `unstable` nodes may differ.
    """
    try:
        found = seen.ending()
    except Violation as violation:
        return str(violation)
    evidence = Evidence(records=[seen.record], bodies=seen.bodies, facts=seen.facts)
    problems = judge(evidence, {seen.record.id: Expected(clean.status)}).problems
    if problems:
        return problems[0]
    for row in seen.rows:
        if any(entry.transition == _UNDELIVERED for entry in row.log):
            return f"a message for {row.node_id} ended with the dead letters"
    return difference(clean, found, unstable)
