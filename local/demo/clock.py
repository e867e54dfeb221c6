"""Time for the demo: moments, and waiting for something with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from piton.adapters.clock import SystemClock

T = TypeVar("T")

LOOK_EVERY_S: Final = 0.1
CLOCK: Final = SystemClock()


class DeadlinePassed(RuntimeError):
    """What was waited for did not come; the message says what it was."""


def until(
    look: Callable[[], T | None], deadline_s: float, what: str, *, every_s: float = LOOK_EVERY_S
) -> T:
    """Call `look` until it returns something true, and return that. Raises `DeadlinePassed`."""
    end = CLOCK.monotonic_ms() + deadline_s * 1000
    while True:
        if found := look():
            return found
        if CLOCK.monotonic_ms() >= end:
            raise DeadlinePassed(f"{what}: not within {deadline_s:.0f} s")
        time.sleep(every_s)
