"""Separate processes that try the same writes at the same moment.

Started with `spawn`, so that they share nothing with the test but the server, as Lambdas do.
"""

import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from typing import Final

from piton.domain.rows import ExecutionRef, Value
from piton.ports import Applied, Write
from piton.storage.algebra import Operation, Table
from piton.storage.dynamodb import DynamoStore
from piton.storage.keys import Key
from tests.support.emulator import Clients

CALLERS: Final = 8
_MEETING_TIMEOUT_S: Final = 60.0

_barrier: Barrier
_clients: Clients


@dataclass(frozen=True)
class Attempt:
    """One write that every caller tries. `{caller}` in a text argument becomes its number."""

    operation: Operation
    key: Key
    args: Mapping[str, Value]


def _enter(barrier: Barrier, endpoint_url: str) -> None:
    global _barrier, _clients  # noqa: PLW0603
    _barrier = barrier
    _clients = Clients(endpoint_url)


def _try_all(caller: int, tables: Mapping[Table, str], attempts: Sequence[Attempt]) -> list[bool]:
    store = DynamoStore(_clients.dynamodb, tables)
    won = []
    for attempt in attempts:
        args = {
            name: value.replace("{caller}", str(caller)) if isinstance(value, str) else value
            for name, value in attempt.args.items()
        }
        _barrier.wait(_MEETING_TIMEOUT_S)
        if attempt.operation.transactional:
            outcome = store.transact([Write(attempt.operation, attempt.key, args)])
        else:
            outcome = store.apply(attempt.operation, attempt.key, args)
        won.append(isinstance(outcome, Applied))
    return won


def _look_then_write(
    caller: int,
    tables: Mapping[Table, str],
    ref: ExecutionRef,
    in_degree: int,
    attempts: Sequence[Attempt],
) -> list[bool]:
    """Dispatch as one does who trusts a read: look whether the node is ready, then write."""
    del caller
    store = DynamoStore(_clients.dynamodb, tables)
    won = []
    for ordinal, attempt in enumerate(attempts):
        _barrier.wait(_MEETING_TIMEOUT_S)
        row = store.get_nodes(ref, [ordinal])[ordinal]
        ready = row.fence == 0 and len(row.resolved) == in_degree
        _barrier.wait(_MEETING_TIMEOUT_S)
        won.append(
            ready and isinstance(store.apply(attempt.operation, attempt.key, attempt.args), Applied)
        )
    return won


class Race:
    """Eight processes, each with a connection of its own to one emulator."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool

    def run(self, tables: Mapping[Table, str], attempts: Sequence[Attempt]) -> list[list[int]]:
        """Let every caller try every attempt; return the callers that won each."""
        futures = [
            self._pool.submit(_try_all, caller, tables, attempts) for caller in range(CALLERS)
        ]
        return _winners([future.result() for future in futures])

    def run_on_trust(
        self,
        tables: Mapping[Table, str],
        ref: ExecutionRef,
        in_degree: int,
        attempts: Sequence[Attempt],
    ) -> list[list[int]]:
        """As `run`, for attempts on the nodes 0, 1, ... of `ref` that a read decides about."""
        futures = [
            self._pool.submit(_look_then_write, caller, tables, ref, in_degree, attempts)
            for caller in range(CALLERS)
        ]
        return _winners([future.result() for future in futures])


def _winners(won: Sequence[Sequence[bool]]) -> list[list[int]]:
    return [[caller for caller, hit in enumerate(hits) if hit] for hits in zip(*won, strict=True)]


@contextmanager
def start_line(endpoint_url: str) -> Iterator[Race]:
    """Start the callers and end them afterwards."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(CALLERS)
    with ProcessPoolExecutor(
        CALLERS, mp_context=context, initializer=_enter, initargs=(barrier, endpoint_url)
    ) as pool:
        yield Race(pool)
