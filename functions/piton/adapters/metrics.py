"""Figures as CloudWatch metrics in embedded metric format."""

from __future__ import annotations

from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Iterable
from threading import Lock
from typing import Final

from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import (
    AmazonCloudWatchEMFProvider,
)

from piton.ports import Counter, Timer

_VALUES_PER_METRIC: Final = 100


class EmfMetrics:
    """`ports.Metrics`, collected during one invocation and written by `flush`.

    Dimensions are the function (`service`) and the stage. Safe to use from several threads.
    """

    def __init__(self, stage: str) -> None:
        self._stage = stage
        self._lock = Lock()
        self._counts: Tally[Counter] = Tally()
        self._times: dict[Timer, list[int]] = defaultdict(list)

    def count(self, counter: Counter, amount: int = 1) -> None:
        """Add to a counter. Adding zero makes the counter appear."""
        with self._lock:
            self._counts[counter] += amount

    def time(self, timer: Timer, milliseconds: int) -> None:
        """Record a duration."""
        with self._lock:
            self._times[timer].append(milliseconds)

    def show(self, counters: Iterable[Counter]) -> None:
        """Make counters appear with zero, so that graphs and alarms have data."""
        for counter in counters:
            self.count(counter, 0)

    def flush(self) -> None:
        """Write what was collected to standard output and begin anew."""
        with self._lock:
            counts, self._counts = self._counts, Tally()
            times, self._times = self._times, defaultdict(list)
        if not counts and not times:
            return
        provider = AmazonCloudWatchEMFProvider(default_dimensions={"stage": self._stage})
        for counter, amount in counts.items():
            provider.add_metric(counter.value, MetricUnit.Count, amount)
        for timer, values in times.items():
            for value in values[:_VALUES_PER_METRIC]:
                provider.add_metric(timer.value, MetricUnit.Milliseconds, value)
        provider.flush_metrics()
