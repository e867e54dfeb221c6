"""Processes that share work. They report how far they are, and leave interrupts to their parent."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait
from types import FrameType, TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from local.simulator.campaign import be_quiet

A = TypeVar("A")
T = TypeVar("T")

Tell = Callable[[int], None]
"""Work calls it with how much of it is done."""

Handler = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None

Gauges = ctypes.Array[ctypes.c_longlong]

INTERRUPTS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_gauges: Gauges = (ctypes.c_longlong * 1)()
"""In a child: how much of each piece of work is done, in memory shared with the parent."""


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """What came of a piece of work, and the processor time that it took."""

    result: T
    cpu_seconds: float


class Workers:
    """Processes for work of the form `work(argument, tell)`; each piece has its own gauge.

    On the way out with an error they are killed at once.
    """

    def __init__(self, jobs: int, gauges: int = 1) -> None:
        # Not forked: this process has threads.
        context = multiprocessing.get_context("spawn")
        self.gauges: Gauges = context.RawArray(ctypes.c_longlong, gauges)
        self._pool = ProcessPoolExecutor(
            jobs, mp_context=context, initializer=_begin, initargs=(self.gauges,)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            for child in multiprocessing.active_children():
                child.kill()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def submit(self, work: Callable[[A, Tell], T], argument: A, gauge: int = 0) -> Future[Done[T]]:
        """Have a piece of work done. Raises `BrokenProcessPool` when a child was killed."""
        # Children are born here, and with this mask: an interrupt from the terminal goes to the
        # whole group, and they would die in the middle of their work, each with a trace.
        with _interrupts_held():
            return self._pool.submit(_run, work, argument, gauge)


def on_interrupts(take: Callable[[int, FrameType | None], object]) -> dict[int, Handler]:
    """Have interrupts taken, except those that are ignored (`nohup`). Returns the old handlers."""
    before: dict[int, Handler] = {number: signal.getsignal(number) for number in INTERRUPTS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, take)
    return before


class Stop:
    """Takes interrupts: the first one is a wish to stop, the second one raises at once."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._before: dict[int, Handler] = {}

    def __bool__(self) -> bool:
        return self.signal is not None

    def __enter__(self) -> Self:
        self._before = on_interrupts(self._take)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _take(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number


@contextmanager
def _interrupts_held() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(gauges: Gauges) -> None:
    global _gauges  # noqa: PLW0603 - the one way in which an initializer leaves something behind
    _gauges = gauges
    be_quiet()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A parent that was killed tells nobody, and its children would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _run(work: Callable[[A, Tell], T], argument: A, gauge: int) -> Done[T]:
    def tell(done: int) -> None:
        _gauges[gauge] = done

    began = time.process_time()
    result = work(argument, tell)
    return Done(result, time.process_time() - began)
