"""The outbox relay: the only sender.

It turns each committed change into its messages. It raises when any of them was not accepted, and
the stream then repeats the whole batch; everything downstream deduplicates.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

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

_TELLING_OF_NODE: Final = ("node_status", "node_fence", "node_sends")
_TELLING_OF_EXECUTION: Final = ("exec_status", "exec_resumes")
"""A change that leaves these as they were lets nothing out, so its rows are not parsed."""


@dataclass(frozen=True, slots=True)
class Change:
    """One committed change: the item before (None when it is new) and after."""

    old: Attributes | None
    new: Attributes


def messages_of(change: Change) -> list[Message]:
    """Return what one change lets out. Raises `Bug` on a malformed row."""
    old, new = change.old, change.new
    sk = str(new.get("sk"))
    if sk == META_SK and "exec_status" in new:
        had = old if old and "exec_status" in old else None
        if _is_same(had, new, _TELLING_OF_EXECUTION):
            return []
        before = ExecutionRow.from_attributes(_without_log(had)) if had else None
        return execution_messages(before, ExecutionRow.from_attributes(_without_log(new)))
    if sk.startswith(NODE_SK_PREFIX):
        if _is_same(old, new, _TELLING_OF_NODE):
            return []
        row = NodeRow.from_attributes(_without_log(old)) if old else None
        ref = ExecutionRef.from_pk(str(new.get("pk")))
        return node_messages(ref, row, NodeRow.from_attributes(_without_log(new)))
    return []


def _is_same(old: Attributes | None, new: Attributes, names: Sequence[str]) -> bool:
    return old is not None and all(old.get(name) == new.get(name) for name in names)


def _without_log(attributes: Attributes) -> Attributes:
    return {name: value for name, value in attributes.items() if not name.endswith("_log")}


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
            self.leave_out(change.new.get("sk"))
            return []

    def leave_out(self, key: object) -> None:
        """Count and log a change that cannot be read, from where the error is handled."""
        self._metrics.count(Counter.RECORD_SKIPPED)
        _log.exception("row cannot be read", extra={"key": key})
