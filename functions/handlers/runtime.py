"""What the handlers share: structured logs, metrics and batches with partial failures."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from aws_lambda_powertools import Logger
from aws_lambda_powertools.logging import utils
from aws_lambda_powertools.utilities.batch import (
    AsyncBatchProcessor,
    EventType,
    async_process_partial_response,
)
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from piton.adapters.metrics import EmfMetrics
from piton.domain.errors import NotYet, Stale
from piton.ports import Counter

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

MAX_VISIBILITY_S: Final = 12 * 3600
_log = logging.getLogger("piton.handlers")


def make_logger() -> Logger:
    """Return this function's logger and let the engine's own log records go the same way."""
    logger = Logger()
    logging.getLogger("piton")
    utils.copy_config_to_registered_loggers(source_logger=logger, include={"piton"})
    return logger


@contextmanager
def flushing(metrics: EmfMetrics) -> Iterator[None]:
    """Write the metrics of an invocation whatever its end."""
    try:
        yield
    finally:
        metrics.flush()


def run_batch(
    event: dict[str, Any],
    context: LambdaContext,
    metrics: EmfMetrics,
    handle: Callable[[SQSRecord], None],
    *,
    side_by_side: bool = False,
) -> dict[str, Any]:
    """Handle each message of a batch and answer which ones have to come again.

    `Stale` is a success: the message speaks of something that is over. Any other error leaves
    its message in the queue, and with it the way to the dead letters.
    """

    def handle_one(record: SQSRecord) -> None:
        try:
            handle(record)
        except Stale as over:
            metrics.count(Counter.STALE_MESSAGE)
            _log.info("message is stale: %s", over)
        except NotYet:
            raise
        except Exception:
            _log.exception("message not handled", extra={"message_id": record.message_id})
            raise

    threads = ThreadPoolExecutor(len(event["Records"]) or 1) if side_by_side else None

    async def handle_async(record: SQSRecord) -> None:
        if threads is not None:
            await asyncio.get_running_loop().run_in_executor(threads, handle_one, record)
        else:
            handle_one(record)

    with flushing(metrics), threads or nullcontext():
        answer = async_process_partial_response(
            event=event,
            record_handler=handle_async,
            processor=AsyncBatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False),
            context=context,
        )
    return dict(answer)


def hide_for(sqs: SQSClient, queue_url: str, record: SQSRecord, wait_ms: int) -> None:
    """Keep a message hidden until its time; it comes back by itself then."""
    sqs.change_message_visibility(
        QueueUrl=queue_url,
        ReceiptHandle=record.receipt_handle,
        VisibilityTimeout=min(math.ceil(wait_ms / 1000), MAX_VISIBILITY_S),
    )
