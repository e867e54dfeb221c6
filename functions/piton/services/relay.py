"""The outbox relay: the only sender.

It turns each committed change into its messages. It raises when any of them was not accepted, and
the stream then repeats the whole batch; everything downstream deduplicates.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from piton.domain.errors import Bug
from piton.domain.messages import (
    Dispatch,
    Event,
    Message,
    execution_messages,
    node_messages,
)
from piton.domain.rows import (
    META_SK,
    NODE_SK_PREFIX,
    Attributes,
    ExecutionRef,
    ExecutionRow,
    NodeRow,
)
from piton.ports import Counter, Metrics, Publisher

_log = logging.getLogger("piton.relay")


@dataclass(frozen=True, slots=True)
class Change:
    """One committed change: the item before (None when it is new) and after."""

    old: Attributes | None
    new: Attributes


def messages_of(change: Change) -> list[Message]:
    """Return what one change lets out. Raises `Bug` on a malformed row."""
    old, new = change.old, change.new
    pk, sk = str(new.get("pk")), str(new.get("sk"))
    if sk == META_SK and "exec_status" in new:
        before = ExecutionRow.from_attributes(old) if old and "exec_status" in old else None
        return execution_messages(before, ExecutionRow.from_attributes(new))
    if sk.startswith(NODE_SK_PREFIX):
        row = NodeRow.from_attributes(old) if old else None
        return node_messages(ExecutionRef.from_pk(pk), row, NodeRow.from_attributes(new))
    return []


class Relay:
    """Publishes what the change stream lets out."""

    def __init__(self, publisher: Publisher, metrics: Metrics) -> None:
        self._publisher = publisher
        self._metrics = metrics

    def relay(self, changes: Iterable[Change]) -> int:
        """Send the messages of all changes and return how many. Raises `Retry`.

        A row that cannot be read is counted and left out: it would hold up every change behind
        it, and the watchdog, which meets the same row, parks its execution.
        """
        messages = [message for change in changes for message in self._messages_of(change)]
        dispatches = [message for message in messages if isinstance(message, Dispatch)]
        events = [message for message in messages if isinstance(message, Event)]
        if dispatches:
            self._publisher.dispatch(dispatches)
        if events:
            self._publisher.publish(events)
        return len(messages)

    def _messages_of(self, change: Change) -> list[Message]:
        try:
            return messages_of(change)
        except (Bug, ValueError):
            self._metrics.count(Counter.RECORD_SKIPPED)
            _log.exception("row cannot be read", extra={"sk": str(change.new.get("sk"))})
            return []
