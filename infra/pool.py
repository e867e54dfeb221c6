"""A pool: one worker queue, its workers, and the code and grants of their tasks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.bundle import Bundle
from infra.functions import EngineFunction, Size
from infra.grants import Stores
from infra.queues import WorkQueue
from infra.stage import Stage
from infra.statements import allow, invoke_statement
from piton.access import Function

STOP_MARGIN_S: Final = 10
"""Seconds of a worker's run that are kept for storing an outcome after the longest task."""

_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,30}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """What tasks of one kind need.

    `task_modules` are imported when a worker starts and register the tasks. `packages` are the
    source folders that hold them, `requirements` a lock with hashes of what they import beyond the
    engine's own, and `aws_services` the services that they call through boto3. A task of this pool
    may run for `timeout_s - STOP_MARGIN_S` seconds. A batch of `batch_size` messages waits
    together when its worker is killed, so keep it small. A node may invoke the functions in
    `allowed_lambdas` instead of a task. `grants` is called with the worker to let tasks use other
    resources.

    Raises ValueError on a value that cannot be deployed.
    """

    name: str
    task_modules: tuple[str, ...] = ()
    requirements: Path | None = None
    packages: tuple[Path, ...] = ()
    aws_services: frozenset[str] = frozenset()
    memory_mb: int = 512
    timeout_s: int = 60
    batch_size: int = 4
    max_concurrency: int = 50
    allowed_lambdas: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    grants: Callable[[lambda_.Function], None] | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"Pool name {self.name!r} does not match {_NAME.pattern}")
        for value, low, high, what in (
            (self.timeout_s, 2 * STOP_MARGIN_S, 900, "timeout_s"),
            (self.batch_size, 1, 10, "batch_size"),
            (self.max_concurrency, 2, 1000, "max_concurrency"),
            (self.memory_mb, 128, 10_240, "memory_mb"),
        ):
            if not low <= value <= high:
                raise ValueError(f"{what} of pool {self.name} must be from {low} to {high}")
        if taken := [
            name for name in self.environment if name.startswith(("PITON_", "POWERTOOLS_"))
        ]:
            raise ValueError(f"Pool {self.name} may not set {', '.join(taken)}")

    @property
    def max_task_timeout_s(self) -> int:
        """The longest timeout of a node in this pool, in seconds."""
        return self.timeout_s - STOP_MARGIN_S

    @property
    def worker_name(self) -> str:
        """Name of the worker function, its queue and its log group within a stage."""
        return f"worker-{self.name}"


class WorkerPool(Construct):
    """The queue and the workers of one pool.

    A message that no worker could handle goes to `dead_letters`, whose consumer ends the node;
    what that consumer cannot understand either goes to `quarantine`.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        stage: Stage,
        *,
        pool: Pool,
        bundle: Bundle,
        stores: Stores,
        dead_letters_timeout: Duration,
        quarantine: sqs.IQueue,
    ) -> None:
        super().__init__(scope, id_)
        size = Size(pool.memory_mb, pool.timeout_s)
        self.dead_letters = WorkQueue(
            self,
            "DeadLetters",
            stage,
            name=f"{pool.worker_name}-dlq",
            handler_timeout=dead_letters_timeout,
            dead_letters=quarantine,
            # A message keeps its age when it moves on, so each queue keeps longer than the last.
            retention=Duration.days(7),
        )
        self.work = WorkQueue(
            self,
            "Work",
            stage,
            name=pool.worker_name,
            handler_timeout=size.timeout,
            dead_letters=self.dead_letters.queue,
        )
        self.worker = EngineFunction(
            self,
            "Worker",
            stage,
            kind=Function.WORKER,
            name=pool.worker_name,
            bundle=bundle,
            stores=stores,
            size=size,
            environment={
                **pool.environment,
                "PITON_POOL": pool.name,
                "PITON_MAX_TIMEOUT_S": str(pool.max_task_timeout_s),
                "PITON_ALLOWED_LAMBDAS": json.dumps(pool.allowed_lambdas),
                "PITON_TASK_MODULES": ",".join(pool.task_modules),
                "PITON_WORKER_QUEUE_URL": self.work.queue.queue_url,
                **({"PITON_BODY_LOG": stage.body_log} if stage.body_log else {}),
            },
        )
        self.work.feed(
            self.worker,
            batch_size=pool.batch_size,
            max_concurrency=pool.max_concurrency,
        )
        if pool.allowed_lambdas:
            allow(self.worker.role, [invoke_statement(pool.allowed_lambdas)])
        if pool.grants:
            pool.grants(self.worker.function)
