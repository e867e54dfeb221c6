"""Virtual time: nothing waits, the clock jumps to whatever happens next."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from typing import Final

EPOCH_MS: Final = 1_760_000_000_000
"""When every simulation begins."""


class Agenda:
    """What happens when. Things that happen at one time happen in random order."""

    def __init__(self, random: Random) -> None:
        self.now = EPOCH_MS
        self._random = random
        self._entries: list[tuple[int, float, int, Callable[[], None]]] = []
        self._added = 0

    def __len__(self) -> int:
        return len(self._entries)

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Do `action` in `delay_ms`."""
        self._added += 1
        entry = (self.now + delay_ms, self._random.random(), self._added, action)
        heapq.heappush(self._entries, entry)

    def do_next(self) -> None:
        """Move the clock to the next action and do it."""
        at, _, _, action = heapq.heappop(self._entries)
        self.now = at
        action()


class SkewedClock:
    """`ports.Clock` of one process: wrong by `skew_ms`, always by the same amount."""

    def __init__(self, agenda: Agenda, skew_ms: int) -> None:
        self._agenda = agenda
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        """Wall-clock time as this process believes it."""
        return self._agenda.now + self.skew_ms

    def monotonic_ms(self) -> int:
        """Time since the beginning; skew has no part in it."""
        return self._agenda.now - EPOCH_MS
