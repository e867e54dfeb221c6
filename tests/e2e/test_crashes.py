"""SIGKILL at any moment, of any process that the engine consists of."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Sequence
from functools import partial

import pytest

from local.demo.ledger import Expected
from tests.e2e.scene import WORKER, Scene, definition

ENGINE = (WORKER, "step-runner", "outbox-relay")
GRAPH = definition(
    "stormy",
    {
        "root": (0.2, []),
        **{f"wide-{number}": (0.1 * number, ["root"]) for number in range(6)},
        "join": (0, [f"wide-{number}" for number in range(6)]),
        "next": (0.2, ["join"]),
        "last": (0, ["next"]),
    },
)


@pytest.mark.parametrize("seed", [7])
def test_kill_9_between_any_two_writes_loses_and_repeats_nothing(scene: Scene, seed: int) -> None:
    """Each kill comes a random number of events and body starts after the one before."""
    rng = random.Random(seed)  # noqa: S311 - moments to kill at, no secrets
    workflow = scene.api.register(GRAPH)["id"]
    ids = [scene.start(workflow) for _ in range(2)]
    killed = 0
    for _ in range(6):
        after = len(scene.signs(ids)) + rng.randint(1, 5)
        scene.until(
            partial(_have_advanced, scene, ids, after), "another sign of life", sweeping=True
        )
        if scene.have_ended(ids):
            break
        killed += _kill_one(scene, rng)
    scene.ends(*ids, sweeping=True)
    # What a killed step runner had taken would hide in its queue while other tests look there.
    scene.stack.aws.sqs.purge_queue(QueueUrl=scene.stack.outputs.advance_queue_url)
    assert killed >= 3
    assert scene.judge({id_: Expected() for id_ in ids}).problems == ()


def _have_advanced(scene: Scene, execution_ids: Sequence[str], signs: int) -> bool:
    return len(scene.signs(execution_ids)) >= signs or scene.have_ended(execution_ids)


def _kill_one(scene: Scene, rng: random.Random) -> bool:
    emulator = scene.stack.emulator
    for function in rng.sample(ENGINE, len(ENGINE)):
        pids = emulator.lambda_processes(scene.stack.function(function))
        if pids:
            os.kill(rng.choice(pids), signal.SIGKILL)
            return True
    return False
