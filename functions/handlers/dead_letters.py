"""Dead-letter queues of the pools: disposes of dispatches that no worker could take."""

from __future__ import annotations

from functools import cache
from typing import Any

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.runtime import make_logger, run_batch
from piton import bootstrap
from piton.contracts import parse_dispatch

logger = make_logger()
services = cache(bootstrap.build_dead_letters)


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Dispose of a batch. What cannot be understood stays and ends in the quarantine queue."""
    desk = services()

    def handle(record: SQSRecord) -> None:
        dispatch = parse_dispatch(record.body).to_dispatch()
        logger.set_correlation_id(dispatch.ref.execution_id)
        desk.dead_letters.undeliverable(dispatch)

    return run_batch(event, context, desk.metrics, handle)
