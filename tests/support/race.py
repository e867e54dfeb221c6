"""Separate processes that try the same writes at the same moment.

Started with `spawn`, so that they share nothing with the test but the server, as Lambdas do.
"""

import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.synchronize import Barrier
from typing import Final

from piton.domain.rows import ExecutionRef, Value
from piton.ports import Applied, Write
from piton.storage.algebra import Operation, Table
from piton.storage.dynamodb import DynamoStore
from piton.storage.keys import Key
from tests.support.emulator import Clients

CALLERS: Final = 8
_MEETING_TIMEOUT_S: Final = 300.0

_barrier: Barrier
_clients: Clients


@dataclass(frozen=True)
class Attempt:
    """Writes that every caller tries, together if there are several.

    `{caller}` in a key or in a text argument becomes the caller's number.
    """

    writes: tuple[Write, ...]

    @classmethod
    def of(cls, operation: Operation, key: Key, args: Mapping[str, Value]) -> "Attempt":
        return cls((Write(operation, key, args),))

    def applies(self, store: DynamoStore, caller: int) -> bool:
        writes = [self._for(caller, write) for write in self.writes]
        if any(write.operation.transactional for write in writes):
            return isinstance(store.transact(writes), Applied)
        [write] = writes
        return isinstance(store.apply(write.operation, write.key, write.args), Applied)

    def _for(self, caller: int, write: Write) -> Write:
        def named(value: Value) -> Value:
            return value.replace("{caller}", str(caller)) if isinstance(value, str) else value

        key = replace(write.key, pk=write.key.pk.replace("{caller}", str(caller)))
        return Write(write.operation, key, {name: named(arg) for name, arg in write.args.items()})


def _enter(barrier: Barrier, endpoint_url: str) -> None:
    global _barrier, _clients  # noqa: PLW0603
    _barrier = barrier
    _clients = Clients(endpoint_url)


def _try_all(caller: int, tables: Mapping[Table, str], attempts: Sequence[Attempt]) -> list[bool]:
    store = DynamoStore(_clients.dynamodb, tables)
    won = []
    for attempt in attempts:
        _barrier.wait(_MEETING_TIMEOUT_S)
        won.append(attempt.applies(store, caller))
    return won


def _look_then_write(
    caller: int,
    tables: Mapping[Table, str],
    ref: ExecutionRef,
    in_degree: int,
    attempts: Sequence[Attempt],
) -> list[bool]:
    """Dispatch as one does who trusts a read: look whether the node is ready, then write."""
    store = DynamoStore(_clients.dynamodb, tables)
    won = []
    for ordinal, attempt in enumerate(attempts):
        _barrier.wait(_MEETING_TIMEOUT_S)
        row = store.get_nodes(ref, [ordinal])[ordinal]
        ready = row.fence == 0 and len(row.resolved) == in_degree
        _barrier.wait(_MEETING_TIMEOUT_S)
        won.append(ready and attempt.applies(store, caller))
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
