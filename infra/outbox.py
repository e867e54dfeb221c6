"""The outbox: the change stream of executions and the relay, the only sender."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from aws_cdk import Duration, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.bundle import Bundle
from infra.bus import EngineBus
from infra.findings import acknowledge
from infra.functions import EngineFunction
from infra.grants import Stores
from infra.queues import last_resort
from infra.rulebook import exempt
from infra.rules import Rule
from infra.stage import Stage
from infra.statements import (
    allow,
    dispatch_statement,
    publish_statement,
    stream_statements,
)
from piton.access import Function

_Source = lambda_.CfnEventSourceMapping
_BATCH_SIZE: Final = 100

# A record that always fails holds up its shard until it is given up. What it would have sent is
# found by the watchdog, so hours of waiting would gain nothing; but an hour rides out a failure of
# EventBridge or SQS without losing an event that other applications listen for.
_MAX_RECORD_AGE: Final = Duration.hours(1)


class Outbox(Construct):
    """Change stream -> relay -> bus and worker queues.

    The relay raises when anything could not be sent, and the batch comes again, halved each time:
    whoever receives removes repeats. Records given up are noted in `failures`.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        stage: Stage,
        *,
        table: dynamodb.ITable,
        bus: EngineBus,
        worker_queues: Mapping[str, sqs.IQueue],
        bundle: Bundle,
        stores: Stores,
    ) -> None:
        super().__init__(scope, id_)
        self.failures = last_resort(
            self,
            "Failures",
            stage,
            "stream-failures",
            "This queue notes the stream records that the relay gave up; people look at them.",
        )
        self.relay = EngineFunction(
            self,
            "Relay",
            stage,
            kind=Function.OUTBOX_RELAY,
            bundle=bundle,
            stores=stores,
            environment={
                "PITON_BUS_NAME": bus.bus.event_bus_name,
                "PITON_WORKER_QUEUES": Stack.of(self).to_json_string(
                    {pool: queue.queue_url for pool, queue in worker_queues.items()}
                ),
            },
        )
        stream_arn = table.table_stream_arn
        if stream_arn is None:
            raise ValueError("the table has no change stream")
        allow(
            self.relay.role,
            [
                *stream_statements(stream_arn, self.failures.queue_arn),
                publish_statement(bus.bus.event_bus_arn),
                dispatch_statement(queue.queue_arn for queue in worker_queues.values()),
            ],
        )
        lambda_.CfnEventSourceMapping(
            self,
            "Source",
            function_name=self.relay.function.function_name,
            event_source_arn=stream_arn,
            starting_position="TRIM_HORIZON",
            batch_size=_BATCH_SIZE,
            bisect_batch_on_function_error=True,
            maximum_retry_attempts=-1,
            maximum_record_age_in_seconds=int(_MAX_RECORD_AGE.to_seconds()),
            destination_config=_Source.DestinationConfigProperty(
                on_failure=_Source.OnFailureProperty(destination=self.failures.queue_arn)
            ),
            # Rows that the time to live removes let nothing out.
            filter_criteria=_Source.FilterCriteriaProperty(
                filters=[
                    _Source.FilterProperty(pattern=json.dumps({"eventName": ["INSERT", "MODIFY"]}))
                ]
            ),
        )
        why = "Lambda's stream poller needs dynamodb:ListStreams, which knows no resources."
        acknowledge(self.relay.role, "IAM5[Resource::*]", why)
        exempt(self.relay.role, Rule.WILDCARD, why)
