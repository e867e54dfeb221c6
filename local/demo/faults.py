"""Real faults: a worker that dies in a body, a message that never arrives."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import psutil

from local.demo.clock import CLOCK, until
from local.demo.ledger import BodyStart, Drop, Fact, Kill
from local.demo.reading import is_in_body
from local.stack import Stack
from piton.domain.status import EventType

if TYPE_CHECKING:
    from mypy_boto3_sqs.type_defs import MessageTypeDef

_ADVANCER: Final = "step-runner"
_DEATH_DEADLINE_S: Final = 10.0
_PAUSE_DEADLINE_S: Final = 10.0
_PATIENCE_MS: Final = 5000
_HIDDEN_S: Final = 1800

Rank = Callable[[Fact], int | None]
"""How well a completion serves as the one to lose: 0 best, None not at all."""


def kill_worker(
    stack: Stack,
    worker: str,
    candidate: Callable[[], BodyStart | None],
    starts: Callable[[], Sequence[BodyStart]],
    *,
    deadline_s: float,
) -> Kill:
    """SIGKILL the process of `worker` that is in the body of a candidate.

    Whatever else the process was in the middle of dies with it and is a victim too. Raises
    `DeadlinePassed`.
    """
    name = stack.function(worker)

    def attempt() -> Kill | None:
        chosen = candidate()
        if chosen is None or chosen.pid not in stack.emulator.lambda_processes(name):
            return None
        if not is_in_body(stack, chosen):
            return None
        os.kill(chosen.pid, signal.SIGKILL)
        at = CLOCK.now_ms()
        until(lambda: is_dead(chosen.pid), _DEATH_DEADLINE_S, f"the end of process {chosen.pid}")
        # Only now: until its end, the process could still record an outcome.
        inside = [start for start in starts() if start.pid == chosen.pid]
        victims = [start for start in inside if is_in_body(stack, start)]
        return Kill(at, chosen.pid, tuple(victims)) if victims else None

    return until(attempt, deadline_s, "a worker in the middle of a body")


def drop_completion(
    stack: Stack,
    execution_id: str,
    rank: Rank,
    successors: Callable[[str], Sequence[str]],
    *,
    deadline_s: float,
) -> Drop:
    """Delete one `workflow.node.completed` of an execution before anybody handles it.

    The consumer of the advance queue is paused meanwhile. All other messages are given back.
    Raises `DeadlinePassed`.
    """
    with paused(stack, _ADVANCER):
        held: list[tuple[Fact, MessageTypeDef]] = []
        begun = CLOCK.monotonic_ms()

        def choose() -> tuple[Fact, MessageTypeDef] | None:
            held.extend(_receive(stack))
            ranked = [
                (order, position)
                for position, (fact, _) in enumerate(held)
                if fact.execution_id == execution_id
                and fact.type is EventType.NODE_COMPLETED
                and (order := rank(fact)) is not None
            ]
            patient = CLOCK.monotonic_ms() - begun < _PATIENCE_MS
            if not ranked or (min(ranked)[0] > 0 and patient):
                return None
            return held.pop(min(ranked)[1])

        try:
            fact, message = until(choose, deadline_s, "a completion to lose")
            stack.aws.sqs.delete_message(
                QueueUrl=stack.outputs.advance_queue_url, ReceiptHandle=message["ReceiptHandle"]
            )
            at = CLOCK.now_ms()
        finally:
            for _, kept in held:
                stack.aws.sqs.change_message_visibility(
                    QueueUrl=stack.outputs.advance_queue_url,
                    ReceiptHandle=kept["ReceiptHandle"],
                    VisibilityTimeout=0,
                )
    node_id = fact.node_id or ""
    return Drop(at, execution_id, node_id, tuple(successors(node_id)))


@contextmanager
def paused(stack: Stack, function: str) -> Iterator[None]:
    """Keep a function from taking messages of its queue; what it has taken it still handles."""
    functions = stack.aws.functions
    mappings = functions.list_event_source_mappings(FunctionName=stack.function(function))[
        "EventSourceMappings"
    ]
    uuid = mappings[0]["UUID"]

    def is_in(state: str) -> bool:
        return functions.get_event_source_mapping(UUID=uuid)["State"] == state

    functions.update_event_source_mapping(UUID=uuid, Enabled=False)
    try:
        until(lambda: is_in("Disabled"), _PAUSE_DEADLINE_S, f"the pause of {function}")
        yield
    finally:
        functions.update_event_source_mapping(UUID=uuid, Enabled=True)
        until(lambda: is_in("Enabled"), _PAUSE_DEADLINE_S, f"the end of the pause of {function}")


def _receive(stack: Stack) -> list[tuple[Fact, MessageTypeDef]]:
    answer = stack.aws.sqs.receive_message(
        QueueUrl=stack.outputs.advance_queue_url,
        MaxNumberOfMessages=10,
        VisibilityTimeout=_HIDDEN_S,
    )
    return [(Fact.parse(message["Body"]), message) for message in answer.get("Messages", [])]


def is_dead(pid: int) -> bool:
    """Whether a process runs no more, be it that its parent has yet to take note of it."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
