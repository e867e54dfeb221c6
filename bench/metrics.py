"""Measurements count for themselves."""

from __future__ import annotations

from piton.ports import Counter, Timer


class NoMetrics:
    """`ports.Metrics` that keeps nothing."""

    def count(self, counter: Counter, amount: int = 1) -> None:
        """Forget it."""
        del counter, amount

    def time(self, timer: Timer, milliseconds: int) -> None:
        """Forget it."""
        del timer, milliseconds
