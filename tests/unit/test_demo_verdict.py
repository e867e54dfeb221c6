"""The demo's judgement: a clean run passes, and every kind of damage is found."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from local.demo.ledger import (
    BodyStart,
    Drop,
    Evidence,
    ExecutionRecord,
    Expected,
    Fact,
    Kill,
    NodeRecord,
    Resume,
)
from local.demo.verdict import Verdict, judge
from piton.domain.status import EventType, ExecutionStatus, NodeStatus

RUN = "01"
HEALED = {"StalledNodeRecovered": 1.0, "LostFrontierRecovered": 1.0}


def start(node: str, at: int, fence: int = 1, pid: int = 7) -> BodyStart:
    return BodyStart(at, pid, "acme", RUN, 0, node, fence, fence)


def ended(node: str, at: int, kind: EventType = EventType.NODE_COMPLETED, fence: int = 1) -> Fact:
    return Fact(kind, f"{RUN}/{node}/{fence}/{kind}", RUN, at, node, fence)


def terminal(kind: EventType = EventType.WORKFLOW_COMPLETED, at: int = 900) -> Fact:
    return Fact(kind, f"{RUN}/-/0/{kind}", RUN, at)


def completed(node: str, queued: int, at: int, *needs: str) -> NodeRecord:
    return NodeRecord(node, NodeStatus.COMPLETED, needs, queued, at)


CLEAN = Evidence(
    records=[
        ExecutionRecord(
            RUN,
            ExecutionStatus.COMPLETED,
            (
                completed("a", 100, 200),
                completed("b", 300, 400, "a"),
                NodeRecord("c", NodeStatus.SKIPPED, ("a",), None, 300),
            ),
        )
    ],
    bodies=[start("a", 110), start("b", 310)],
    facts=[
        ended("a", 200),
        ended("b", 400),
        ended("c", 300, EventType.NODE_SKIPPED),
        terminal(),
    ],
)


def with_nodes(*nodes: NodeRecord, status: ExecutionStatus) -> list[ExecutionRecord]:
    return [ExecutionRecord(RUN, status, nodes)]


def verdict_of(evidence: Evidence) -> Verdict:
    return judge(evidence, {RUN: Expected()})


def test_a_clean_run_is_ok() -> None:
    verdict = judge(
        CLEAN, {RUN: Expected(nodes={"b": NodeStatus.COMPLETED, "c": NodeStatus.SKIPPED})}
    )
    assert verdict.problems == ()
    assert verdict.to_json(1.5) == {
        "ok": True,
        "executions": [
            {"id": RUN, "status": "completed", "nodes": 3, "body_runs": 2, "terminal_events": 1}
        ],
        "finished_nodes_rerun": 0,
        "lost": 0,
        "double_completions": 0,
        "kill_to_next_claim_s": None,
        "lost_signal_to_advance_s": None,
        "wall_s": 1.5,
        "metrics": {},
    }


def test_repeated_deliveries_of_a_fact_are_one_end() -> None:
    verdict = verdict_of(replace(CLEAN, facts=[*CLEAN.facts, *CLEAN.facts]))
    assert verdict.ok
    assert verdict.executions[0].terminal_events == 1


def test_a_body_that_starts_after_its_node_ended_is_a_rerun() -> None:
    verdict = verdict_of(replace(CLEAN, bodies=[*CLEAN.bodies, start("a", 201, fence=2)]))
    assert (verdict.ok, verdict.finished_nodes_rerun) == (False, 1)


def test_the_row_alone_convicts_a_rerun_too() -> None:
    facts = [fact for fact in CLEAN.facts if fact.node_id != "a"]
    bodies = [*CLEAN.bodies, start("a", 201, fence=2)]
    assert verdict_of(replace(CLEAN, facts=facts, bodies=bodies)).finished_nodes_rerun == 1


def test_a_superseded_body_that_started_before_the_end_is_none() -> None:
    bodies = [start("a", 110), start("a", 150, fence=2), start("b", 310)]
    facts = [ended("a", 200, fence=2), *CLEAN.facts[1:]]
    assert verdict_of(replace(CLEAN, bodies=bodies, facts=facts)).problems == ()


def test_two_bodies_under_one_fence_are_found() -> None:
    verdict = verdict_of(replace(CLEAN, bodies=[*CLEAN.bodies, start("a", 150, pid=8)]))
    assert verdict.problems == ("01/a: 2 bodies ran under fence 1",)


@pytest.mark.parametrize("status", [NodeStatus.PENDING, NodeStatus.QUEUED, NodeStatus.RUNNING])
def test_a_node_left_open_under_a_completed_execution_is_lost(status: NodeStatus) -> None:
    nodes = [
        replace(node, status=status) if node.id == "b" else node for node in CLEAN.records[0].nodes
    ]
    records = with_nodes(*nodes, status=ExecutionStatus.COMPLETED)
    assert verdict_of(replace(CLEAN, records=records)).lost == 1


def test_nodes_that_a_failed_execution_never_reached_are_not_lost() -> None:
    evidence = Evidence(
        records=with_nodes(
            NodeRecord("a", NodeStatus.FAILED, (), 100, 200, "BROKEN"),
            NodeRecord("b", NodeStatus.PENDING, ("a",)),
            status=ExecutionStatus.FAILED,
        ),
        bodies=[start("a", 110)],
        facts=[ended("a", 200, EventType.NODE_FAILED), terminal(EventType.WORKFLOW_FAILED)],
    )
    verdict = judge(evidence, {RUN: Expected(ExecutionStatus.FAILED)})
    assert verdict.problems == ()

    running = with_nodes(
        NodeRecord("a", NodeStatus.FAILED, (), 100, 200, "BROKEN"),
        NodeRecord("b", NodeStatus.RUNNING, ()),
        status=ExecutionStatus.FAILED,
    )
    assert judge(replace(evidence, records=running), {RUN: Expected(ExecutionStatus.FAILED)}).lost


def test_an_execution_without_an_end_is_lost() -> None:
    silent = replace(CLEAN, facts=[fact for fact in CLEAN.facts if fact.node_id])
    assert verdict_of(silent).lost == 1
    open_ = with_nodes(*CLEAN.records[0].nodes, status=ExecutionStatus.RUNNING)
    assert verdict_of(replace(CLEAN, records=open_)).lost == 1
    assert judge(CLEAN, {RUN: Expected(), "02": Expected()}).lost == 1


def test_an_end_that_the_row_does_not_know_is_lost() -> None:
    nodes = [
        replace(node, status=NodeStatus.PENDING, finished_at=None) if node.id == "a" else node
        for node in CLEAN.records[0].nodes
    ]
    evidence = replace(CLEAN, records=with_nodes(*nodes, status=ExecutionStatus.FAILED))
    assert verdict_of(evidence).lost == 1


@pytest.mark.parametrize(
    "second",
    [
        terminal(EventType.WORKFLOW_FAILED),
        terminal(at=950),
        ended("a", 205, fence=2),
        ended("a", 210),
        ended("a", 200, EventType.NODE_FAILED),
    ],
)
def test_a_second_end_is_a_double_completion(second: Fact) -> None:
    verdict = verdict_of(replace(CLEAN, facts=[*CLEAN.facts, second]))
    assert (verdict.ok, verdict.double_completions) == (False, 1)


@pytest.mark.parametrize(
    ("evidence", "problem"),
    [
        (replace(CLEAN, bodies=CLEAN.bodies[:1]), "01/b is completed and no body ran"),
        (
            replace(CLEAN, bodies=[*CLEAN.bodies, start("c", 250)]),
            "01/c is skipped and 1 bodies ran",
        ),
        (replace(CLEAN, facts=CLEAN.facts[1:]), "01/a is completed and announced nothing"),
        (
            replace(CLEAN, facts=[*CLEAN.facts[:3], terminal(EventType.WORKFLOW_FAILED)]),
            "01 is completed and sent workflow.failed",
        ),
    ],
)
def test_sources_that_contradict_each_other_are_found(evidence: Evidence, problem: str) -> None:
    assert problem in verdict_of(evidence).problems


def test_an_outcome_other_than_the_planned_one_is_found() -> None:
    verdict = judge(CLEAN, {RUN: Expected(ExecutionStatus.FAILED, {"c": NodeStatus.COMPLETED})})
    assert verdict.problems == (
        "01 is completed (None), not failed",
        "01/c is skipped, not completed",
    )


def test_a_kill_and_a_drop_are_measured_to_their_recovery() -> None:
    kill = Kill(at=150, pid=7, victims=(start("a", 110),))
    drop = Drop(at=250, execution_id=RUN, node_id="a", successors=("b", "c"))
    evidence = replace(
        CLEAN,
        records=with_nodes(
            completed("a", 100, 2650),
            completed("b", 6250, 6400, "a"),
            replace(CLEAN.records[0].nodes[2], finished_at=6300),
            status=ExecutionStatus.COMPLETED,
        ),
        bodies=[start("a", 110), start("a", 2150, fence=2, pid=8), start("b", 6310)],
        facts=[ended("a", 2650, fence=2), *CLEAN.facts[1:]],
        metrics=HEALED,
    )
    evidence = replace(evidence, facts=[*evidence.facts[:1], ended("b", 6400), *evidence.facts[2:]])
    verdict = judge(evidence, {RUN: Expected()}, kills=[kill], drops=[drop])
    assert verdict.problems == ()
    assert verdict.kill_to_next_claim_s == 2.0
    assert verdict.lost_signal_to_advance_s == 6.0

    unaided = judge(replace(evidence, metrics={}), {RUN: Expected()}, kills=[kill], drops=[drop])
    assert unaided.problems == (
        "the watchdog counted 0 StalledNodeRecovered",
        "the watchdog counted 0 LostFrontierRecovered",
    )


def test_faults_that_nothing_healed_are_found() -> None:
    kill = Kill(at=150, pid=7, victims=(start("a", 110),))
    drop = Drop(at=250, execution_id=RUN, node_id="a", successors=("c",))
    parked = replace(CLEAN, metrics={**HEALED, "ExecutionParked": 1.0})
    verdict = judge(parked, {RUN: Expected()}, kills=[kill], drops=[drop])
    assert verdict.problems == (
        "not every victim of process 7 was claimed again",
        "01/a: nothing followed the dropped message",
        "the watchdog parked 1 execution(s)",
    )
    assert (verdict.kill_to_next_claim_s, verdict.lost_signal_to_advance_s) == (None, None)


def test_a_node_that_resume_runs_again_is_found() -> None:
    again = replace(
        CLEAN,
        bodies=[start("a", 110), start("a", 150, fence=2), start("b", 310)],
        facts=[ended("a", 200, fence=2), *CLEAN.facts[1:]],
    )
    resume = Resume(at=120, answered=130, execution_id=RUN)
    verdict = judge(again, {RUN: Expected()}, resumes=[resume])
    assert verdict.problems == ("01/a ran again after resumeExecution",)

    killed = Kill(at=140, pid=7, victims=(start("a", 110),))
    healed = replace(again, metrics=HEALED)
    assert judge(healed, {RUN: Expected()}, resumes=[resume], kills=[killed]).ok
    assert judge(again, {RUN: Expected()}, resumes=[replace(resume, answered=105)]).ok


def test_what_went_wrong_in_the_run_itself_is_not_ok() -> None:
    assert not judge(CLEAN, {RUN: Expected()}, failures=["no fault could be made"]).ok


def test_long_lists_of_problems_are_cut() -> None:
    verdict = judge(CLEAN, {RUN: Expected()}, failures=[str(number) for number in range(30)])
    assert len(verdict.problems) == 21
    assert verdict.problems[-1] == "and 10 more"


def test_sources_are_read_as_they_are_written() -> None:
    line = {
        "at": 5,
        "pid": 6,
        "schema_version": 1,
        "tenant": "acme",
        "execution_id": RUN,
        "pool": "default",
        "ordinal": 0,
        "node_id": "a",
        "fence": 2,
        "attempt": 2,
        "not_before": 1,
    }
    assert BodyStart.parse(json.dumps(line)) == BodyStart(5, 6, "acme", RUN, 0, "a", 2, 2)

    node = {
        "event_id": "e",
        "execution_id": RUN,
        "node_id": "a",
        "fence": 2,
        "occurred_at": 9,
        "tenant": "acme",
    }
    envelope = {"source": "piton", "detail-type": "workflow.node.completed", "detail": node}
    assert Fact.parse(json.dumps(envelope)) == Fact(EventType.NODE_COMPLETED, "e", RUN, 9, "a", 2)
    # An execution that failed names the node it failed at: that is no end of the node.
    whole = {"event_id": "e", "execution_id": RUN, "node_id": "a", "occurred_at": None}
    envelope = {"source": "piton", "detail-type": "workflow.failed", "detail": whole}
    assert Fact.parse(json.dumps(envelope)) == Fact(EventType.WORKFLOW_FAILED, "e", RUN, 0)
