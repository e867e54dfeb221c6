"""The exercise: every operation and every read of every function, by its real handler.

Here nothing goes wrong but what tasks do; `faults` has the rest. Together they are to reach
everything that is granted; `coverage` tells what they missed.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from piton.domain.settings import MINUTE
from tests.iam.tasks import BIG
from tests.iam.world import World
from tests.infra.synthesis import ALLOWED_LAMBDA

Scenario = Callable[[World], None]
HOUR: Final = 60 * MINUTE
NOW: Final = {"max_attempts": 3, "base_s": 0, "cap_s": 0}


def node(id_: str, task: str = "echo", needs: Sequence[Any] = (), **more: Any) -> dict[str, Any]:
    return {"id": id_, "task": f"exercise.{task}", "needs": list(needs), **more}


def after(id_: str, on: str = "success", when: str | None = None) -> dict[str, Any]:
    return {"node": id_, "on": on, **({"when": when} if when else {})}


def register(world: World, id_: str, nodes: Sequence[Mapping[str, Any]], **more: Any) -> None:
    definition = json.dumps({"id": id_, "nodes": nodes, **more})
    answer = world.ask("Mutation", "registerWorkflow", {"definition": definition})
    assert answer.get("workflow"), answer


def start(world: World, workflow: str, **more: Any) -> str:
    answer = world.ask("Mutation", "startExecution", {"input": {"workflow": workflow, **more}})
    assert answer.get("execution"), answer
    return str(answer["execution"]["id"])


def status(world: World, execution: str) -> str:
    return str(world.ask("Query", "getExecution", {"id": execution})["status"])


def run(world: World, id_: str, nodes: Sequence[Mapping[str, Any]], expect: str) -> str:
    register(world, id_, nodes)
    execution = start(world, id_)
    world.settle()
    assert status(world, execution) == expect
    return execution


def chain_and_join(world: World) -> None:
    """Roots, a node with one predecessor, a join, and an end behind several sinks."""
    run(
        world,
        "join",
        [node("a"), node("b", needs=["a"]), node("c", needs=["a"]), node("d", needs=["b", "c"])],
        "COMPLETED",
    )
    run(world, "sinks", [node("a"), node("b"), node("c", needs=["a"])], "COMPLETED")


def skips(world: World) -> None:
    """Edges that are not taken: a single skip, a skipped join, and an end that is declined."""
    run(
        world,
        "skips",
        [
            node("a"),
            node("b", needs=[after("a", when="params")]),
            node("c", needs=[after("a", when="absent")]),
            node("d", needs=[after("b", when="absent"), "c"]),
            node("e", needs=[after("b", "failure")]),
        ],
        "COMPLETED",
    )
    run(
        world,
        "all-skipped",
        [node("a"), node("b", needs=[after("a", when="absent")])],
        "COMPLETED",
    )


def large(world: World) -> None:
    """Input and results too large for a row, a condition on one of them, and what is answered."""
    run_large = [
        node("a", "big"),
        node("b", "big"),
        node("c", "big", needs=[after("a", when="ok"), after("b", when="ok")]),
        node("d", "progress", needs=["c"]),
    ]
    register(world, "large", run_large)
    execution = start(world, "large", input={"text": BIG})
    world.settle()
    world.restart()
    source = world.ask("Query", "getExecution", {"id": execution})
    assert source["status"] == "COMPLETED"
    for field in ("input", "output", "nodes", "history"):
        assert world.ask("Execution", field, source=source)


def definition_in_a_blob(world: World) -> None:
    """A definition too large for its row, read anew by every function."""
    nodes = [node("a", "shaky", retry=NOW), node("b", "echo", ["a"], params={"noise": _noise()})]
    register(world, "huge", nodes)
    world.restart()
    execution = start(world, "huge")
    world.relay()
    world.advance()
    world.relay()
    world.die(world.take())
    world.settle()
    assert status(world, execution) == "COMPLETED"
    assert world.ask("Query", "getWorkflow", {"id": "huge"})["nodeCount"] == 2
    other = start(world, "huge")
    world.restart()
    sweep_through(world, other, "COMPLETED")
    world.restart()
    register(world, "huge", nodes)


def _noise() -> str:
    """Text that does not compress, the same in every run."""
    blocks = (hashlib.sha256(str(number).encode()).hexdigest() for number in range(10_500))
    return "".join(blocks)


def failures(world: World) -> None:
    """A failure with an edge for it, and one without, which ends the execution."""
    run(
        world,
        "mended",
        [node("a", "broken"), node("b", needs=[after("a", "failure")]), node("c", needs=["b"])],
        "COMPLETED",
    )
    run(world, "fatal", [node("a", "broken"), node("b", needs=["a"])], "FAILED")
    run(
        world,
        "faulty-condition",
        [node("a"), node("b", needs=[after("a", when="length(params)")])],
        "FAILED",
    )


def attempts(world: World) -> None:
    """A retry at once, a lease that has to be renewed, and progress that is told."""
    run(
        world,
        "attempts",
        [
            node("a", "shaky", retry=NOW),
            node("b", "slow", ["a"]),
            node("c", "progress", ["b"]),
        ],
        "COMPLETED",
    )


def too_early(world: World) -> None:
    """A dispatch that comes before its time is put back; it runs when its time has come."""
    retry = {"max_attempts": 2, "base_s": 3600, "cap_s": 3600}
    for pool in ("default", "documents"):
        register(world, f"early-{pool}", [node("a", "shaky", retry=retry, pool=pool)])
        execution = start(world, f"early-{pool}")
        world.settle()
        (delayed,) = world.delayed
        world.put(delayed, pool)
        world.work(pool)
        world.turn(HOUR)
        world.put(delayed, pool)
        world.settle()
        assert status(world, execution) == "COMPLETED"
        world.delayed.clear()


def other_function(world: World) -> None:
    """A node that is another function, in a pool of its own."""
    register(
        world,
        "function",
        [
            {
                "id": "a",
                "lambda": ALLOWED_LAMBDA,
                "pool": "documents",
                "retry": {"max_attempts": 1},
            }
        ],
    )
    execution = start(world, "function")
    world.settle()
    assert status(world, execution) == "FAILED"


def idempotent_start(world: World) -> None:
    """One document taken in twice; a deadline and a scope given with it."""
    register(world, "intake", [node("a")])
    more = {
        "idempotency": {"document": "invoice-1", "operationVersion": 1},
        "scope": {"sourceKind": "mail", "scopeIds": ["s1"]},
        "deadlineAt": world.moment(HOUR),
        "input": {"n": 1},
    }
    first = start(world, "intake", **more)
    assert start(world, "intake", **more) == first
    world.settle()
    assert status(world, first) == "COMPLETED"


def cancelled(world: World) -> None:
    """Cancelled before anything runs, with something queued, and with something running."""
    register(world, "cancelled", [node("a"), node("b"), node("c", needs=["a"])])
    execution = start(world, "cancelled")
    world.relay()
    world.advance()
    world.relay()
    cancel(world, execution)
    world.relay()
    world.advance()
    world.settle()
    assert status(world, execution) == "CANCELLED"


def lists(world: World) -> None:
    """Pages of executions, workflows, nodes and history."""
    for field, arguments in (
        ("listExecutions", {"status": "COMPLETED", "workflow": "join"}),
        ("listExecutions", {}),
        ("listWorkflows", {}),
    ):
        page = world.ask("Query", field, {**arguments, "limit": 1})
        assert page["items"]
        if page["nextToken"]:
            token = page["nextToken"]
            world.ask("Query", field, {**arguments, "limit": 1, "nextToken": token})
    source = world.ask("Query", "listExecutions", {"workflow": "join"})["items"][0]
    for field in ("nodes", "history"):
        page = world.ask("Execution", field, {"limit": 1}, source=source)
        world.ask("Execution", field, {"limit": 1, "nextToken": page["nextToken"]}, source=source)


def versions(world: World) -> None:
    """A second version of a workflow; the first one stays readable."""
    register(world, "versioned", [node("a")])
    register(world, "versioned", [node("a"), node("b")])
    world.restart()
    first = world.ask("Query", "getWorkflow", {"id": "versioned", "version": 1})
    latest = world.ask("Query", "getWorkflow", {"id": "versioned"})
    assert (first["version"], latest["version"]) == (1, 2)
    execution = start(world, "versioned", version=1)
    world.settle()
    assert status(world, execution) == "COMPLETED"


def cancel(world: World, execution: str) -> None:
    arguments = {"executionId": execution, "reason": "no longer needed"}
    assert world.ask("Mutation", "cancelExecution", arguments)["execution"]


def sweep_through(world: World, execution: str, expect: str) -> None:
    """Lose every event; what is dispatched is worked on."""
    for _ in range(12):
        world.relay()
        world.events.clear()
        world.work()
        world.turn(2 * MINUTE)
        world.sweep()
    assert status(world, execution) == expect


def sweep_until_retired(world: World) -> None:
    """Let the time pass after which nothing can be left under an ended execution."""
    for _ in range(3):
        world.turn(HOUR)
        world.sweep()
    world.settle()


SCENARIOS: Final[tuple[Scenario, ...]] = (
    chain_and_join,
    skips,
    large,
    definition_in_a_blob,
    failures,
    attempts,
    too_early,
    other_function,
    idempotent_start,
    cancelled,
    versions,
    lists,
)
