"""SIGKILL of the process that makes a call, before each call of a run and after it."""

from __future__ import annotations

import json
import socket
from dataclasses import replace

import pytest

from local.crashtest.deployed.audit import collect, problem
from local.crashtest.deployed.cli import REPORT
from local.crashtest.deployed.rig import WATCHDOG, NotOurs, Rig, kill_caller, rigged
from local.crashtest.deployed.sweep import run
from local.crashtest.deployed.traps import Run, Spot, Trap
from local.crashtest.deployed.wire import Request
from local.crashtest.points import Side
from local.deploy import ROOT
from local.emulator import HOST
from piton.domain.rows import node_sk
from piton.storage import operations as op
from tests.e2e.scene import WORKER, Scene, definition

JOIN = definition(
    "join-killed", {"left": (0, []), "right": (0, []), "join": (0, ["left", "right"])}
)

# Short bodies, so that no message comes back while its own body runs, and two of them, so that the
# execution still runs when the message of the first node does.
CHAIN = definition("chain-killed", {"a": (0, []), "b": (7, ["a"]), "c": (7, ["b"])})
AFTER_THE_END_OF_A = Trap(Spot(WORKER, f"{op.COMPLETE.name} {node_sk(0)}"), Side.AFTER)
CLEAN, GUARDED, BARE = "arms/clean", "arms/guarded", "arms/bare"


@pytest.fixture
def rig(scene: Scene) -> Rig:
    """All queues are empty: what earlier tests left hidden would come back amid these."""
    rig = Rig(scene.stack, scene.api, "acme", scene.tap, scene.bodies)
    for url in rig.queues:
        scene.stack.aws.sqs.purge_queue(QueueUrl=url)
    return rig


def test_a_kill_at_any_call_costs_what_was_in_flight_and_nothing_else(rig: Rig) -> None:
    report = run(rig, JOIN, {})
    report.write(ROOT / REPORT)
    assert report.failures == []
    assert report.survived == report.points
    assert report.pairs_survived == report.pairs
    assert set(report.killed) == {"commands", "outbox-relay", "step-runner", WORKER, WATCHDOG}
    # Writes are reached in any run. What is read depends on what a process remembers, and how the
    # watchdog gets on depends on what others have done by then.
    uncertain = (" read ", f"{WATCHDOG} dies")
    assert not [each for each in report.unreached if not any(word in each for word in uncertain)]


def test_an_engine_whose_claims_are_not_guarded_is_found_out(rig: Rig, scene: Scene) -> None:
    """Both arms lose the worker right after it has recorded the end of a node."""
    workflow = rig.api.register(CHAIN)["id"]
    bare: set[str] = set()

    def alter(request: Request, body: bytes) -> bytes:
        bare.update(id_ for document, id_ in request.creates.items() if document == BARE)
        claims = any(
            touch.owner in bare and touch.what.startswith(f"{op.CLAIM.name} ")
            for touch in request.touches
        )
        return without_guard(body) if claims else body

    ids: dict[str, str] = {}
    runs = [Run(CLEAN), *(Run(arm, [AFTER_THE_END_OF_A]) for arm in (GUARDED, BARE))]
    with rigged(replace(rig, alter=alter)):
        for each in runs:
            rig.traps.watch(each)
            asked = {"workflow": workflow, "idempotency": {"document": each.document}}
            ids[each.document] = rig.api.start(asked)["execution"]["id"]
        scene.ends(*ids.values(), sweeping=True)
        scene.until(rig.is_quiet, "empty queues")
    assert all(each.is_through for each in runs)
    seen = collect(rig, list(ids.values()))
    clean = seen[ids[CLEAN]].ending()
    assert problem(seen[ids[GUARDED]], clean) is None
    assert [start.node_id for start in seen[ids[GUARDED]].bodies] == ["a", "b", "c"]
    assert [start.node_id for start in seen[ids[BARE]].bodies].count("a") > 1
    assert problem(seen[ids[BARE]], clean) is not None


def test_only_processes_of_the_function_itself_are_ever_killed(rig: Rig) -> None:
    emulator = rig.stack.emulator
    with socket.create_connection((HOST, emulator.port)) as mine:
        for function in ("commands", WORKER):
            with pytest.raises(NotOurs):
                kill_caller(emulator, rig.stack.function(function), mine.getsockname()[1])


def without_guard(body: bytes) -> bytes:
    """Let a write through on any row that is there."""
    update = json.loads(body)
    update["ConditionExpression"] = f"({update['ConditionExpression']}) OR attribute_exists(pk)"
    return json.dumps(update).encode()
