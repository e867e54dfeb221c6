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
from piton.ports import Clock
from piton.services.advance import Advance
from piton.services.assembly import Engine, Ports
from piton.services.bodies import PoolProfile
from piton.services.caller import Group, RoleGrant, Roles
from piton.services.commands import Commands
from piton.services.dead_letters import DeadLetters
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
class Base:
    """What every function that touches executions stands on."""

    ports: Ports
    metrics: EmfMetrics

    def engine(self) -> Engine:
        """Return the engine's services."""
        return Engine(self.ports, _side_by_side)


def build_base(env: StateEnvironment) -> Base:
    """Build clients and stores."""
    metrics = EmfMetrics(env.stage)
    tables = {Table.EXECUTIONS: env.executions_table, Table.WORKFLOWS: env.workflows_table}
    store = DynamoStore(boto3.client("dynamodb", config=_CALL), tables)
    blobs = S3Blobs(boto3.client("s3", config=_CALL), env.payloads_bucket)
    ports = Ports(
        store=store,
        workflows=Workflows(store, blobs),
        blobs=blobs,
        clock=SystemClock(),
        random=SystemRandom(),
        metrics=metrics,
        settings=env.engine_settings(),
        condition=evaluate_condition,
    )
    return Base(ports, metrics)


@dataclass(frozen=True, slots=True)
class StepRunner:
    """Services of the step runner."""

    advance: Advance
    metrics: EmfMetrics


def build_step_runner(environ: Mapping[str, str] = os.environ) -> StepRunner:
    """Wire the step runner."""
    base = build_base(StateEnvironment.read(environ))
    return StepRunner(base.engine().advance, base.metrics)


@dataclass(frozen=True, slots=True)
class Watchdog:
    """Services of the watchdog."""

    sweep: Sweep
    metrics: EmfMetrics


def build_watchdog(environ: Mapping[str, str] = os.environ) -> Watchdog:
    """Wire the watchdog."""
    base = build_base(StateEnvironment.read(environ))
    return Watchdog(base.engine().sweep, base.metrics)


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
    base = build_base(env)
    clock = base.ports.clock
    one_call = Config(
        connect_timeout=2,
        read_timeout=int(env.max_timeout_s) + 5,
        retries={"total_max_attempts": 1},
    )
    work = base.engine().worker(
        tasks=REGISTRY,
        runner=ThreadRunner(clock),
        invoker=AwsLambdaInvoker(boto3.client("lambda", config=one_call)),
        pool=PoolProfile(
            int(env.max_timeout_s * 1000), env.allowed_lambdas, _body_log(env.body_log, clock)
        ),
        identity=WorkerIdentity(host=f"{env.pool}:{os.getpid()}", code_hash=env.code_hash[:12]),
    )
    return Worker(work, base.metrics, boto3.client("sqs", config=_CALL), env.worker_queue_url)


@dataclass(frozen=True, slots=True)
class DeadLetterDesk:
    """Services of the dead-letter function."""

    dead_letters: DeadLetters
    metrics: EmfMetrics


def build_dead_letters(environ: Mapping[str, str] = os.environ) -> DeadLetterDesk:
    """Wire the dead-letter function."""
    base = build_base(StateEnvironment.read(environ))
    return DeadLetterDesk(base.engine().dead_letters, base.metrics)


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
    base = build_base(env)
    commands = Commands(
        store=base.ports.store,
        workflows=base.ports.workflows,
        blobs=base.ports.blobs,
        clock=base.ports.clock,
        random=base.ports.random,
        metrics=base.metrics,
        settings=base.ports.settings,
        pools={name: pool.limits() for name, pool in env.pools.items()},
        check_condition=check_condition,
    )
    return ApiDesk(commands, _roles(env.iam_tenants), base.metrics)


def build_queries(environ: Mapping[str, str] = os.environ) -> ApiDesk[Queries]:
    """Wire the queries."""
    env = QueriesEnvironment.read(environ)
    base = build_base(env)
    queries = Queries(
        store=base.ports.store,
        workflows=base.ports.workflows,
        blobs=base.ports.blobs,
        settings=base.ports.settings,
        log_groups=env.worker_log_groups,
    )
    return ApiDesk(queries, _roles(env.iam_tenants), base.metrics)


def _roles(configured: Mapping[str, IamTenant]) -> Roles:
    """Return the role map. Raises `ValueError` on a faulty tenant or group."""
    return {
        arn: RoleGrant(Tenant(grant.tenant), frozenset(Group(name) for name in grant.groups))
        for arn, grant in configured.items()
    }


def _side_by_side(steps: Sequence[Callable[[], None]]) -> None:
    """Run steps on a few threads. The first error is raised, after all have ended."""
    if len(steps) <= 1:
        for step in steps:
            step()
        return
    with ThreadPoolExecutor(min(_PARALLEL_WRITES, len(steps))) as executor:
        for future in [executor.submit(step) for step in steps]:
            future.result()


def _body_log(path: str | None, clock: Clock) -> Callable[[Dispatch], None]:
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
