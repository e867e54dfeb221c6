"""Advance queue: starts, advances, resumes and drains executions."""

from __future__ import annotations

from functools import cache
from typing import Any

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.runtime import make_logger, run_batch
from piton import bootstrap
from piton.contracts import ExecutionEvent, NodeEvent, parse_event
from piton.domain.errors import Stale
from piton.domain.status import EventType
from piton.services.advance import Advance

logger = make_logger()
services = cache(bootstrap.build_step_runner)


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Handle a batch of bus events."""
    runner = services()

    def handle(record: SQSRecord) -> None:
        fact = parse_event(record.body)
        logger.set_correlation_id(fact.detail.execution_id)
        route(runner.advance, fact)

    return run_batch(event, context, runner.metrics, handle)


def route(advance: Advance, fact: NodeEvent | ExecutionEvent) -> None:
    """Call the service that an event asks for. Raises `Stale` for events nobody acts on."""
    ref = fact.detail.ref
    match fact:
        case NodeEvent(
            type=EventType.NODE_COMPLETED | EventType.NODE_FAILED | EventType.NODE_SKIPPED
        ):
            advance.node_ended(ref, fact.detail.ordinal)
        case ExecutionEvent(type=EventType.START_REQUESTED):
            advance.start(ref)
        case ExecutionEvent(type=EventType.RESUME_REQUESTED):
            advance.resume(ref)
        case ExecutionEvent(type=EventType.WORKFLOW_CANCELLED | EventType.WORKFLOW_FAILED):
            advance.ended(ref)
        case _:
            raise Stale(f"nobody acts on {fact.type.value}")
