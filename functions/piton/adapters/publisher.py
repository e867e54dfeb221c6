"""The bus and the worker queues: where the relay sends."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from piton.adapters.aws_errors import translated
from piton.domain.errors import Retry
from piton.domain.messages import Dispatch, Event
from piton.ports import Counter, Metrics

if TYPE_CHECKING:
    from mypy_boto3_events import EventBridgeClient
    from mypy_boto3_events.type_defs import PutEventsRequestEntryTypeDef
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import SendMessageBatchRequestEntryTypeDef

SOURCE: Final = "piton"
_BATCH: Final = 10
_T = TypeVar("_T")
_log = logging.getLogger("piton.relay")


class AwsPublisher:
    """`ports.Publisher` on EventBridge and SQS.

    `queues` maps each pool to its queue's URL. Both services accept part of a batch and answer
    success, so every answer is looked through.
    """

    def __init__(
        self,
        events: EventBridgeClient,
        sqs: SQSClient,
        bus: str,
        queues: Mapping[str, str],
        metrics: Metrics,
    ) -> None:
        self._events = events
        self._sqs = sqs
        self._bus = bus
        self._queues = queues
        self._metrics = metrics

    def publish(self, events: Sequence[Event]) -> None:
        """Put events on the bus. Raises `Retry` unless all were accepted."""
        for batch in _batches(events):
            entries = [self._entry(event) for event in batch]
            with translated("bus.put"):
                answer = self._events.put_events(Entries=entries)
            if answer["FailedEntryCount"]:
                raise Retry(f"bus.put: {answer['FailedEntryCount']} events were not accepted")

    def dispatch(self, dispatches: Sequence[Dispatch]) -> None:
        """Put dispatches on their pools' queues. Raises `Retry` unless all were accepted.

        A dispatch to a pool that is not deployed any more is counted and left out: it would hold
        up everything behind it in the stream, and the watchdog parks its execution.
        """
        by_pool: dict[str, list[Dispatch]] = defaultdict(list)
        for item in dispatches:
            by_pool[item.pool].append(item)
        for pool, items in by_pool.items():
            url = self._queues.get(pool)
            if url is None:
                self._metrics.count(Counter.POOL_MISSING, len(items))
                _log.error("no queue for pool", extra={"pool": pool, "dispatches": len(items)})
                continue
            for batch in _batches(items):
                self._send(url, batch)

    def _send(self, url: str, batch: Sequence[Dispatch]) -> None:
        entries: list[SendMessageBatchRequestEntryTypeDef] = [
            {
                "Id": str(i),
                "MessageBody": json.dumps(item.to_json(), separators=(",", ":")),
                "DelaySeconds": item.delay_s,
                # On a standard queue the group makes delivery fair between tenants.
                "MessageGroupId": item.ref.tenant,
            }
            for i, item in enumerate(batch)
        ]
        with translated("queue.send"):
            answer = self._sqs.send_message_batch(QueueUrl=url, Entries=entries)
        if failed := answer.get("Failed"):
            raise Retry(f"queue.send: {len(failed)} dispatches were not accepted")

    def _entry(self, event: Event) -> PutEventsRequestEntryTypeDef:
        return {
            "Source": SOURCE,
            "DetailType": event.type.value,
            "Detail": json.dumps(dict(event.detail), separators=(",", ":")),
            "EventBusName": self._bus,
        }


def _batches(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    for start in range(0, len(items), _BATCH):
        yield items[start : start + _BATCH]
