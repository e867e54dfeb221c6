"""Bodies in threads: which thread a body gets, and what becomes of one that does not end."""

import contextvars
import threading
from collections.abc import Callable, Iterator

import pytest

from piton.adapters.bodies import BodyExitedError, ThreadRunner
from piton.adapters.clock import SystemClock
from piton.domain.errors import Retry
from piton.ports import BodyOutcome, LeaseLost, Raised, Returned, TimedOut

LONG_MS = 60_000


class Endless:
    """A body that does not end until the test does."""

    def __init__(self) -> None:
        self.thread: threading.Thread | None = None
        self._begun = threading.Event()
        self._released = threading.Event()

    def __call__(self) -> None:
        self.thread = threading.current_thread()
        self._begun.set()
        self._released.wait()

    def wait_until_it_runs(self) -> threading.Thread:
        assert self._begun.wait(LONG_MS / 1000)
        assert self.thread is not None
        return self.thread

    def release(self) -> None:
        self._released.set()


@pytest.fixture
def endless() -> Iterator[Endless]:
    body = Endless()
    yield body
    body.release()


@pytest.fixture
def runner() -> ThreadRunner:
    return ThreadRunner(SystemClock())


def run(
    runner: ThreadRunner,
    body: Callable[[], object],
    *,
    timeout_ms: int = LONG_MS,
    heartbeat_ms: int = LONG_MS,
    renew: Callable[[], bool] = lambda: True,
) -> BodyOutcome:
    return runner.run(body, timeout_ms=timeout_ms, heartbeat_ms=heartbeat_ms, renew=renew)


def test_a_body_runs_beside_its_caller_and_the_next_one_in_the_same_thread(
    runner: ThreadRunner,
) -> None:
    first, second = (run(runner, threading.get_ident) for _ in range(2))
    assert isinstance(first, Returned)
    assert first == second
    assert first.value != threading.get_ident()


def test_what_a_body_raises_is_its_outcome_and_its_thread_goes_on(runner: ThreadRunner) -> None:
    def fail() -> None:
        raise LookupError("no")

    def leave() -> None:
        raise SystemExit(0)

    failed, left = run(runner, fail), run(runner, leave)
    assert isinstance(failed, Raised)
    assert isinstance(failed.error, LookupError)
    assert isinstance(left, Raised)
    assert isinstance(left.error, BodyExitedError)
    assert run(runner, lambda: 1) == Returned(1)


def test_a_body_sees_its_callers_context_and_leaves_nothing_in_it(runner: ThreadRunner) -> None:
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="nobody")

    def rename() -> str:
        before = name.get()
        name.set("body")
        return before

    name.set("caller")
    assert run(runner, rename) == Returned("caller")
    assert run(runner, name.get) == Returned("caller")
    assert name.get() == "caller"


def test_a_body_is_left_behind_at_its_timeout_and_its_late_result_with_it(
    runner: ThreadRunner, endless: Endless
) -> None:
    assert run(runner, endless, timeout_ms=1) == TimedOut()
    left = endless.wait_until_it_runs()
    assert run(runner, threading.current_thread) != Returned(left)
    endless.release()
    left.join(LONG_MS / 1000)
    assert not left.is_alive()
    assert run(runner, lambda: "mine") == Returned("mine")


def test_a_lost_lease_ends_the_wait_at_the_heartbeat(
    runner: ThreadRunner, endless: Endless
) -> None:
    assert run(runner, endless, heartbeat_ms=1, renew=lambda: False) == LeaseLost()
    assert run(runner, lambda: "next") == Returned("next")


def test_the_lease_is_renewed_at_every_heartbeat(runner: ThreadRunner, endless: Endless) -> None:
    beats: list[int] = []

    def renew() -> bool:
        beats.append(len(beats))
        if len(beats) == 3:
            endless.release()
        return True

    assert run(runner, endless, heartbeat_ms=1, renew=renew) == Returned(None)
    assert beats[:3] == [0, 1, 2]


def test_a_renewal_without_an_answer_is_tried_again(
    runner: ThreadRunner, endless: Endless, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("piton.adapters.bodies._RENEWAL_RETRY_MS", 1)
    answers = iter([Retry("throttled"), True])

    def renew() -> bool:
        answer = next(answers, None)
        if isinstance(answer, Retry):
            raise answer
        endless.release()
        return True

    assert run(runner, endless, heartbeat_ms=1, renew=renew) == Returned(None)
    assert next(answers, None) is None


def test_a_renewal_that_fails_leaves_the_thread_to_its_body(
    runner: ThreadRunner, endless: Endless
) -> None:
    def renew() -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(runner, endless, heartbeat_ms=1, renew=renew)
    assert run(runner, threading.current_thread) != Returned(endless.wait_until_it_runs())


def test_bodies_side_by_side_have_a_thread_each(runner: ThreadRunner) -> None:
    together = threading.Barrier(3)
    outcomes: list[BodyOutcome] = []

    def meet() -> int:
        together.wait(LONG_MS / 1000)
        return threading.get_ident()

    callers = [
        threading.Thread(target=lambda: outcomes.append(run(runner, meet))) for _ in range(3)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len({outcome.value for outcome in outcomes if isinstance(outcome, Returned)}) == 3
