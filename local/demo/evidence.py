"""Where the evidence comes from: a subscription of the demo's own, the body log, the metrics."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from local.demo.ledger import BodyStart, Fact
from piton.ports import Counter as Figure

if TYPE_CHECKING:
    from mypy_boto3_events import EventBridgeClient
    from mypy_boto3_logs import CloudWatchLogsClient
    from mypy_boto3_sqs import SQSClient

_NAME: Final = "piton-demo-evidence"
_COUNTS: Final = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesDelayed",
    "ApproximateNumberOfMessagesNotVisible",
)
_LONG_POLL_S: Final = 1
_STOP_DEADLINE_S: Final = 10.0


class SubscriptionBroken(RuntimeError):
    """Events have not been collected to the end, so there is nothing to judge by."""


class EventTap:
    """Every event of the engine, as a subscriber of the bus gets it."""

    def __init__(self, sqs: SQSClient, queue_url: str) -> None:
        self._sqs = sqs
        self._queue_url = queue_url
        self._lock = threading.Lock()
        self._facts: list[Fact] = []
        self._error: Exception | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._collect, name="demo-events", daemon=True)

    def facts(self) -> list[Fact]:
        """Return what has arrived so far. Raises `SubscriptionBroken`."""
        with self._lock:
            if self._error is not None:
                raise SubscriptionBroken(f"the subscription ended: {self._error}") from self._error
            return list(self._facts)

    def is_drained(self) -> bool:
        """Whether nothing waits to be taken in."""
        return is_empty(self._sqs, self._queue_url)

    def start(self) -> None:
        """Begin to collect."""
        self._thread.start()

    def stop(self) -> None:
        """Stop collecting."""
        self._stopping.set()
        self._thread.join(_STOP_DEADLINE_S)

    def _collect(self) -> None:
        try:
            while not self._stopping.is_set():
                self._take_batch()
        except Exception as error:  # noqa: BLE001
            # Named outcome: whoever asks for the facts next gets it.
            with self._lock:
                self._error = error

    def _take_batch(self) -> None:
        answer = self._sqs.receive_message(
            QueueUrl=self._queue_url, MaxNumberOfMessages=10, WaitTimeSeconds=_LONG_POLL_S
        )
        messages = answer.get("Messages", [])
        if not messages:
            return
        facts = [Fact.parse(message["Body"]) for message in messages]
        with self._lock:
            self._facts.extend(facts)
        self._sqs.delete_message_batch(
            QueueUrl=self._queue_url,
            Entries=[
                {"Id": str(position), "ReceiptHandle": message["ReceiptHandle"]}
                for position, message in enumerate(messages)
            ],
        )


def is_empty(sqs: SQSClient, queue_url: str) -> bool:
    """Whether no message of a queue waits, hides or is being handled."""
    attributes = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=_COUNTS)["Attributes"]
    return all(int(attributes[name]) == 0 for name in _COUNTS)


@contextmanager
def subscribed(events: EventBridgeClient, sqs: SQSClient, bus: str) -> Iterator[EventTap]:
    """Subscribe a queue of its own to everything that the engine puts on the bus."""
    queue_url = sqs.create_queue(QueueName=_NAME)["QueueUrl"]
    attributes = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["QueueArn"])
    events.put_rule(Name=_NAME, EventBusName=bus, EventPattern=json.dumps({"source": ["piton"]}))
    events.put_targets(
        Rule=_NAME,
        EventBusName=bus,
        Targets=[{"Id": "evidence", "Arn": attributes["Attributes"]["QueueArn"]}],
    )
    tap = EventTap(sqs, queue_url)
    tap.start()
    try:
        yield tap
    finally:
        tap.stop()
        events.remove_targets(Rule=_NAME, EventBusName=bus, Ids=["evidence"])
        events.delete_rule(Name=_NAME, EventBusName=bus)
        sqs.delete_queue(QueueUrl=queue_url)


class BodyLog:
    """The file in which workers note every body that they enter."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._starts: list[BodyStart] = []

    def starts(self) -> list[BodyStart]:
        """Return every start so far, in the order of the file."""
        if self._path.exists():
            with self._path.open("rb") as log:
                log.seek(self._offset)
                *lines, rest = log.read().split(b"\n")
                self._offset = log.tell() - len(rest)
            self._starts += [BodyStart.parse(line.decode()) for line in lines]
        return list(self._starts)


@dataclass(frozen=True, slots=True)
class Sweeps:
    """What the watchdog says of itself: its counters, summed, and when it wrote them last."""

    counters: Mapping[str, float] = field(default_factory=dict)
    last_at: int | None = None


def sweeps(logs: CloudWatchLogsClient, log_group: str, since_ms: int) -> Sweeps:
    """Read the metrics that the watchdog has embedded in its log since a moment."""
    total: Counter[str] = Counter()
    last_at: int | None = None
    # A plain term: the embedded AWS takes patterns over JSON fields for a match of everything.
    pages = logs.get_paginator("filter_log_events").paginate(
        logGroupName=log_group, startTime=since_ms, filterPattern=f'"{Figure.SWEPT.value}"'
    )
    for page in pages:
        for event in page["events"]:
            if counted := _counters_of(event["message"]):
                total.update(counted)
                last_at = event["timestamp"]
    return Sweeps({name: float(amount) for name, amount in sorted(total.items())}, last_at)


def _counters_of(line: str) -> dict[str, float]:
    try:
        entry: dict[str, Any] = json.loads(line)
    except ValueError:
        return {}  # a log line that happens to name the figure
    return {
        metric["Name"]: _sum(entry[metric["Name"]])
        for directive in entry.get("_aws", {}).get("CloudWatchMetrics", [])
        for metric in directive["Metrics"]
        if metric["Unit"] == "Count"
    }


def _sum(value: float | list[float]) -> float:
    return sum(value) if isinstance(value, list) else value
