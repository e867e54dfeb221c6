"""A clock that stands still unless it is turned, the same for every function of the exercise."""

import threading
from typing import Final

EPOCH: Final = 1_760_000_000_000


class TurnedClock:
    """`ports.Clock`. Threads may share it."""

    def __init__(self) -> None:
        self._now = EPOCH
        self._lock = threading.Lock()

    def now_ms(self) -> int:
        """Return epoch milliseconds."""
        return self._now

    def monotonic_ms(self) -> int:
        """Return milliseconds since the clock was made."""
        return self._now - EPOCH

    def turn(self, by_ms: int) -> None:
        """Let time pass."""
        with self._lock:
            self._now += by_ms


CLOCK: Final = TurnedClock()
"""Bodies run inside a worker that builds its own clock, so the clock has to be found by import."""
