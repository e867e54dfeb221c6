"""Lambda functions: each with its own role, its own log group and nothing shared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.bundle import LAMBDA_PYTHON, Bundle
from infra.findings import acknowledge
from infra.grants import Stores
from infra.stage import Stage
from infra.statements import allow, log_statement
from piton.access import BY_FUNCTION, Function
from piton.storage.algebra import Table

METRICS_NAMESPACE: Final = "Piton"
RUNTIME: Final = lambda_.Runtime("python{}.{}".format(*LAMBDA_PYTHON), lambda_.RuntimeFamily.PYTHON)


@dataclass(frozen=True, slots=True)
class Size:
    """What one run may use: memory in MB, which also buys processor time, and seconds."""

    memory_mb: int
    timeout_s: int

    @property
    def timeout(self) -> Duration:
        """The timeout as CDK wants it."""
        return Duration.seconds(self.timeout_s)


# AppSync gives up after 30 s, so a later answer would reach nobody.
SIZES: Final[Mapping[Function, Size]] = {
    Function.COMMANDS: Size(memory_mb=512, timeout_s=28),
    Function.QUERIES: Size(memory_mb=512, timeout_s=28),
    Function.STEP_RUNNER: Size(memory_mb=512, timeout_s=60),
    Function.WATCHDOG: Size(memory_mb=512, timeout_s=60),
    Function.OUTBOX_RELAY: Size(memory_mb=256, timeout_s=30),
    Function.DEAD_LETTERS: Size(memory_mb=256, timeout_s=60),
}
"""Sizes of all functions but the workers, whose pools have their own."""


class EngineFunction(Construct):
    """One function of the engine, with exactly the access that `piton.access` declares.

    `name` tells functions of one kind apart; it is the kind's own unless given. Its metrics carry
    it as the dimension `service`, beside `stage`. Queues, the bus
    and the change stream are attached by the constructs that own them.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        stage: Stage,
        *,
        kind: Function,
        bundle: Bundle,
        stores: Stores,
        name: str | None = None,
        size: Size | None = None,
        environment: Mapping[str, str] | None = None,
        reserved_concurrency: int | None = None,
    ) -> None:
        super().__init__(scope, id_)
        service = name or kind.value
        name = service.replace("_", "-")
        size = size or SIZES[kind]
        self.access = access = BY_FUNCTION[kind]
        log_group = logs.LogGroup(
            self,
            "Logs",
            log_group_name=log_group_name(stage, name),
            retention=stage.log_retention,
            removal_policy=stage.removal,
        )
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"What {stage.named(name)} may do",
        )
        # Not the managed policy: that one may write to every log group, and create them.
        allow(self.role, [log_statement(log_group.log_group_arn)])
        stores.grant(access, self.role)
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=stage.named(name),
            runtime=RUNTIME,
            architecture=lambda_.Architecture.ARM_64,
            code=lambda_.Code.from_asset(str(bundle.path)),
            handler=f"handlers.{kind.value}.handler",
            role=self.role,
            memory_size=size.memory_mb,
            timeout=size.timeout,
            log_group=log_group,
            reserved_concurrent_executions=reserved_concurrency,
            environment={
                "PITON_STAGE": stage.name.value,
                "PITON_CODE_HASH": bundle.sha256,
                "PITON_SETTINGS": stage.settings,
                "POWERTOOLS_SERVICE_NAME": service,
                "POWERTOOLS_METRICS_NAMESPACE": METRICS_NAMESPACE,
                "POWERTOOLS_LOG_LEVEL": stage.log_level,
                **(_stores_environment(stores) if access.tables else {}),
                **(environment or {}),
            },
        )
        acknowledge(
            self.function,
            "L1",
            "The bundle holds wheels for this runtime; a newer one comes with newer locks.",
        )


def log_group_name(stage: Stage, name: str) -> str:
    """Name of the log group of a function."""
    return f"/piton/{stage.name}/{name}"


def _stores_environment(stores: Stores) -> dict[str, str]:
    return {
        "PITON_EXECUTIONS_TABLE": stores.tables[Table.EXECUTIONS].table_name,
        "PITON_WORKFLOWS_TABLE": stores.tables[Table.WORKFLOWS].table_name,
        "PITON_PAYLOADS_BUCKET": stores.bucket.bucket_name,
    }
