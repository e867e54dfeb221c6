"""Parts of a long measurement, on all processors at once: whoever is free takes the next piece."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, Final, Generic, TypeVar

from bench.progress import Board
from bench.workers import Done, Tell, Workers

A = TypeVar("A")
T = TypeVar("T")

_REFRESH_S: Final = 0.25


class Part(Generic[A, T]):
    """Pieces of work of one kind: `work(argument, tell)` for each argument, in any process.

    `total` is the sum of what the pieces tell when they are done, as far as it is known before.
    `seen` is called in this process with every result as it comes.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[A, Tell], T],
        arguments: Sequence[A],
        total: int,
        seen: Callable[[A, T], None] = lambda _argument, _result: None,
    ) -> None:
        self.name = name
        self.work = work
        self.arguments = arguments
        self.total = total
        self.cpu_seconds = 0.0
        self.wall_seconds = 0.0
        self._seen = seen
        self._results: dict[int, T] = {}

    @property
    def results(self) -> list[T]:
        """The results so far, in the order of the arguments."""
        return [result for _, result in sorted(self._results.items())]

    @property
    def is_done(self) -> bool:
        """True when every piece is done."""
        return len(self._results) == len(self.arguments)

    def take(self, number: int, done: Done[T], wall_seconds: float) -> None:
        """Take in the result of one piece."""
        self._results[number] = done.result
        self.cpu_seconds += done.cpu_seconds
        self.wall_seconds = wall_seconds
        self._seen(self.arguments[number], done.result)


def run_parts(parts: Sequence[Part[Any, Any]], jobs: int, board: Board) -> None:
    """Run all pieces of all parts in `jobs` processes, in the order in which they are given.

    `wall_seconds` of a part counts from the beginning of the first part to its own end.
    """
    began = time.monotonic()
    firsts = [sum(len(part.arguments) for part in parts[:place]) for place in range(len(parts))]
    bars = [board.add(part.name, part.total) for part in parts]
    with Workers(jobs, sum(len(part.arguments) for part in parts)) as workers:
        running: dict[Future[Done[Any]], tuple[Part[Any, Any], int]] = {}
        for part, first in zip(parts, firsts, strict=True):
            for number, argument in enumerate(part.arguments):
                future = workers.submit(part.work, argument, first + number)
                running[future] = part, number
        while running:
            done, _ = wait(running, _REFRESH_S, FIRST_COMPLETED)
            for future in done:
                part, number = running.pop(future)
                part.take(number, future.result(), time.monotonic() - began)
            for part, first, bar in zip(parts, firsts, bars, strict=True):
                bar.done = sum(workers.gauges[first : first + len(part.arguments)])
                bar.total = bar.done if part.is_done else max(part.total, bar.done)
            board.refresh()
