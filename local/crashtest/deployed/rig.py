"""The deployed stacks, arranged so that a chosen process can be made to die at a chosen call."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import psutil

from local.client import Api
from local.crashtest.deployed.proxy import Alter, Proxy
from local.crashtest.deployed.traps import Traps
from local.demo.clock import until
from local.demo.evidence import BodyLog, EventTap, is_empty
from local.demo.faults import is_dead
from local.emulator import Emulator
from local.stack import Stack
from piton.domain.settings import SECOND

_SETTINGS: Final = {
    "lease_ms": 6 * SECOND,
    "sweep_soonest_ms": 0,
    "sweep_latest_ms": 1 * SECOND,
    "first_resend_ms": 6 * SECOND,
    "clock_skew_ms": 0,
}
"""Short enough to wait for a lease, long enough for a busy machine to renew it."""

WATCHDOG: Final = "watchdog"
STEP_RUNNER: Final = "step-runner"
_FUNCTIONS: Final = ("commands", STEP_RUNNER, WATCHDOG, "outbox-relay", "dead-letters")
HIDDEN_S: Final = 12
"""Visibility timeout: what a dead process had taken comes back before all is over."""
_DEATH_DEADLINE_S: Final = 10.0
_ENDPOINT: Final = "AWS_ENDPOINT_URL"
_ENGINE: Final = "PITON_SETTINGS"


class NotOurs(LookupError):
    """The caller is no process of the function that was asked to die."""


@dataclass(frozen=True)
class Rig:
    """A deployed stage, a signed-in operator of `tenant`, and what is seen of both.

    `alter` may break the engine, to see whether that is noticed.
    """

    stack: Stack
    api: Api
    tenant: str
    tap: EventTap
    bodies: BodyLog
    traps: Traps = field(default_factory=Traps)
    alter: Alter | None = None

    @property
    def queues(self) -> tuple[str, ...]:
        """URLs of the queues with a consumer that can be killed."""
        outputs = self.stack.outputs
        return (outputs.advance_queue_url, *outputs.worker_queue_urls.values())

    @property
    def last_queues(self) -> tuple[str, ...]:
        """URLs of the queues that only people empty."""
        return (self.stack.outputs.advance_dlq_url, self.stack.outputs.quarantine_url)

    def hide_for(self, seconds: int) -> None:
        """Let messages come back so long after they were taken."""
        for url in self.queues:
            self.stack.aws.sqs.set_queue_attributes(
                QueueUrl=url, Attributes={"VisibilityTimeout": str(seconds)}
            )

    def is_quiet(self) -> bool:
        """Whether no message waits, hides or is being handled, and every event is taken in."""
        sqs = self.stack.aws.sqs
        return all(is_empty(sqs, url) for url in self.queues) and self.tap.is_drained()

    @property
    def workers(self) -> tuple[str, ...]:
        """The worker functions, by their name within the stage."""
        return tuple(f"worker-{pool}" for pool in self.stack.outputs.worker_queue_urls)


@contextmanager
def rigged(rig: Rig) -> Iterator[list[Proxy]]:
    """Lead every function through a proxy, and let each queue's consumers take single messages.

    So nothing else is in the hands of a process that dies; only the relay's batches stay whole.
    Leases and all waits become short. The schedule stays as it is, and should be off.
    All is put back in the end.
    """
    with ExitStack() as undo:
        proxies = [_led_through_proxy(rig, name, undo) for name in (*_FUNCTIONS, *rig.workers)]
        for name in (STEP_RUNNER, *rig.workers):
            _take_single_messages(rig.stack, name, undo)
        for url in rig.queues:
            _keep_visibility(rig.stack, url, undo)
        rig.hide_for(HIDDEN_S)
        yield proxies


def kill_caller(emulator: Emulator, function: str, port: int) -> None:
    """SIGKILL the process of `function` whose connection starts at local `port`.

    Only processes that this very emulator started for that function come into question. Returns
    when it is dead. Raises `NotOurs` when none of them has the connection.
    """
    for pid in emulator.lambda_processes(function):
        try:
            process = psutil.Process(pid)
            ports = {each.laddr.port for each in process.net_connections("tcp4")}
            if port in ports:
                process.kill()
                until(partial(is_dead, pid), _DEATH_DEADLINE_S, f"the end of {pid}", every_s=0.005)
                return
        except psutil.NoSuchProcess:
            continue
    raise NotOurs(f"no process of {function} has the connection from port {port}")


def _led_through_proxy(rig: Rig, name: str, undo: ExitStack) -> Proxy:
    stack, physical = rig.stack, rig.stack.function(name)
    proxy = undo.enter_context(
        Proxy(
            stack.emulator.port,
            partial(rig.traps.meet, name),
            partial(kill_caller, stack.emulator, physical),
            rig.alter,
        )
    )
    functions = stack.aws.functions
    before = functions.get_function_configuration(FunctionName=physical)["Environment"]["Variables"]

    def configure(variables: dict[str, str]) -> None:
        functions.update_function_configuration(
            FunctionName=physical, Environment={"Variables": variables}
        )
        functions.get_waiter("function_updated_v2").wait(FunctionName=physical)

    configure({**before, _ENDPOINT: proxy.url, _ENGINE: json.dumps(_SETTINGS)})
    undo.callback(configure, before)
    return proxy


def _take_single_messages(stack: Stack, name: str, undo: ExitStack) -> None:
    functions = stack.aws.functions
    mappings = functions.list_event_source_mappings(FunctionName=stack.function(name))
    for mapping in mappings["EventSourceMappings"]:
        change: Callable[..., object] = partial(
            functions.update_event_source_mapping, UUID=mapping["UUID"]
        )
        change(BatchSize=1)
        undo.callback(change, BatchSize=mapping["BatchSize"])


def _keep_visibility(stack: Stack, url: str, undo: ExitStack) -> None:
    sqs = stack.aws.sqs
    before = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])
    undo.callback(sqs.set_queue_attributes, QueueUrl=url, Attributes=before["Attributes"])
