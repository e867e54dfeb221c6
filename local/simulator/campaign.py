"""Many seeds, side by side in several processes."""

from __future__ import annotations

import logging
import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from local.simulator.faults import Kind
from local.simulator.generate import generate
from local.simulator.play import Played, play
from local.simulator.strands import Strands

CHUNK: Final = 25
"""Seeds that a process takes at once."""


@dataclass
class Summary:
    """What came of many seeds. `steps` are calls to the stores, the bus and the queues."""

    seeds: int = 0
    steps: int = 0
    violations: dict[int, str] = field(default_factory=dict)
    struck: Counter[Kind] = field(default_factory=Counter)
    outcomes: Counter[tuple[str, bool]] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)

    def add(self, played: Played) -> None:
        """Take in one run."""
        self.seeds += 1
        self.steps += played.calls
        self.struck += played.struck
        self.outcomes += played.outcomes
        self.ends += played.ends
        if played.violation is not None:
            self.violations[played.seed] = played.violation

    def merge(self, other: Summary) -> None:
        """Take in another summary."""
        self.seeds += other.seeds
        self.steps += other.steps
        self.violations |= other.violations
        self.struck += other.struck
        self.outcomes += other.outcomes
        self.ends += other.ends


def run_seeds(seeds: Iterable[int]) -> Summary:
    """Play seeds one after another in this process."""
    summary, strands = Summary(), Strands()
    try:
        for seed in seeds:
            summary.add(play(generate(seed), strands))
    finally:
        strands.close()
    return summary


def run_campaign(
    seeds: range, jobs: int, advanced: Callable[[Summary], None] = lambda _: None
) -> Summary:
    """Play all seeds in `jobs` processes. `advanced` is told of the sum after every chunk."""
    total = Summary()
    for part in _parts(seeds, jobs):
        total.merge(part)
        advanced(total)
    return total


def _parts(seeds: range, jobs: int) -> Iterator[Summary]:
    chunks = iter([seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)])
    # Not forked: this process has threads.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=be_quiet) as pool:
        running: set[Future[Summary]] = set()
        while True:
            running |= {pool.submit(run_seeds, c) for c in islice(chunks, 2 * jobs - len(running))}
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()


def be_quiet() -> None:
    """Switch logging off: a simulation logs every fault that it makes."""
    logging.disable(logging.CRITICAL)
