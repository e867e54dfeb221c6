"""Counts of what the engine did, in place of CloudWatch."""

from __future__ import annotations

import sys
from collections import Counter as Counts

from local.simulator.host import Violation
from piton.domain.errors import Retry
from piton.ports import Counter, Timer


class Tally:
    """`ports.Metrics` that adds up.

    A sweep isolates every error of a step and counts it. Anything but an unanswered call is a
    fault of the engine, and this is where it can be seen.
    """

    def __init__(self) -> None:
        self.counts: Counts[Counter] = Counts()

    def count(self, counter: Counter, amount: int = 1) -> None:
        """Add to a counter. Raises `Violation`."""
        self.counts[counter] += amount
        error = sys.exception()
        if counter is Counter.SWEEP_ERROR and not isinstance(error, Retry):
            raise Violation(f"a step of the sweep raised {error!r}") from error
        if counter is Counter.RECORD_SKIPPED:
            raise Violation(f"the relay could not read a row: {error!r}") from error

    def time(self, timer: Timer, milliseconds: int) -> None:
        """Durations are virtual and of no interest."""
