"""After the last fault: did every execution come to what it had to come to?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from local.simulator.bodies import result_of
from local.simulator.conditions import evaluate
from local.simulator.faults import Kind
from local.simulator.generate import PERMANENT_CODE, TRANSIENT_CODE
from local.simulator.host import Violation
from local.simulator.oracle import Outcome, Verdict, judge
from local.simulator.scenario import Behaviour, BodyPlan, NodePlan, Recovery, Scenario
from local.simulator.world import World
from piton.domain import canonical
from piton.domain.canonical import Json
from piton.domain.compile import NodeSpec
from piton.domain.errors import ErrorCode
from piton.domain.rows import ExecutionRef, ExecutionRow, LogEntry, NodeRow
from piton.domain.status import LIVE_NODE_STATUSES, ExecutionStatus, NodeStatus, Reason

INTERFERENCE: Final = frozenset(
    {
        Reason.LEASE_EXPIRED,
        Reason.NODE_HUNG,
        Reason.DELIVERY_EXHAUSTED,
        Reason.PAYLOADS_UNAVAILABLE,
    }
)
"""Reasons of attempts that ended by what was done to them, not by what their body did."""

_NATURAL_CODES: Final = {
    Behaviour.FAILS_FOR_NOW: TRANSIENT_CODE,
    Behaviour.FAILS_FOR_GOOD: PERMANENT_CODE,
    Behaviour.BREAKS: Reason.TASK_ERROR.value,
    Behaviour.TIMES_OUT: Reason.NODE_TIMEOUT.value,
    Behaviour.HANGS: Reason.NODE_HUNG.value,
    Behaviour.NOT_JSON: Reason.RESULT_NOT_JSON.value,
    Behaviour.TOO_LARGE: Reason.RESULT_TOO_LARGE.value,
}
_LATEST_COMMIT_MS: Final = 5000
"""How long after its caller's time a write may still take effect."""

_PERMANENT: Final = frozenset({Behaviour.FAILS_FOR_GOOD, Behaviour.NOT_JSON, Behaviour.TOO_LARGE})


def audit(scenario: Scenario, world: World) -> None:
    """Raise `Violation` unless every execution ended as it must."""
    # A request that is delayed beyond its own deadline is refused.
    refused = world.clients.refused_starts if scenario.deadline_s is not None else []
    in_the_past = refused.count(ErrorCode.INVALID_INPUT)
    if not scenario.executions - in_the_past <= len(world.refs) <= scenario.executions:
        raise Violation(f"{len(world.refs)} executions for {scenario.executions} requests")
    for ref in world.refs:
        _Audit(scenario, world, ref).check()


@dataclass(frozen=True)
class _Audit:
    scenario: Scenario
    world: World
    ref: ExecutionRef

    def check(self) -> None:
        rows = self.world.watch.rows
        execution = rows.executions[self.ref]
        nodes = rows.of(self.ref)
        if self._watched:
            self._nothing_is_live(execution, nodes)
        else:
            self._has_ended_by_itself(execution, nodes)
        for node in self.scenario.nodes:
            if node.id in nodes:
                self._attempts_are_explained(node, nodes[node.id], execution)
        verdict = self._verdict(nodes)
        self._end_is_right(execution, verdict)
        for node in self.scenario.nodes:
            self._node_is_right(nodes.get(node.id), node.id, verdict, execution)

    def _nothing_is_live(self, execution: ExecutionRow, nodes: Mapping[str, NodeRow]) -> None:
        if not execution.terminal or execution.due_at is not None:
            self._fail(f"{execution.status}, due at {execution.due_at}")
        live = [row.node_id for row in nodes.values() if row.status in LIVE_NODE_STATUSES]
        if live:
            self._fail(f"{live} live under an execution that is {execution.status}")

    @property
    def _watched(self) -> bool:
        return self.scenario.recovery is Recovery.WATCHDOG

    def _has_ended_by_itself(self, execution: ExecutionRow, nodes: Mapping[str, NodeRow]) -> None:
        """Without a watchdog: only what was queued after the end, or news of it lost, is left."""
        if not execution.terminal:
            self._fail(f"{execution.status} for good where nothing watches over it")
        expected = self.world.watch.rows.left_queued if self._told_of_its_end else set()
        for row in nodes.values():
            left = (self.ref, row.node_id, row.fence) in expected
            if row.status is NodeStatus.RUNNING or (row.status in LIVE_NODE_STATUSES and left):
                self._fail(f"{row.node_id}: {row.status} for good, {execution.status} as it is")

    @property
    def _told_of_its_end(self) -> bool:
        return self.scenario.recovery is Recovery.NOBODY

    # --- Attempts --------------------------------------------------------------------------

    def _attempts_are_explained(
        self, plan: NodePlan, row: NodeRow, execution: ExecutionRow
    ) -> None:
        """Each attempt ended as its body did, or by a fault that struck."""
        attempt = 1
        for entry in row.log:
            if entry.transition in ("N7", "N8", "N10"):
                self._failure_is_explained(plan, attempt, entry)
                attempt += entry.not_before is not None
            # Its worker would have recorded an end, or have given the claim back (N15).
            hangs = plan.attempt(attempt).behaviour is Behaviour.HANGS
            if entry.transition == "N14" and not (hangs or self._may_cost_attempts):
                self._fail(f"{plan.id}: attempt {attempt} was left behind by its worker")
        if attempt != row.attempt and row.attempt:
            self._fail(f"{plan.id}: attempt {row.attempt}, the history has {attempt}")
        if row.attempt > plan.max_attempts:
            self._fail(f"{plan.id}: attempt {row.attempt} of {plan.max_attempts}")
        if row.status is NodeStatus.COMPLETED:
            self._result_is_right(plan, row)
        if row.status is NodeStatus.FAILED:
            final = plan.attempt(row.attempt).behaviour in _PERMANENT or plan.missing_task
            late = row.finished_at >= execution.ends_by
            if not (final or late or row.attempt == plan.max_attempts):
                self._fail(f"{plan.id}: failed with attempts left")

    @property
    def _may_cost_attempts(self) -> bool:
        """True when some attempt may have been used up by something other than its body."""
        return self.scenario.skewed or any(
            fault.may_cost_an_attempt for fault in self.world.host.plan.struck
        )

    def _failure_is_explained(self, plan: NodePlan, attempt: int, entry: LogEntry) -> None:
        body = plan.attempt(attempt)
        natural = _natural_code(plan, body)
        if entry.reason == natural:
            final = body.behaviour in _PERMANENT or plan.missing_task
            if final and entry.transition == "N7":
                self._fail(f"{plan.id}: {natural} was repeated, which ends a node for good")
            return
        if entry.reason not in INTERFERENCE or not self._may_cost_attempts:
            self._fail(f"{plan.id}: attempt {attempt} ended with {entry.reason}, not {natural}")

    def _result_is_right(self, plan: NodePlan, row: NodeRow) -> None:
        outcome = self.world.watch.rows.outcomes(self.ref)[plan.id]
        body = plan.attempt(row.attempt)
        if _natural_code(plan, body) is not None:
            self._fail(f"{plan.id}: completed in attempt {row.attempt}, which had to fail")
        if row.result_hash != canonical.digest(canonical.dumps(outcome.result)):
            self._fail(f"{plan.id}: the result is not the one of its hash")

    # --- The whole -------------------------------------------------------------------------

    def _verdict(self, nodes: Mapping[str, NodeRow]) -> Verdict:
        def runs(spec: NodeSpec, inputs: Json) -> Outcome:
            row = nodes.get(spec.id)
            plan = self.scenario.plans[spec.id]
            if row is not None and row.status is NodeStatus.FAILED:
                return Outcome(NodeStatus.FAILED, reason=row.reason)
            attempt = row.attempt if row and row.status is NodeStatus.COMPLETED else None
            return _natural(plan, inputs, attempt)

        specs = [node.spec for node in self.scenario.nodes]
        return judge(specs, dict(self.scenario.input), evaluate, runs)

    def _end_is_right(self, execution: ExecutionRow, verdict: Verdict) -> None:
        end = (execution.status, execution.reason)
        finished = execution.finished_at or 0
        match end:
            case (ExecutionStatus.COMPLETED, None):
                right = not verdict.fatal
            case (ExecutionStatus.FAILED, Reason.TIMED_OUT):
                timed_out = self.scenario.timeout_s is not None and finished >= execution.ends_by
                right = timed_out and not self._had_long_finished()
            case (ExecutionStatus.FAILED, reason):
                right = verdict.fatal.get(execution.node or "") == reason
            case (ExecutionStatus.CANCELLED, Reason.DEADLINE_PASSED):
                too_late = execution.deadline is not None and finished >= execution.deadline
                right = too_late and not self._had_long_finished()
            case (ExecutionStatus.CANCELLED, Reason.CANCELLED_BY_CALLER):
                right = any(f.kind is Kind.CANCEL for f in self.world.host.plan.struck)
            case _:
                right = False
        if not right:
            self._fail(
                f"ended {execution.status} {execution.reason} at {execution.node}, "
                f"fatal nodes are {dict(verdict.fatal)}"
            )

    def _had_long_finished(self) -> bool:
        """True when all that had to run had, or a fatal failure, before the ending sweep began.

        A sweep takes in what had finished before it ends an execution for its time.
        """
        rows = self.world.watch.rows
        began = rows.ends[self.ref, ""] - self.world.settings.handler_timeout_ms - _LATEST_COMMIT_MS
        outcomes = {
            node_id: outcome
            for node_id, outcome in rows.outcomes(self.ref).items()
            if rows.ends[self.ref, node_id] < began
        }
        unfinished: list[str] = []

        def runs(spec: NodeSpec, inputs: Json) -> Outcome:
            del inputs
            if spec.id not in outcomes:
                unfinished.append(spec.id)
            return outcomes.get(spec.id, Outcome(NodeStatus.FAILED))

        specs = [node.spec for node in self.scenario.nodes]
        verdict = judge(specs, dict(self.scenario.input), evaluate, runs)
        return not unfinished or bool(verdict.fatal.keys() & outcomes.keys())

    def _node_is_right(
        self, row: NodeRow | None, node_id: str, verdict: Verdict, execution: ExecutionRow
    ) -> None:
        status = row.status if row else NodeStatus.PENDING
        expected = verdict.outcomes.get(node_id)
        if execution.status is ExecutionStatus.COMPLETED:
            allowed = {expected.status} if expected else {NodeStatus.PENDING}
        else:
            allowed = {NodeStatus.PENDING}
            if expected is not None:
                allowed |= {expected.status}
                if expected.status is not NodeStatus.SKIPPED:
                    allowed |= {NodeStatus.CANCELLED}
                    allowed |= set() if self._watched else {NodeStatus.QUEUED}
        if status not in allowed:
            self._fail(f"{node_id}: {status}, expected one of {sorted(allowed)}")
        if row is None or expected is None or status is not NodeStatus.COMPLETED:
            return
        outcome = self.world.watch.rows.outcomes(self.ref)[node_id]
        if outcome.result != expected.result:
            self._fail(f"{node_id}: result {outcome.result}, expected {expected.result}")

    def _fail(self, message: str) -> None:
        raise Violation(f"{self.ref.execution_id}: {message}")


def _natural_code(plan: NodePlan, body: BodyPlan) -> str | None:
    if plan.missing_task:
        return Reason.TASK_NOT_FOUND.value
    return _NATURAL_CODES.get(body.behaviour)


def _natural(plan: NodePlan, inputs: Json, attempt: int | None) -> Outcome:
    """How a node ends that nothing interferes with, or how its given attempt does."""
    attempts = range(1, plan.max_attempts + 1) if attempt is None else (attempt,)
    outcome = Outcome(NodeStatus.FAILED)
    for number in attempts:
        body = plan.attempt(number)
        code = _natural_code(plan, body)
        if code is None:
            result = result_of(plan.id, body.behaviour, inputs)
            return Outcome(NodeStatus.COMPLETED, result)
        outcome = Outcome(NodeStatus.FAILED, reason=code)
        if body.behaviour in _PERMANENT or plan.missing_task:
            break
    return outcome
