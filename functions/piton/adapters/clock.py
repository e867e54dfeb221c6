"""The machine's clocks: the only module that reads them."""

from __future__ import annotations

import time


class SystemClock:
    """`ports.Clock` on the operating system."""

    def now_ms(self) -> int:
        """Return epoch milliseconds."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return milliseconds of a clock that never steps back, from an arbitrary start."""
        return time.monotonic_ns() // 1_000_000
