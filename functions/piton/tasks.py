"""The API for authors of tasks.

    from piton.tasks import Context, Permanent, Transient, task

    @task("invoices.extract", timeout_s=20)
    def extract(ctx: Context, inputs: Inputs) -> Json: ...

A body may be a plain or an async function. It may run more than once: after a crash, a timeout
or a lost lease the engine starts the next attempt, and a paused worker may still be inside the
old one. Only the holder of the current fence can record a result, so every node has one recorded
outcome; effects on the outside world need a key of their own (`ctx.execution_id`, `ctx.node_id`).
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

from piton.domain.canonical import Json
from piton.domain.errors import is_code
from piton.domain.retry import RetryPolicy

__all__ = ["Context", "Inputs", "Json", "Permanent", "RetryPolicy", "Transient", "task"]

Inputs = Mapping[str, Any]
"""`{"execution": <input>, "nodes": {<id>: <result>}, "params": {...}}`; taken edges only."""


class TaskError(Exception):
    """A failure that a task declares.

    `code` (`UPPER_SNAKE`, at most 64 long) is stored and sent; `detail` goes to the log only.
    Raises `ValueError` when `code` has another form.
    """

    def __init__(self, code: str, detail: str = "") -> None:
        if not is_code(code):
            raise ValueError("a failure code is UPPER_SNAKE and at most 64 characters long")
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code
        self.detail = detail


class Transient(TaskError):
    """May succeed when tried again: the engine retries within the node's policy."""


class Permanent(TaskError):
    """Will fail again: the node fails at once, whatever attempts are left."""


class Context(Protocol):
    """What a running body sees of its attempt. Times are epoch milliseconds."""

    @property
    def tenant(self) -> str:
        """Tenant of the execution."""
        ...

    @property
    def execution_id(self) -> str:
        """Id of the execution."""
        ...

    @property
    def node_id(self) -> str:
        """Id of the node."""
        ...

    @property
    def attempt(self) -> int:
        """Number of this attempt, from 1."""
        ...

    @property
    def fence(self) -> int:
        """Fence of this attempt; grows with every attempt."""
        ...

    @property
    def deadline(self) -> int:
        """When this attempt times out."""
        ...

    @property
    def logger(self) -> logging.Logger | logging.LoggerAdapter[logging.Logger]:
        """A logger that carries the ids of this attempt."""
        ...

    def remaining_s(self) -> float:
        """Seconds until the deadline, never below zero."""
        ...

    def progress(self, fraction: float, note: str = "") -> None:
        """Record how far the body is, from 0 to 1, with a short note. Also renews the lease.

        Raises `Permanent` with `LEASE_LOST` once a newer attempt owns the node.
        """
        ...


SyncBody = Callable[[Context, Inputs], Any]
AsyncBody = Callable[[Context, Inputs], Awaitable[Any]]
Body = SyncBody | AsyncBody
_B = TypeVar("_B", bound=Body)


class Task:
    """A registered body with what its author declared. `timeout_s` is in seconds."""

    def __init__(
        self, name: str, body: Body, retry: RetryPolicy | None, timeout_s: float | None
    ) -> None:
        self.name = name
        self.body = body
        self.retry = retry
        self.timeout_s = timeout_s

    @property
    def is_async(self) -> bool:
        """True when the body is a coroutine function."""
        return inspect.iscoroutinefunction(self.body)


class Registry:
    """Tasks by name."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}

    def add(self, entry: Task) -> None:
        """Register a task. Raises `ValueError` when another body has the name."""
        known = self._tasks.get(entry.name)
        if known is not None and known.body is not entry.body:
            raise ValueError(f"two tasks are named {entry.name!r}")
        self._tasks[entry.name] = entry

    def find(self, name: str) -> Task | None:
        """Return the task, or None when this bundle does not have it."""
        return self._tasks.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(sorted(self._tasks))


REGISTRY = Registry()
"""Filled by `@task` when the modules of a pool are imported."""


def task(
    name: str, *, retry: RetryPolicy | None = None, timeout_s: float | None = None
) -> Callable[[_B], _B]:
    """Register the decorated function under `name` and leave it as it is.

    `retry` and `timeout_s` (seconds) hold unless the workflow's node says otherwise.
    """
    if timeout_s is not None and timeout_s <= 0:
        raise ValueError("timeout_s must be above zero")

    def register(body: _B) -> _B:
        REGISTRY.add(Task(name, body, retry, timeout_s))
        return body

    return register
