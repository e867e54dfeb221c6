"""The run itself: start, hurt, wait, judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from local.client import Api
from local.demo import faults
from local.demo.board import Board, Row
from local.demo.clock import CLOCK, DeadlinePassed, until
from local.demo.evidence import BodyLog, EventTap, Sweeps, is_empty, sweeps
from local.demo.ledger import (
    ENDS_OF_EXECUTIONS,
    ENDS_OF_NODES,
    BodyStart,
    Drop,
    Evidence,
    ExecutionRecord,
    Fact,
    Kill,
    NodeRecord,
    Resume,
)
from local.demo.reading import glance, record
from local.demo.scenario import Plan, Planned
from local.demo.verdict import Verdict, judge
from local.stack import Stack
from piton.domain.status import NodeStatus
from piton.ports import Counter as Figure

WATCHDOG: Final = "watchdog"
WORKER: Final = "worker-default"

_START_DEADLINE_S: Final = 60.0
_FAULT_DEADLINE_S: Final = 180.0
_END_DEADLINE_S: Final = 600.0
_DELIVERY_DEADLINE_S: Final = 30.0
_DRAIN_DEADLINE_S: Final = 20.0
_END_LOOK_S: Final = 0.5
_SHORTEST_BODY_S: Final = 1.0
_INTO_BODY_S: Final = 0.3
_BEFORE_END_S: Final = 0.5


@dataclass(slots=True)
class Run:
    """One run of a plan on a deployed stack."""

    stack: Stack
    api: Api
    plan: Plan
    board: Board
    tap: EventTap
    bodies: BodyLog
    since: int = field(default_factory=CLOCK.now_ms)
    rows: list[Row] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    drops: list[Drop] = field(default_factory=list)
    resumes: list[Resume] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    records: list[ExecutionRecord] = field(default_factory=list)

    def carry_out(self) -> Verdict:
        """Run the plan and judge what was seen. Raises `ApiError`."""
        self._start()
        for fault in (self._resume, self._kill, self._drop):
            try:
                fault()
            except DeadlinePassed as error:
                self._fails(str(error))
                break
        self._await_ends()
        return self._judge()

    def read_sweeps(self) -> Sweeps:
        """What the watchdog has done since the run began."""
        return sweeps(self.stack.aws.logs, self.stack.log_group(WATCHDOG), self.since)

    # --- Start ------------------------------------------------------------------------------

    def _start(self) -> None:
        workflow = self.api.register(self.plan.definition)
        self.board.note(
            f"registered {workflow['id']} version {workflow['version']} "
            f"with {workflow['nodeCount']} nodes"
        )
        for planned in self.plan.executions:
            self.rows.append(Row(planned.label, self._start_one(planned)))
        self.board.show(self.rows)
        self.board.note(f"started {len(self.rows)} execution(s) through GraphQL")

    def _start_one(self, planned: Planned) -> str:
        started = self.api.start(
            {
                "workflow": self.plan.workflow,
                "input": dict(planned.input),
                "idempotency": {"document": planned.document},
            }
        )
        execution_id: str = started["execution"]["id"]
        return execution_id

    # --- Faults -----------------------------------------------------------------------------

    def _resume(self) -> None:
        """Resume a healthy execution in the middle of a body: nothing may run again."""
        row = self.rows[self.plan.resume]
        until(
            lambda: self._completed(row) and self._in_progress(row),
            _START_DEADLINE_S,
            f"a node of {row.label} that runs behind one that has ended",
        )
        at = CLOCK.now_ms()
        self.api.resume(row.id)
        execution = self.api.resume(row.id)
        self.resumes.append(Resume(at, CLOCK.now_ms(), row.id))
        self.board.note(
            f"[bold]resumeExecution[/] on {row.label}, {execution['resumes']} times: "
            "what runs goes on, what has ended stays"
        )

    def _kill(self) -> None:
        row, planned = self.rows[self.plan.kill], self.plan.executions[self.plan.kill]

        def candidate() -> BodyStart | None:
            now = CLOCK.now_ms()
            return next(
                (
                    start
                    for start in reversed(self._in_progress(row))
                    if self._may_hit(start.node_id)
                    and _is_in_the_middle(planned.seconds(start.node_id), (now - start.at) / 1000)
                ),
                None,
            )

        kill = faults.kill_worker(
            self.stack,
            WORKER,
            candidate,
            self.bodies.starts,
            self._is_in_body,
            deadline_s=_FAULT_DEADLINE_S,
        )
        self.kills.append(kill)
        nodes = ", ".join(f"{self._label(each)}/{each.node_id}" for each in kill.victims)
        self.board.note(f"[bold red]SIGKILL[/] of worker process {kill.pid} in the body of {nodes}")

    def _is_in_body(self, start: BodyStart) -> bool:
        seen = glance(self.api, start.execution_id)
        return seen.nodes[start.node_id] == (NodeStatus.RUNNING, start.attempt)

    def _drop(self) -> None:
        row = self.rows[self.plan.drop]
        graph = _Graph.of(record(self.api, row.id).nodes)
        until(
            lambda: any(self._may_hit(start.node_id) for start in self._in_progress(row)),
            _FAULT_DEADLINE_S,
            f"a node of {row.label} that is about to complete",
        )

        def rank(fact: Fact) -> int | None:
            return (
                graph.rank(fact.node_id) if fact.node_id and self._may_hit(fact.node_id) else None
            )

        drop = faults.drop_completion(
            self.stack, row.id, rank, graph.successors, deadline_s=_FAULT_DEADLINE_S
        )
        self.drops.append(drop)
        self.board.note(
            f"[bold yellow]deleted[/] the completion message of {row.label}/{drop.node_id} "
            "from the advance queue"
        )
        self._check_that_it_was_decisive(drop)

    def _check_that_it_was_decisive(self, drop: Drop) -> None:
        """With every other message handled, none of the successors may have been queued."""
        try:
            until(
                self._advance_queue_is_empty,
                _DRAIN_DEADLINE_S,
                "an empty advance queue",
            )
        except DeadlinePassed:
            self.board.note("the advance queue is busy with other nodes", "dim")
        seen = glance(self.api, drop.execution_id)
        advanced = [
            node_id
            for node_id in drop.successors
            if seen.nodes[node_id][0] is not NodeStatus.PENDING
        ]
        if not advanced:
            waiting = len(drop.successors)
            self.board.note(f"{waiting} successor(s) wait for it: nobody else will tell them")
        elif not self.read_sweeps().counters.get(Figure.FRONTIER_RECOVERED):
            self._fails(f"{', '.join(advanced)} went on without the message that was dropped")

    def _may_hit(self, node_id: str) -> bool:
        return self.plan.target in (None, node_id)

    def _completed(self, row: Row) -> set[str]:
        return {
            fact.node_id
            for fact in self.tap.facts()
            if fact.node_id and fact.execution_id == row.id and fact.type in ENDS_OF_NODES
        }

    def _in_progress(self, row: Row) -> list[BodyStart]:
        """Bodies whose node has not ended, as far as the bus has told."""
        ended = self._completed(row)
        return [
            start
            for start in self.bodies.starts()
            if start.execution_id == row.id and start.node_id not in ended
        ]

    # --- End --------------------------------------------------------------------------------

    def _await_ends(self) -> None:
        """Wait until the bus has told of every end, then until nothing more arrives."""
        try:
            until(self._all_ended, _END_DEADLINE_S, "the end of every execution", every_s=0.5)
            until(self.tap.is_drained, _DELIVERY_DEADLINE_S, "the last event", every_s=0.5)
        except DeadlinePassed as error:
            self._fails(str(error))

    def _all_ended(self) -> bool:
        ended = {fact.execution_id for fact in self.tap.facts() if fact.type in ENDS_OF_EXECUTIONS}
        return ended >= {row.id for row in self.rows}

    def _advance_queue_is_empty(self) -> bool:
        return is_empty(self.stack.aws.sqs, self.stack.outputs.advance_queue_url)

    def _judge(self) -> Verdict:
        sweeps = self.read_sweeps()
        self.board.swept(sweeps)
        self.records = [record(self.api, row.id) for row in self.rows]
        evidence = Evidence(
            records=self.records,
            bodies=self.bodies.starts(),
            facts=self.tap.facts(),
            metrics=sweeps.counters,
        )
        expected = {
            row.id: planned.expected
            for row, planned in zip(self.rows, self.plan.executions, strict=True)
        }
        return judge(
            evidence,
            expected,
            kills=self.kills,
            drops=self.drops,
            resumes=self.resumes,
            failures=self.failures,
        )

    def _label(self, start: BodyStart) -> str:
        return self.labels.get(start.execution_id, start.execution_id)

    @property
    def labels(self) -> dict[str, str]:
        """What the executions are called, by id."""
        return {row.id: row.label for row in self.rows}

    def _fails(self, what: str) -> None:
        self.failures.append(what)
        self.board.note(f"[bold red]failed[/] {what}")


@dataclass(frozen=True, slots=True)
class _Graph:
    """Who comes after whom."""

    children: Mapping[str, tuple[str, ...]]
    in_degree: Mapping[str, int]

    @classmethod
    def of(cls, nodes: Sequence[NodeRecord]) -> _Graph:
        children: dict[str, tuple[str, ...]] = {node.id: () for node in nodes}
        for node in nodes:
            for parent in node.needs:
                children[parent] += (node.id,)
        return cls(children, {node.id: len(node.needs) for node in nodes})

    def successors(self, node_id: str) -> tuple[str, ...]:
        return self.children[node_id]

    def rank(self, node_id: str) -> int | None:
        """A lost completion shows best where a successor waits for nobody else."""
        children = self.children.get(node_id, ())
        if not children:
            return None
        return 0 if any(self.in_degree[child] == 1 for child in children) else 1


def _is_in_the_middle(takes_s: float, age_s: float) -> bool:
    return takes_s >= _SHORTEST_BODY_S and _INTO_BODY_S <= age_s <= takes_s - _BEFORE_END_S
