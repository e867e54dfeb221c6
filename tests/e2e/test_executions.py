"""Executions on the deployed stacks: to their end, through crashes and lost messages."""

from __future__ import annotations

import json

import pytest

from examples.invoices.batch import SAMPLES, WORKFLOW, execution_input
from local.client import ApiRejected
from local.demo import faults
from local.demo.clock import CLOCK
from local.demo.evidence import sweeps
from local.demo.ledger import BodyStart, Expected, Resume
from local.demo.reading import record
from piton.domain.status import EventType, ExecutionStatus, NodeStatus
from tests.e2e.scene import DEADLINE_S, WORKER, Scene, definition

DONE, SKIPPED, FAILED = NodeStatus.COMPLETED, NodeStatus.SKIPPED, NodeStatus.FAILED


def test_documents_are_accepted_rejected_or_refused(scene: Scene) -> None:
    workflow = scene.api.register(WORKFLOW.read_text("utf-8"))["id"]
    accepted, rejected, broken = (
        scene.start(workflow, execution_input(SAMPLES / name))
        for name in (
            "nordlicht-RE-2025-0417.xml",
            "nordlicht-RE-2025-0431.pdf",
            "malformed/truncated.xml",
        )
    )
    scene.ends(accepted, rejected, broken)
    verdict = scene.judge(
        {
            accepted: Expected(nodes={"post": DONE, "reject": SKIPPED}),
            rejected: Expected(nodes={"post": SKIPPED, "reject": DONE}),
            broken: Expected(ExecutionStatus.FAILED, {"ingest": DONE, "extract": FAILED}),
        }
    )
    assert verdict.problems == ()
    assert [each.body_runs for each in verdict.executions] == [8, 8, 2]

    execution = scene.api.execution(accepted, payloads=True)
    assert execution is not None
    assert execution["output"]["post"]["number"] == "RE-2025-0417"
    failed = scene.api.execution(broken)
    assert failed is not None
    assert (failed["reason"], failed["reasonNode"]) == ("XML_MALFORMED", "extract")


def test_a_key_starts_one_execution(scene: Scene) -> None:
    workflow = scene.api.register(definition("once", {"a": (0, [])}))["id"]
    asked = {"workflow": workflow, "input": {"n": 1}, "idempotency": {"document": "doc-1"}}
    first, second = scene.api.start(asked), scene.api.start(asked)
    assert (first["created"], second["created"]) == (True, False)
    assert first["execution"]["id"] == second["execution"]["id"]
    with pytest.raises(ApiRejected) as refusal:
        scene.api.start({**asked, "input": {"n": 2}})
    assert refusal.value.code == "IDEMPOTENCY_CONFLICT"
    scene.ends(first["execution"]["id"])


def test_a_killed_worker_costs_its_attempt_and_nothing_else(scene: Scene) -> None:
    began = CLOCK.now_ms()
    id_ = scene.run(
        definition("killed", {"before": (0, []), "body": (4, ["before"]), "after": (0, ["body"])})
    )

    def candidate() -> BodyStart | None:
        return next((each for each in scene.starts(id_) if each.node_id == "body"), None)

    kill = faults.kill_worker(
        scene.stack, WORKER, candidate, scene.bodies.starts, deadline_s=DEADLINE_S
    )
    scene.ends(id_, sweeping=True)
    metrics = sweeps(scene.stack.aws.logs, scene.stack.log_group("watchdog"), began).counters
    verdict = scene.judge({id_: Expected()}, kills=[kill], metrics=metrics)
    assert verdict.problems == ()
    assert [(each.node_id, each.attempt) for each in scene.starts(id_)] == [
        ("before", 1),
        ("body", 1),
        ("body", 2),
        ("after", 1),
    ]
    outcomes = [attempt.outcome for attempt in record(scene.api, id_).node("body").attempts]
    assert outcomes == ["RETRIED", "COMPLETED"]


def test_a_lost_completion_is_made_up_for_by_the_next_sweep(scene: Scene) -> None:
    began = CLOCK.now_ms()
    id_ = scene.run(definition("lost", {"first": (2, []), "second": (0, ["first"])}))
    drop = scene.lose_completion(id_, "first", "second")
    assert scene.status(id_, "first") is DONE
    assert scene.status(id_, "second") is NodeStatus.PENDING

    scene.ends(id_, sweeping=True)
    metrics = sweeps(scene.stack.aws.logs, scene.stack.log_group("watchdog"), began).counters
    verdict = scene.judge({id_: Expected()}, drops=[drop], metrics=metrics)
    assert verdict.problems == ()
    assert verdict.executions[0].body_runs == 2


def test_resume_on_a_running_execution_runs_nothing_again(scene: Scene) -> None:
    id_ = scene.run(definition("resumed", {"a": (0, []), "b": (3, ["a"]), "c": (0, ["b"])}))
    scene.until(lambda: len(scene.starts(id_)) == 2, "the second body")
    at = CLOCK.now_ms()
    assert scene.api.resume(id_)["resumes"] == 1
    assert scene.api.resume(id_)["resumes"] == 2
    resume = Resume(at, CLOCK.now_ms(), id_)
    scene.until(
        lambda: len(scene.facts(id_, EventType.RESUME_REQUESTED)) == 2, "both requests on the bus"
    )
    scene.ends(id_)
    verdict = scene.judge({id_: Expected()}, resumes=[resume])
    assert verdict.problems == ()
    assert verdict.executions[0].body_runs == 3


def test_resume_takes_over_what_a_lost_message_left_behind(scene: Scene) -> None:
    id_ = scene.run(definition("taken-over", {"first": (2, []), "second": (0, ["first"])}))
    scene.lose_completion(id_, "first", "second")
    assert scene.status(id_, "second") is NodeStatus.PENDING
    scene.api.resume(id_)
    scene.ends(id_)
    assert scene.judge({id_: Expected()}).problems == ()


def test_cancel_drains_what_was_queued_and_leaves_what_runs(scene: Scene) -> None:
    id_ = scene.run(definition("cancelled", {"runs": (3, []), "after": (0, ["runs"])}))
    scene.until(lambda: scene.starts(id_), "the first body")
    with scene.pool_paused():
        waiting = scene.run(definition("cancelled-early", {"waits": (0, [])}))
        scene.until(
            lambda: scene.status(waiting, "waits") is NodeStatus.QUEUED, "a node in the queue"
        )
        for each in (id_, waiting):
            answer = scene.api.cancel(each, "not needed any more")
            assert (answer["status"], answer["note"]) == ("CANCELLED", "not needed any more")
        scene.until(
            lambda: scene.status(waiting, "waits") is NodeStatus.CANCELLED, "the end of the node"
        )
    scene.until(lambda: scene.status(id_, "runs") is DONE, "the end of the body that ran")
    scene.ends(id_, waiting)

    cancelled = Expected(ExecutionStatus.CANCELLED)
    verdict = scene.judge({id_: cancelled, waiting: cancelled})
    assert verdict.problems == ()
    assert scene.status(id_, "after") is NodeStatus.PENDING
    assert scene.starts(waiting) == []
    with pytest.raises(ApiRejected) as refusal:
        scene.api.resume(id_)
    assert refusal.value.code == "EXECUTION_ENDED"
    assert scene.api.cancel(id_)["status"] == "CANCELLED"


def test_a_node_can_invoke_a_function_of_the_allow_list(scene: Scene, echo: str) -> None:
    text = json.dumps(
        {
            "id": "invokes",
            "nodes": [
                {"id": "asks", "lambda": echo, "params": {"n": 1.5}},
                {"id": "then", "task": "dag.run", "needs": ["asks"]},
            ],
        }
    )
    id_ = scene.start(scene.api.register(text)["id"], {"text": "hello"})
    scene.ends(id_)
    assert scene.judge({id_: Expected()}).problems == ()
    nodes = {node["id"]: node for node in scene.api.nodes(id_)}
    answer = json.loads(nodes["asks"]["result"])
    assert answer["inputs"] == {"execution": {"text": "hello"}, "nodes": {}, "params": {"n": 1.5}}
    assert answer["context"]["execution_id"] == id_
