"""What a running body can ask of its context."""

import logging
from collections.abc import Callable

import pytest

from piton.domain.errors import Retry
from piton.domain.messages import Dispatch
from piton.domain.rows import ExecutionRef
from piton.services.context import LEASE_LOST, RunningContext
from piton.tasks import Permanent

DISPATCH = Dispatch("default", ExecutionRef("acme", "0" * 26), 3, "extract", 2, 2, 0, 0)


class SteppedClock:
    def __init__(self) -> None:
        self.now = 1000

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> int:
        return self.now


def context_with(report: Callable[[int, str], bool]) -> tuple[RunningContext, SteppedClock]:
    clock = SteppedClock()
    logger = logging.LoggerAdapter(logging.getLogger("test"), {})
    return RunningContext(DISPATCH, 61_000, logger, clock, report), clock


def test_progress_is_reported_in_percent_and_at_most_once_a_second() -> None:
    reports: list[tuple[int, str]] = []

    def report(percent: int, note: str) -> bool:
        reports.append((percent, note))
        return True

    context, clock = context_with(report)
    context.progress(0.251, "a\x00b")
    clock.now += 999
    context.progress(0.5)
    clock.now += 1
    context.progress(7)
    assert reports == [(25, "ab"), (100, "")]


def test_a_report_that_the_store_does_not_answer_leaves_the_body_alone() -> None:
    answers: list[int] = []

    def report(percent: int, _: str) -> bool:
        answers.append(percent)
        raise Retry("throttled")

    context, clock = context_with(report)
    context.progress(0.1)
    clock.now += 1000
    context.progress(0.2)
    assert answers == [10, 20]


def test_a_lost_lease_ends_the_body() -> None:
    context, _ = context_with(lambda _percent, _note: False)
    with pytest.raises(Permanent) as lost:
        context.progress(0.5)
    assert lost.value.code == LEASE_LOST


def test_the_time_left_never_falls_below_zero() -> None:
    context, clock = context_with(lambda _percent, _note: True)
    assert context.remaining_s() == 60
    clock.now = 99_000
    assert context.remaining_s() == 0
