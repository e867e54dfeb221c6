"""Running bodies in threads of the worker process."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final

from piton.domain.errors import Retry
from piton.ports import BodyOutcome, Clock, LeaseLost, Raised, Returned, TimedOut

_RENEWAL_RETRY_MS: Final = 1000
_log = logging.getLogger("piton.work")


class BodyExitedError(Exception):
    """A body tried to end the whole process."""


class ThreadRunner:
    """`ports.BodyRunner`: the body has a thread to itself, the caller renews the lease.

    A thread cannot be stopped from outside: at its timeout it is left behind with its body.
    Whatever that still does, its fence has passed and it can record nothing. Other threads are
    kept for the bodies that follow.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._idle: deque[_BodyThread] = deque()

    def run(
        self,
        body: Callable[[], object],
        *,
        timeout_ms: int,
        heartbeat_ms: int,
        renew: Callable[[], bool],
    ) -> BodyOutcome:
        """Run `body`; see the port."""
        thread = self._take()
        thread.begin(partial(contextvars.copy_context().run, _call, body))
        is_free = False
        try:
            outcome = self._attend(thread, timeout_ms, heartbeat_ms, renew)
            is_free = isinstance(outcome, Returned | Raised)
            return outcome
        finally:
            if is_free:
                self._idle.append(thread)
            else:
                thread.leave()

    def _take(self) -> _BodyThread:
        try:
            return self._idle.pop()
        except IndexError:
            return _BodyThread()

    def _attend(
        self, thread: _BodyThread, timeout_ms: int, heartbeat_ms: int, renew: Callable[[], bool]
    ) -> BodyOutcome:
        start = self._clock.monotonic_ms()
        beat = start + heartbeat_ms
        end = start + timeout_ms
        while True:
            outcome = thread.outcome(min(beat, end) - self._clock.monotonic_ms())
            if outcome is not None:
                return outcome
            now = self._clock.monotonic_ms()
            if now >= end:
                return TimedOut()
            if now >= beat:
                try:
                    if not renew():
                        return LeaseLost()
                    beat = now + heartbeat_ms
                except Retry:
                    _log.warning("lease not renewed, trying again", exc_info=True)
                    beat = now + _RENEWAL_RETRY_MS


class _BodyThread:
    """Runs one body after another, each when told to."""

    def __init__(self) -> None:
        self._bodies: SimpleQueue[Callable[[], BodyOutcome] | None] = SimpleQueue()
        self._outcomes: SimpleQueue[BodyOutcome] = SimpleQueue()
        threading.Thread(target=self._run, name="piton-body", daemon=True).start()

    def begin(self, body: Callable[[], BodyOutcome]) -> None:
        """Run `body` as soon as the one before has ended."""
        self._bodies.put(body)

    def outcome(self, wait_ms: int) -> BodyOutcome | None:
        """Return how the body ended, or None when it still runs after `wait_ms`."""
        try:
            return self._outcomes.get(timeout=max(0, wait_ms) / 1000)
        except Empty:
            return None

    def leave(self) -> None:
        """End the thread once its body ends, if ever."""
        self._bodies.put(None)

    def _run(self) -> None:
        while (body := self._bodies.get()) is not None:
            self._outcomes.put(body())


def _call(body: Callable[[], object]) -> BodyOutcome:
    try:
        return Returned(body())
    except Exception as error:  # noqa: BLE001
        # Named outcome: whatever user code raises is the attempt's failure.
        return Raised(error)
    except BaseException as error:  # noqa: BLE001
        exited = BodyExitedError(type(error).__name__)
        exited.__cause__ = error
        return Raised(exited)
