"""The event bus and the rules that turn events into work."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.queues import last_resort
from infra.stage import Stage
from infra.statements import EVENT_SOURCE
from piton.domain.status import EventType


class Rule(StrEnum):
    """Rules of the bus. Each sends its events to the advance queue as they are."""

    START = "start"
    RESUME = "resume"
    NODE_DONE = "node-done"
    DRAIN = "drain"


RULES: Final[Mapping[Rule, tuple[EventType, ...]]] = {
    Rule.START: (EventType.START_REQUESTED,),
    Rule.RESUME: (EventType.RESUME_REQUESTED,),
    Rule.NODE_DONE: (
        EventType.NODE_COMPLETED,
        EventType.NODE_FAILED,
        EventType.NODE_SKIPPED,
    ),
    Rule.DRAIN: (EventType.WORKFLOW_CANCELLED, EventType.WORKFLOW_FAILED),
}


class EngineBus(Construct):
    """The bus of one stage. Rules of other applications may listen to it too.

    An event that cannot be put on the advance queue for a day waits in `undelivered`.
    """

    def __init__(self, scope: Construct, id_: str, stage: Stage, *, advance: sqs.IQueue) -> None:
        super().__init__(scope, id_)
        self.bus = events.EventBus(self, "Bus", event_bus_name=f"piton-{stage.name}")
        self.undelivered = last_resort(
            self,
            "Undelivered",
            stage,
            "undelivered-events",
            "This queue takes the events that no rule could deliver; people look at them.",
        )
        for rule, types in RULES.items():
            events.Rule(
                self,
                rule.name.title().replace("_", ""),
                rule_name=stage.named(rule),
                event_bus=self.bus,
                event_pattern=events.EventPattern(
                    source=[EVENT_SOURCE], detail_type=[kind.value for kind in types]
                ),
                targets=[
                    targets.SqsQueue(
                        advance,
                        dead_letter_queue=self.undelivered,
                        max_event_age=Duration.hours(24),
                        retry_attempts=185,
                    )
                ],
            )
