"""The exercise when messages are lost, workers die and time runs out."""

from typing import Final

from piton.domain.settings import MINUTE
from tests.iam.scenarios import (
    HOUR,
    Scenario,
    after,
    cancel,
    node,
    register,
    start,
    status,
    sweep_through,
    sweep_until_retired,
)
from tests.iam.world import World


def resume_and_resend(world: World) -> None:
    """Every dispatch is lost; a resume sends it again."""
    register(world, "resumed", [node("a"), node("b", needs=["a"])])
    execution = start(world, "resumed")
    world.relay()
    world.advance()
    world.relay()
    world.take()
    world.turn(MINUTE)
    assert world.ask("Mutation", "resumeExecution", {"executionId": execution})["execution"]
    world.settle()
    assert status(world, execution) == "COMPLETED"


def cancelled_after_the_claim(world: World) -> None:
    """A warm worker claims a node whose execution has just ended."""
    register(world, "late", [node("a"), node("b", needs=["a"])])
    execution = start(world, "late")
    world.relay()
    world.advance()
    world.relay()
    world.work()
    world.relay()
    world.advance()
    world.relay()
    cancel(world, execution)
    world.work()
    world.settle()


def drained_while_running(world: World) -> None:
    """Ended executions whose nodes have workers that are dead, found by an event and by a sweep."""
    register(world, "abandoned", [node("a"), node("b")])
    for by_event in (True, False):
        execution = start(world, "abandoned")
        world.relay()
        world.advance()
        world.relay()
        world.abandon()
        cancel(world, execution)
        world.turn(MINUTE)
        if by_event:
            world.settle()
        else:
            world.lose()
        sweep_until_retired(world)
        assert status(world, execution) == "CANCELLED"


def undeliverable(world: World) -> None:
    """Dispatches that no worker could take: once more, and then no more."""
    register(world, "undeliverable", [node("a", retry={"max_attempts": 2, "base_s": 0})])
    execution = start(world, "undeliverable")
    world.relay()
    world.advance()
    for _ in range(2):
        world.relay()
        world.die(world.take())
    world.settle()
    assert status(world, execution) == "FAILED"


def lost_events(world: World) -> None:
    """No event ever arrives: the watchdog takes every step."""
    retry = {"max_attempts": 1}
    for id_, nodes, expect in (
        (
            "swept",
            [
                node("a", "big"),
                node("b", needs=[after("a", when="ok")]),
                node("c", needs=[after("a", when="absent")]),
                node("d", needs=[after("b", when="absent"), "c"]),
                node("e", needs=["b", "a"]),
                node("f", needs=["c"]),
            ],
            "COMPLETED",
        ),
        ("swept-end", [node("a"), node("b", needs=[after("a", when="absent")])], "COMPLETED"),
        ("swept-fatal", [node("a", "broken", retry=retry)], "FAILED"),
    ):
        register(world, id_, nodes)
        sweep_through(world, start(world, id_), expect)
    sweep_until_retired(world)


def stalled(world: World) -> None:
    """Workers die: the sweep gives the node another attempt, and then gives it up."""
    register(world, "stalled", [node("a", retry={"max_attempts": 2, "base_s": 0})])
    execution = start(world, "stalled")
    world.relay()
    world.advance()
    for _ in range(2):
        world.relay()
        world.abandon()
        world.turn(2 * MINUTE)
        world.sweep()
    world.settle()
    assert status(world, execution) == "FAILED"


def parked(world: World) -> None:
    """Every dispatch is lost until the watchdog asks for help; a resume clears the mark."""
    register(world, "parked", [node("a")])
    execution = start(world, "parked")
    world.relay()
    world.advance()
    for _ in range(8):
        world.relay()
        world.take()
        world.turn(HOUR)
        world.sweep()
    assert world.ask("Query", "getExecution", {"id": execution})["parked"]
    world.ask("Mutation", "resumeExecution", {"executionId": execution})
    world.settle()
    assert status(world, execution) == "COMPLETED"


def out_of_time(world: World) -> None:
    """A deadline of the caller and a timeout of the workflow pass, with nodes queued."""
    register(world, "timed", [node("a"), node("b", needs=["a"])], timeout_s=60)
    timed = start(world, "timed")
    soon = world.moment(MINUTE)
    limited = start(world, "timed", deadlineAt=soon)
    world.relay()
    world.advance()
    world.lose()
    world.turn(2 * MINUTE)
    world.sweep()
    world.lose()
    assert (status(world, timed), status(world, limited)) == ("FAILED", "CANCELLED")
    sweep_until_retired(world)


FAULTS: Final[tuple[Scenario, ...]] = (
    resume_and_resend,
    cancelled_after_the_claim,
    drained_while_running,
    undeliverable,
    lost_events,
    stalled,
    parked,
    out_of_time,
)
