"""Worker queue of one pool: runs nodes.

A node that has finished never runs again, and exactly one outcome of a node is ever recorded. A
body may start more than once: after a crash, a timeout or a lost lease there is a next attempt,
and a paused worker may enter its body after a newer attempt has finished or just after a cancel.
Its writes are refused then, because its fence has passed.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.runtime import hide_for, make_logger, run_batch
from piton import bootstrap
from piton.contracts import parse_dispatch
from piton.domain.errors import NotYet

logger = make_logger()
services = cache(bootstrap.build_worker)

RECORDING_MS: Final = 2000
"""Kept free at the end of an invocation for recording the outcome of the last body."""


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Run the nodes of a batch side by side."""
    worker = services()

    def handle(record: SQSRecord) -> None:
        dispatch = parse_dispatch(record.body).to_dispatch()
        logger.thread_safe_append_keys(correlation_id=dispatch.ref.execution_id)
        available_ms = context.get_remaining_time_in_millis() - RECORDING_MS
        try:
            worker.work.run(dispatch, available_ms)
        except NotYet as early:
            hide_for(worker.sqs, worker.queue_url, record, early.wait_ms)
            raise

    return run_batch(event, context, worker.metrics, handle, side_by_side=True)
