"""The composition root: the only place that builds clients and wires services.

Nothing happens at import. Each `build_*` reads the environment it is given and returns what one
function needs; handlers call it once per process.
"""

from __future__ import annotations

import importlib
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import boto3
from botocore.config import Config

from piton.adapters.blobs import S3Blobs
from piton.adapters.bodies import ThreadRunner
from piton.adapters.clock import SystemClock
from piton.adapters.conditions import check_condition, evaluate_condition
from piton.adapters.lambdas import AwsLambdaInvoker
from piton.adapters.metrics import EmfMetrics
from piton.adapters.publisher import AwsPublisher
from piton.adapters.randomness import SystemRandom
from piton.adapters.workflows import Workflows
from piton.config import (
    CommandsEnvironment,
    IamTenant,
    QueriesEnvironment,
    RelayEnvironment,
    StateEnvironment,
    WorkerEnvironment,
)
from piton.domain.messages import Dispatch
from piton.domain.names import Tenant
from piton.domain.settings import Settings
from piton.services.advance import Advance
from piton.services.bodies import Bodies, PoolProfile
from piton.services.caller import Group, RoleGrant, Roles
from piton.services.commands import Commands
from piton.services.dead_letters import DeadLetters
from piton.services.dispatching import Dispatching
from piton.services.drain import Drain
from piton.services.frontier import Frontier
from piton.services.inputs import InputReader
from piton.services.payloads import Payloads
from piton.services.queries import Queries
from piton.services.relay import Relay
from piton.services.sweep import Sweep
from piton.services.work import Work, WorkerIdentity
from piton.storage.algebra import Table
from piton.storage.dynamodb import DynamoStore
from piton.tasks import REGISTRY

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

S = TypeVar("S")

_PARALLEL_WRITES: Final = 8
_CALL: Final = Config(
    connect_timeout=2, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 5}
)


@dataclass(frozen=True, slots=True)
class Core:
    """What every function that touches executions shares."""

    settings: Settings
    clock: SystemClock
    random: SystemRandom
    metrics: EmfMetrics
    store: DynamoStore
    blobs: S3Blobs
    workflows: Workflows
    payloads: Payloads
    dispatching: Dispatching


def build_core(env: StateEnvironment) -> Core:
    """Build stores and the services beneath all others."""
    settings, clock, random = env.engine_settings(), SystemClock(), SystemRandom()
    metrics = EmfMetrics(env.stage)
    tables = {Table.EXECUTIONS: env.executions_table, Table.WORKFLOWS: env.workflows_table}
    store = DynamoStore(boto3.client("dynamodb", config=_CALL), tables)
    blobs = S3Blobs(boto3.client("s3", config=_CALL), env.payloads_bucket)
    return Core(
        settings=settings,
        clock=clock,
        random=random,
        metrics=metrics,
        store=store,
        blobs=blobs,
        workflows=Workflows(store, blobs),
        payloads=Payloads(store, blobs, settings),
        dispatching=Dispatching(store, clock, random, metrics),
    )


@dataclass(frozen=True, slots=True)
class StepRunner:
    """Services of the step runner."""

    advance: Advance
    metrics: EmfMetrics


def build_step_runner(environ: Mapping[str, str] = os.environ) -> StepRunner:
    """Wire the step runner."""
    core = build_core(StateEnvironment.read(environ))
    return StepRunner(_advance(core, _frontier(core)), core.metrics)


@dataclass(frozen=True, slots=True)
class Watchdog:
    """Services of the watchdog."""

    sweep: Sweep
    metrics: EmfMetrics


def build_watchdog(environ: Mapping[str, str] = os.environ) -> Watchdog:
    """Wire the watchdog."""
    core = build_core(StateEnvironment.read(environ))
    frontier = _frontier(core)
    sweep = Sweep(
        core.store,
        core.workflows,
        frontier,
        _advance(core, frontier),
        core.dispatching,
        _drain(core),
        core.clock,
        core.metrics,
        core.settings,
    )
    return Watchdog(sweep, core.metrics)


@dataclass(frozen=True, slots=True)
class Worker:
    """Services of a worker."""

    work: Work
    metrics: EmfMetrics
    sqs: SQSClient
    queue_url: str


def build_worker(environ: Mapping[str, str] = os.environ) -> Worker:
    """Wire a worker and import the tasks of its pool."""
    env = WorkerEnvironment.read(environ)
    for module in env.task_modules:
        importlib.import_module(module)
    core = build_core(env)
    body_time_s = int(env.max_timeout_s)
    one_call = Config(
        connect_timeout=2, read_timeout=body_time_s + 5, retries={"total_max_attempts": 1}
    )
    bodies = Bodies(
        REGISTRY,
        InputReader(core.store, core.payloads),
        ThreadRunner(core.clock),
        AwsLambdaInvoker(boto3.client("lambda", config=one_call)),
        core.clock,
        core.settings,
        PoolProfile(
            int(env.max_timeout_s * 1000), env.allowed_lambdas, _body_log(env.body_log, core.clock)
        ),
    )
    work = Work(
        core.store,
        core.workflows,
        core.payloads,
        bodies,
        core.dispatching,
        core.clock,
        core.random,
        core.metrics,
        core.settings,
        WorkerIdentity(host=f"{env.pool}:{os.getpid()}", code_hash=env.code_hash[:12]),
    )
    return Worker(work, core.metrics, boto3.client("sqs", config=_CALL), env.worker_queue_url)


@dataclass(frozen=True, slots=True)
class DeadLetterDesk:
    """Services of the dead-letter function."""

    dead_letters: DeadLetters
    metrics: EmfMetrics


def build_dead_letters(environ: Mapping[str, str] = os.environ) -> DeadLetterDesk:
    """Wire the dead-letter function."""
    core = build_core(StateEnvironment.read(environ))
    dead_letters = DeadLetters(core.store, core.workflows, core.dispatching, core.clock)
    return DeadLetterDesk(dead_letters, core.metrics)


@dataclass(frozen=True, slots=True)
class Outbox:
    """Services of the relay."""

    relay: Relay
    metrics: EmfMetrics


def build_outbox(environ: Mapping[str, str] = os.environ) -> Outbox:
    """Wire the outbox relay."""
    env = RelayEnvironment.read(environ)
    metrics = EmfMetrics(env.stage)
    publisher = AwsPublisher(
        boto3.client("events", config=_CALL),
        boto3.client("sqs", config=_CALL),
        env.bus_name,
        env.worker_queues,
        metrics,
    )
    return Outbox(Relay(publisher, metrics), metrics)


@dataclass(frozen=True, slots=True)
class ApiDesk(Generic[S]):
    """A service of the API, with what tells who calls it."""

    service: S
    roles: Roles
    metrics: EmfMetrics


def build_commands(environ: Mapping[str, str] = os.environ) -> ApiDesk[Commands]:
    """Wire the mutations."""
    env = CommandsEnvironment.read(environ)
    core = build_core(env)
    commands = Commands(
        store=core.store,
        workflows=core.workflows,
        blobs=core.blobs,
        clock=core.clock,
        random=core.random,
        metrics=core.metrics,
        settings=core.settings,
        pools={name: pool.limits() for name, pool in env.pools.items()},
        check_condition=check_condition,
    )
    return ApiDesk(commands, _roles(env.iam_tenants), core.metrics)


def build_queries(environ: Mapping[str, str] = os.environ) -> ApiDesk[Queries]:
    """Wire the queries."""
    env = QueriesEnvironment.read(environ)
    core = build_core(env)
    queries = Queries(
        store=core.store,
        workflows=core.workflows,
        blobs=core.blobs,
        settings=core.settings,
        log_groups=env.worker_log_groups,
    )
    return ApiDesk(queries, _roles(env.iam_tenants), core.metrics)


def _roles(configured: Mapping[str, IamTenant]) -> Roles:
    """Return the role map. Raises `ValueError` on a faulty tenant or group."""
    return {
        arn: RoleGrant(Tenant(grant.tenant), frozenset(Group(name) for name in grant.groups))
        for arn, grant in configured.items()
    }


def _frontier(core: Core) -> Frontier:
    return Frontier(
        core.store,
        core.payloads,
        core.clock,
        core.metrics,
        core.settings,
        evaluate_condition,
        _side_by_side,
    )


def _advance(core: Core, frontier: Frontier) -> Advance:
    return Advance(
        core.store,
        core.workflows,
        frontier,
        core.dispatching,
        _drain(core),
        core.clock,
        core.metrics,
    )


def _drain(core: Core) -> Drain:
    return Drain(core.store, core.clock, core.metrics, core.settings)


def _side_by_side(steps: Sequence[Callable[[], None]]) -> None:
    """Run steps on a few threads. The first error is raised, after all have ended."""
    if len(steps) <= 1:
        for step in steps:
            step()
        return
    with ThreadPoolExecutor(min(_PARALLEL_WRITES, len(steps))) as executor:
        for future in [executor.submit(step) for step in steps]:
            future.result()


def _body_log(path: str | None, clock: SystemClock) -> Callable[[Dispatch], None]:
    """Return what is told of every body that is about to run: one JSON line each, if wanted."""
    if path is None:
        return lambda _: None
    file, lock = Path(path), threading.Lock()

    def started(dispatch: Dispatch) -> None:
        entry = {"at": clock.now_ms(), "pid": os.getpid(), **dispatch.to_json()}
        # One write in append mode: lines of several processes do not mix.
        with lock, file.open("ab", buffering=0) as log:
            log.write(json.dumps(entry).encode() + b"\n")

    return started
