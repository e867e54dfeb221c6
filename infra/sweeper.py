"""The watchdog and its clock."""

from __future__ import annotations

from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.bundle import Bundle
from infra.functions import EngineFunction
from infra.grants import Stores
from infra.rulebook import exempt
from infra.rules import Rule
from infra.stage import Stage
from piton.access import Function

INTERVAL: Final = Duration.minutes(1)


class Sweeper(Construct):
    """Sweeps every minute.

    A sweep that could not run is not caught up on, since the next one finds the same work. So the
    schedule has neither retries nor dead letters.
    """

    def __init__(
        self, scope: Construct, id_: str, stage: Stage, *, bundle: Bundle, stores: Stores
    ) -> None:
        super().__init__(scope, id_)
        self.watchdog = EngineFunction(
            self,
            "Watchdog",
            stage,
            kind=Function.WATCHDOG,
            bundle=bundle,
            stores=stores,
            reserved_concurrency=1 if stage.reserve_concurrency else None,
        )
        lambda_.EventInvokeConfig(
            self,
            "NoCatchingUp",
            function=self.watchdog.function,
            retry_attempts=0,
            max_event_age=INTERVAL,
        )
        if not stage.reserve_concurrency:
            exempt(
                self.watchdog.function,
                Rule.RESERVED,
                "This account's quota is too small to reserve from; overlapping sweeps are safe.",
            )
        every_minute = events.Rule(
            self,
            "EveryMinute",
            rule_name=stage.named("sweep"),
            schedule=events.Schedule.rate(INTERVAL),
            targets=[
                targets.LambdaFunction(
                    self.watchdog.function, retry_attempts=0, max_event_age=INTERVAL
                )
            ],
        )
        exempt(
            every_minute,
            Rule.DEAD_LETTERS,
            "A sweep that could not run is not caught up on: the next one finds the same work.",
        )
