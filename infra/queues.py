"""Queues, their dead letters and how functions consume them."""

from __future__ import annotations

from typing import Final

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.findings import acknowledge
from infra.functions import EngineFunction
from infra.stage import Stage
from infra.statements import allow, consume_statement

MAX_RECEIVES: Final = 5
"""Deliveries before a message is a dead letter. Throttled deliveries count too, so not fewer."""

VISIBILITY_FACTOR: Final = 6
"""Visibility timeout in timeouts of the consumer, as Lambda advises for its own retries."""

_LONGEST: Final = Duration.days(14)


def last_resort(scope: Construct, id_: str, stage: Stage, name: str, why: str) -> sqs.Queue:
    """Make a queue that only people empty. `why` it needs no dead letters of its own."""
    queue = _queue(scope, id_, stage, name, retention=_LONGEST)
    acknowledge(queue, "SQS3", why)
    return queue


class WorkQueue(Construct):
    """A queue with one consuming function and the queue of its dead letters.

    A message stays hidden for `VISIBILITY_FACTOR` times `handler_timeout`. Dead letters go to
    `dead_letters`, or to a queue of this construct that only people empty.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        stage: Stage,
        *,
        name: str,
        handler_timeout: Duration,
        dead_letters: sqs.IQueue | None = None,
        retention: Duration | None = None,
    ) -> None:
        super().__init__(scope, id_)
        self._name = name
        self._most_consumers = stage.most_consumers
        self.dead_letters = dead_letters or last_resort(
            self,
            "DeadLetters",
            stage,
            f"{name}-dlq",
            "This is the queue of dead letters.",
        )
        self.queue = _queue(
            self,
            "Queue",
            stage,
            name,
            retention=retention or Duration.days(4),
            visibility_timeout=Duration.seconds(VISIBILITY_FACTOR * handler_timeout.to_seconds()),
            dead_letter_queue=sqs.DeadLetterQueue(
                max_receive_count=MAX_RECEIVES, queue=self.dead_letters
            ),
        )

    def feed(self, consumer: EngineFunction, *, batch_size: int, max_concurrency: int) -> None:
        """Let `consumer` have the messages; it answers which messages of a batch failed."""
        allow(consumer.role, [consume_statement(consumer.access, self._name, self.queue.queue_arn)])
        lambda_.EventSourceMapping(
            self,
            "Source",
            target=consumer.function,
            event_source_arn=self.queue.queue_arn,
            batch_size=batch_size,
            max_concurrency=min(max_concurrency, self._most_consumers),
            report_batch_item_failures=True,
        )


def _queue(
    scope: Construct,
    id_: str,
    stage: Stage,
    name: str,
    *,
    retention: Duration,
    visibility_timeout: Duration | None = None,
    dead_letter_queue: sqs.DeadLetterQueue | None = None,
) -> sqs.Queue:
    return sqs.Queue(
        scope,
        id_,
        queue_name=stage.named(name),
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        enforce_ssl=True,
        retention_period=retention,
        visibility_timeout=visibility_timeout,
        dead_letter_queue=dead_letter_queue,
        # Messages are hints that can be computed again from the tables.
        removal_policy=RemovalPolicy.DESTROY,
    )
