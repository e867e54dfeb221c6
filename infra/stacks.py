"""The three stacks: what is kept, what works on it, and the way in.

Nothing here costs anything while unused but what runs by itself: the watchdog's sweeps and
metrics, and Lambda's polling of the queues. `prod` adds alarms and a dashboard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from aws_cdk import App, CfnOutput, Stack, Tags
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.api import Api
from infra.artifacts import Artifacts, Bundles
from infra.bundle import Bundle
from infra.bus import EngineBus
from infra.contract import Output
from infra.functions import SIZES, EngineFunction
from infra.grants import Stores
from infra.identity import Identity
from infra.monitoring import Monitoring
from infra.outbox import Outbox
from infra.payloads import Payloads
from infra.pool import Pool, WorkerPool
from infra.pools import POOLS
from infra.queues import WorkQueue, last_resort
from infra.schema import RESOLVERS, Field
from infra.stage import ContextError, Stage
from infra.sweeper import Sweeper
from infra.tables import Tables
from piton.access import Function
from piton.storage.algebra import Table

_ADVANCE_BATCH: Final = 10
_ADVANCE_CONCURRENCY: Final = 50
_DEAD_LETTERS_BATCH: Final = 10
_DEAD_LETTERS_CONCURRENCY: Final = 2


class _StageStack(Stack):
    """A stack whose name, protection and outputs follow the stage."""

    def __init__(
        self, scope: Construct, id_: str, stage: Stage, part: str, description: str
    ) -> None:
        super().__init__(
            scope,
            id_,
            stack_name=stage.named(part),
            description=f"{description} ({stage.name})",
            termination_protection=stage.protect,
        )

    def output(self, output: Output, value: str) -> None:
        """Publish `value` under a name that is the same on every stage."""
        CfnOutput(self, output.value, value=value)


class DataStack(_StageStack):
    """What outlives a deployment: tables, payloads and, if asked for, their key."""

    def __init__(self, scope: Construct, stage: Stage) -> None:
        super().__init__(scope, "PitonData", stage, "data", "Piton: tables and payloads")
        key = _key(self, stage) if stage.customer_key else None
        tables = Tables(self, "Tables", stage, key)
        payloads = Payloads(self, "Payloads", stage, key)
        exported = self.resolve(self.export_value(payloads.bucket.bucket_arn))
        self.stores = Stores(tables.by_name, payloads.bucket, exported["Fn::ImportValue"], key)
        self.executions = tables.executions
        self.output(Output.EXECUTIONS_TABLE, tables.by_name[Table.EXECUTIONS].table_name)
        self.output(Output.WORKFLOWS_TABLE, tables.by_name[Table.WORKFLOWS].table_name)
        self.output(Output.PAYLOADS_BUCKET, payloads.bucket.bucket_name)
        self.output(Output.REGION, self.region)


class EngineStack(_StageStack):
    """Everything that moves executions on: bus, queues, workers, relay and watchdog."""

    def __init__(
        self,
        scope: Construct,
        stage: Stage,
        data: DataStack,
        pools: Sequence[Pool],
        artifacts: Artifacts,
    ) -> None:
        super().__init__(scope, "PitonEngine", stage, "engine", "Piton: the engine")
        bundle = artifacts.engine()
        self._stage, self._stores, self._bundle = stage, data.stores, bundle
        self.advance = WorkQueue(
            self,
            "Advance",
            stage,
            name="advance",
            handler_timeout=SIZES[Function.STEP_RUNNER].timeout,
        )
        self.bus = EngineBus(self, "Events", stage, advance=self.advance.queue)
        step_runner = self._function("StepRunner", Function.STEP_RUNNER)
        self.advance.feed(
            step_runner, batch_size=_ADVANCE_BATCH, max_concurrency=_ADVANCE_CONCURRENCY
        )
        self.quarantine = last_resort(
            self,
            "Quarantine",
            stage,
            "quarantine",
            "This queue keeps what the consumer of dead letters cannot understand.",
        )
        dead_letters = self._function("DeadLetters", Function.DEAD_LETTERS)
        self.pools = {
            pool.name: self._pool(pool, artifacts.worker(pool), dead_letters) for pool in pools
        }
        self.outbox = Outbox(
            self,
            "Outbox",
            stage,
            table=data.executions,
            bus=self.bus,
            worker_queues={name: pool.work.queue for name, pool in self.pools.items()},
            bundle=bundle,
            stores=data.stores,
        )
        self.sweeper = Sweeper(self, "Sweeper", stage, bundle=bundle, stores=data.stores)
        if stage.monitoring:
            self._monitor(
                {
                    Function.STEP_RUNNER: step_runner.function,
                    Function.DEAD_LETTERS: dead_letters.function,
                    Function.OUTBOX_RELAY: self.outbox.relay.function,
                    Function.WATCHDOG: self.sweeper.watchdog.function,
                }
            )
        self.output(Output.BUS_NAME, self.bus.bus.event_bus_name)
        self.output(Output.ADVANCE_QUEUE_URL, self.advance.queue.queue_url)
        self.output(Output.ADVANCE_DLQ_URL, self.advance.dead_letters.queue_url)
        self.output(Output.QUARANTINE_URL, self.quarantine.queue_url)
        self.output(
            Output.WORKER_QUEUE_URLS,
            self.to_json_string(
                {name: pool.work.queue.queue_url for name, pool in self.pools.items()}
            ),
        )

    def _function(self, id_: str, kind: Function) -> EngineFunction:
        return EngineFunction(
            self, id_, self._stage, kind=kind, bundle=self._bundle, stores=self._stores
        )

    def _pool(self, pool: Pool, bundle: Bundle, dead_letters: EngineFunction) -> WorkerPool:
        made = WorkerPool(
            self,
            f"Pool-{pool.name}",
            self._stage,
            pool=pool,
            bundle=bundle,
            stores=self._stores,
            dead_letters_timeout=SIZES[Function.DEAD_LETTERS].timeout,
            quarantine=self.quarantine,
        )
        made.dead_letters.feed(
            dead_letters,
            batch_size=_DEAD_LETTERS_BATCH,
            max_concurrency=_DEAD_LETTERS_CONCURRENCY,
        )
        return made

    def _monitor(self, functions: Mapping[Function, lambda_.Function]) -> None:
        Monitoring(
            self,
            "Monitoring",
            self._stage,
            functions=functions,
            live_queues={
                "Advance": self.advance.queue,
                **{f"Worker-{name}": pool.work.queue for name, pool in self.pools.items()},
            },
            dead_queues={
                "AdvanceDlq": self.advance.dead_letters,
                "Quarantine": self.quarantine,
                "UndeliveredEvents": self.bus.undelivered,
                "StreamFailures": self.outbox.failures,
            },
        )


class ApiStack(_StageStack):
    """The way in: users and the GraphQL API."""

    def __init__(
        self,
        scope: Construct,
        stage: Stage,
        data: DataStack,
        pools: Sequence[Pool],
        artifacts: Artifacts,
        resolvers: Mapping[Field, Function],
    ) -> None:
        super().__init__(scope, "PitonApi", stage, "api", "Piton: users and API")
        identity = Identity(self, "Identity", stage)
        api = Api(
            self,
            "Api",
            stage,
            identity=identity,
            pools=pools,
            bundle=artifacts.engine(),
            stores=data.stores,
            resolvers=resolvers,
        )
        self.output(Output.API_URL, api.api.graphql_url)
        self.output(Output.API_ID, api.api.api_id)
        self.output(Output.USER_POOL_ID, identity.pool.user_pool_id)
        self.output(Output.USER_POOL_CLIENT_ID, identity.client.user_pool_client_id)


def build(
    app: App,
    *,
    pools: Sequence[Pool] = POOLS,
    artifacts: Artifacts | None = None,
    resolvers: Mapping[Field, Function] = RESOLVERS,
) -> Stage:
    """Compose the stacks of the stage that the context of `app` names.

    Raises `ContextError`, `BundleError` and `SchemaError`.
    """
    stage = Stage.from_context(app.node)
    _check(stage, pools)
    artifacts = artifacts or Bundles(stage.target)
    data = DataStack(app, stage)
    EngineStack(app, stage, data, pools, artifacts)
    ApiStack(app, stage, data, pools, artifacts, resolvers)
    Tags.of(app).add("piton:stage", stage.name.value)
    return stage


def _check(stage: Stage, pools: Sequence[Pool]) -> None:
    longest = max(size.timeout_s for size in SIZES.values()) * 1000
    if stage.engine.handler_timeout_ms < longest:
        raise ContextError(
            f"Context value settings: handler_timeout_ms must be at least {longest}, the longest "
            "timeout of a function that runs no task"
        )
    names = [pool.name for pool in pools]
    if len(set(names)) < len(names) or "default" not in names:
        raise ValueError("infra/pools.py needs a pool named default, and every name once")


def _key(scope: Construct, stage: Stage) -> kms.Key:
    return kms.Key(
        scope,
        "Key",
        alias=stage.named("data"),
        description=f"Piton's tables and payloads on stage {stage.name}",
        enable_key_rotation=True,
        removal_policy=stage.removal,
    )
