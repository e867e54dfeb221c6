"""The run itself: start, hurt, wait, judge."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from local.client import Api
from local.demo import faults
from local.demo.aim import Graph, is_in_the_middle
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
    Resume,
)
from local.demo.reading import glance, record
from local.demo.scenario import Plan, Planned
from local.demo.verdict import Verdict, judge
from local.stack import Stack
from piton.domain.status import EventType, NodeStatus
from piton.ports import Counter as Figure

WATCHDOG: Final = "watchdog"
WORKER: Final = "worker-default"

_START_DEADLINE_S: Final = 120.0
_FAULT_DEADLINE_S: Final = 180.0
_END_DEADLINE_S: Final = 600.0
_DELIVERY_DEADLINE_S: Final = 30.0
_DRAIN_DEADLINE_S: Final = 20.0
_LOOK_S: Final = 0.5
_RESUMES: Final = 2


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
            lambda: (
                len(self._ended(row)) >= self.plan.ended_before_resume and self._in_progress(row)
            ),
            _START_DEADLINE_S,
            f"a node of {row.label} that runs",
        )
        at = CLOCK.now_ms()
        for _ in range(_RESUMES):
            self.api.resume(row.id)
        self.resumes.append(Resume(at, CLOCK.now_ms(), row.id))
        self.board.note(
            f"[bold]resumeExecution[/] on {row.label}, {_RESUMES} times: "
            "what runs goes on, what has ended stays"
        )

    def _kill(self) -> None:
        row, planned = self.rows[self.plan.kill], self.plan.executions[self.plan.kill]
        graph = self._graph(row)

        def candidate() -> BodyStart | None:
            now = CLOCK.now_ms()
            return next(
                (
                    start
                    for start in reversed(self._in_progress(row))
                    if self._may_hit(graph, start.node_id)
                    and is_in_the_middle(planned.seconds(start.node_id), (now - start.at) / 1000)
                ),
                None,
            )

        kill = faults.kill_worker(
            self.stack,
            WORKER,
            candidate,
            self.bodies.starts,
            deadline_s=_FAULT_DEADLINE_S,
        )
        self.kills.append(kill)
        nodes = ", ".join(f"{self._label(each)}/{each.node_id}" for each in kill.victims)
        self.board.note(f"[bold red]SIGKILL[/] of worker process {kill.pid} in the body of {nodes}")

    def _drop(self) -> None:
        row = self.rows[self.plan.drop]
        # A resume that is still on its way would find what is about to be lost.
        until(self._resumes_are_handled, _START_DEADLINE_S, "the end of resumeExecution")
        graph = self._graph(row)
        until(
            lambda: any(self._may_hit(graph, start.node_id) for start in self._in_progress(row)),
            _FAULT_DEADLINE_S,
            f"a node of {row.label} that is about to complete",
        )

        def rank(fact: Fact) -> int | None:
            node_id = fact.node_id or ""
            return graph.rank(node_id) if self._may_hit(graph, node_id) else None

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

    def _graph(self, row: Row) -> Graph:
        return Graph.of(record(self.api, row.id).nodes)

    def _may_hit(self, graph: Graph, node_id: str) -> bool:
        """A node that others wait for: a fault in it would hold them up for ever."""
        return self.plan.target in (None, node_id) and bool(graph.successors(node_id))

    def _resumes_are_handled(self) -> bool:
        asked = {
            fact.event_id for fact in self.tap.facts() if fact.type is EventType.RESUME_REQUESTED
        }
        return len(asked) == _RESUMES and self._advance_queue_is_empty()

    def _ended(self, row: Row) -> set[str]:
        return {
            fact.node_id
            for fact in self.tap.facts()
            if fact.node_id and fact.execution_id == row.id and fact.type in ENDS_OF_NODES
        }

    def _in_progress(self, row: Row) -> list[BodyStart]:
        """Bodies that live and whose node has not ended, as far as is known."""
        ended = self._ended(row)
        dead = {victim for kill in self.kills for victim in kill.victims}
        return [
            start
            for start in self.bodies.starts()
            if start.execution_id == row.id and start.node_id not in ended and start not in dead
        ]

    # --- End --------------------------------------------------------------------------------

    def _await_ends(self) -> None:
        """Wait until the bus has told of every end, then until nothing more arrives."""
        try:
            until(self._all_ended, _END_DEADLINE_S, "the end of every execution", every_s=_LOOK_S)
            until(self.tap.is_drained, _DELIVERY_DEADLINE_S, "the last event", every_s=_LOOK_S)
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
