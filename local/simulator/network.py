"""Stream, bus and queues: everything between a committed change and the call that acts on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from local.simulator.faults import Kind, Place
from local.simulator.host import End, Host, Process
from piton.domain.messages import Dispatch, Event
from piton.services.relay import Change

MAX_RECEIVES: Final = 5
"""Deliveries before a message goes to the dead letters."""

_REDELIVERIES_MS: Final = (50, 2000, 60_000, 360_000)
_BATCH: Final = 20
_PUBLISHED_AT_ONCE: Final = 10


@dataclass(slots=True)
class Message:
    """A message in a queue. `hidden_ms`, once set by its handler, says when it comes back."""

    body: str
    receives: int = 0
    hidden_ms: int | None = field(default=None)


Handler = Callable[[Message], End]
Work = tuple[Process, Handler]
RelayWork = tuple[Process, Callable[[Sequence[Change]], End]]


class Queue:
    """A queue and its consumer. Messages get lost, come twice, or late, when that is planned.

    `place` counts its messages; None where nothing is planned to go wrong.
    `consumer` returns a process with its handler, anew for each delivery. Messages beyond their
    last delivery go to `dead`.
    """

    def __init__(
        self,
        host: Host,
        place: Place | None,
        consumer: Callable[[], Work],
        *,
        limit_ms: int | None,
        dead: Callable[[str], None],
    ) -> None:
        self._host = host
        self._place = place
        self._consumer = consumer
        self._limit_ms = limit_ms
        self._dead = dead
        self.sent: list[str] = []

    def send(self, body: str, delay_ms: int = 0) -> None:
        """Take a message in."""
        self.sent.append(body)
        for fault in self._host.plan.next(self._place) if self._place else ():
            match fault.kind:
                case Kind.MESSAGE_LOST:
                    return
                case Kind.DEAD_LETTERED:
                    self._host.agenda.after(fault.amount, partial(self._dead, body))
                    if fault.amount == 0:
                        return
                    # Its deliveries are used up, yet a copy may still be with a worker.
                case Kind.MESSAGE_REPEATED:
                    self._schedule(Message(body), delay_ms + fault.amount)
                case _:
                    delay_ms += fault.amount
        self._schedule(Message(body), delay_ms)

    def deliver_again(self, body: str) -> None:
        """Deliver a message that may have been handled long ago."""
        self._schedule(Message(body), 0)

    def _schedule(self, message: Message, delay_ms: int) -> None:
        self._host.agenda.after(delay_ms + self._host.latency(), partial(self._deliver, message))

    def _deliver(self, message: Message) -> None:
        if message.receives >= MAX_RECEIVES:
            self._dead(message.body)
            return
        message.receives += 1
        message.hidden_ms = None
        process, handler = self._consumer()
        self._host.spawn(
            process,
            partial(handler, message),
            partial(self._settle, message),
            limit_ms=self._limit_ms,
        )

    def _settle(self, message: Message, end: End) -> None:
        if end is End.DONE:
            return
        wait_ms = message.hidden_ms
        if wait_ms is None:
            wait_ms = self._host.random.choice(_REDELIVERIES_MS)
        self._schedule(message, wait_ms)


class Stream:
    """The change stream and its relays. A batch that fails comes again, smaller."""

    def __init__(self, host: Host, relay: Callable[[], RelayWork], limit_ms: int) -> None:
        self._host = host
        self._relay = relay
        self._limit_ms = limit_ms
        self._changes: list[Change] = []
        self._cursor = 0
        self._busy = False

    def append(self, change: Change) -> None:
        """Add a committed change."""
        self._changes.append(change)
        self._wake()

    def relay_again(self) -> None:
        """Let another relay send part of the stream, whoever else does so now."""
        start = max(0, self._cursor - self._host.random.randint(0, 8))
        self._spawn(self._changes[start : start + _BATCH], lambda _: None)

    def _wake(self) -> None:
        if not self._busy and self._cursor < len(self._changes):
            self._busy = True
            self._host.agenda.after(self._host.latency(), partial(self._next, _BATCH))

    def _next(self, size: int) -> None:
        batch = self._changes[self._cursor : self._cursor + size]
        self._spawn(batch, partial(self._settle, len(batch)))

    def _settle(self, size: int, end: End) -> None:
        if end is End.DONE:
            self._cursor += size
            self._busy = False
            self._wake()
        else:
            self._host.agenda.after(1000, partial(self._next, max(1, size // 2)))

    def _spawn(self, batch: Sequence[Change], on_end: Callable[[End], None]) -> None:
        process, handler = self._relay()
        self._host.spawn(process, partial(handler, batch), on_end, limit_ms=self._limit_ms)


class BusAndQueues:
    """`ports.Publisher`: each request may fail for itself, so a batch may be sent in part."""

    def __init__(self, host: Host, events: Queue, dispatches: Queue) -> None:
        self._host = host
        self._events = events
        self._dispatches = dispatches

    def publish(self, events: Sequence[Event]) -> None:
        """Put events on the bus, which hands them to the advance queue."""
        bodies = [(_envelope(event), 0) for event in events]
        self._send(self._events, bodies, "publish")

    def dispatch(self, dispatches: Sequence[Dispatch]) -> None:
        """Put dispatches on the worker queue."""
        bodies = [(json.dumps(item.to_json()), item.delay_s * 1000) for item in dispatches]
        self._send(self._dispatches, bodies, "dispatch")

    def _send(self, queue: Queue, bodies: list[tuple[str, int]], what: str) -> None:
        while bodies:
            size = self._host.random.randint(1, _PUBLISHED_AT_ONCE)
            self._host.call(partial(_put, queue, bodies[:size]), what, writes=True)
            bodies = bodies[size:]


def _put(queue: Queue, bodies: Sequence[tuple[str, int]]) -> None:
    for body, delay_ms in bodies:
        queue.send(body, delay_ms)


def _envelope(event: Event) -> str:
    return json.dumps(
        {"source": "piton", "detail-type": event.type.value, "detail": dict(event.detail)}
    )
