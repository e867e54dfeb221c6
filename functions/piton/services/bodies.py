"""Running the body of one attempt: what bounds it, what it is given, how its end is classified."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol, cast

from piton.domain.canonical import Json
from piton.domain.errors import Retry
from piton.domain.graph import Graph, Node, NodeKind
from piton.domain.messages import Dispatch
from piton.domain.retry import RetryPolicy
from piton.domain.rows import AttemptPolicy, NodeRow
from piton.domain.settings import Settings
from piton.domain.status import NodeStatus, Reason
from piton.ports import (
    BodyRunner,
    Clock,
    LambdaInvoker,
    LeaseLost,
    Raised,
    Returned,
    TaskRegistry,
    TimedOut,
)
from piton.services.context import LEASE_LOST, RunningContext
from piton.services.inputs import InputReader
from piton.services.payloads import PayloadMissing
from piton.tasks import AsyncBody, Inputs, Permanent, SyncBody, TaskError

_log = logging.getLogger("piton.work")
_task_log = logging.getLogger("piton.task")


class _BodyTimedOutError(Exception):
    """An async body was cancelled at its timeout."""


class _LeaseLostError(Exception):
    """A newer attempt owns the node."""


class Renew(Protocol):
    """Renews the lease, with a progress report if `percent` is given. False: it is lost."""

    def __call__(self, percent: int | None = None, note: str = "") -> bool: ...


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed attempt: its code, and whether another attempt is pointless."""

    code: str
    permanent: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """One claimed attempt."""

    dispatch: Dispatch
    graph: Graph
    node: Node
    policy: AttemptPolicy
    renew: Renew

    @property
    def names(self) -> dict[str, str | int]:
        """Ids for log entries."""
        return {
            "correlation_id": self.dispatch.ref.execution_id,
            "tenant": self.dispatch.ref.tenant,
            "execution_id": self.dispatch.ref.execution_id,
            "node_id": self.node.id,
            "attempt": self.dispatch.attempt,
            "fence": self.dispatch.fence,
        }

    def as_row(self) -> NodeRow:
        """The node's row as this attempt holds it."""
        return NodeRow(
            self.dispatch.ordinal,
            self.node.id,
            NodeStatus.RUNNING,
            attempt=self.dispatch.attempt,
            fence=self.dispatch.fence,
            policy=self.policy,
        )


@dataclass(frozen=True, slots=True)
class PoolProfile:
    """What this worker's pool allows. `started` is told of every body that is about to run."""

    max_timeout_ms: int
    allowed_lambdas: frozenset[str]
    started: Callable[[Dispatch], None]


class Bodies:
    """Runs tasks and Lambda nodes."""

    def __init__(
        self,
        tasks: TaskRegistry,
        inputs: InputReader,
        runner: BodyRunner,
        invoker: LambdaInvoker,
        clock: Clock,
        settings: Settings,
        pool: PoolProfile,
    ) -> None:
        self._tasks = tasks
        self._inputs = inputs
        self._runner = runner
        self._invoker = invoker
        self._clock = clock
        self._settings = settings
        self._pool = pool

    @property
    def max_timeout_ms(self) -> int:
        """The longest timeout that fits this pool."""
        return self._pool.max_timeout_ms

    def policy(self, node: Node) -> AttemptPolicy:
        """Return what bounds an attempt: the node's word first, then the task's, then ours."""
        task = self._tasks.find(node.action) if node.kind is NodeKind.TASK else None
        timeout_s = node.timeout_s or (task.timeout_s if task else None)
        default_ms = min(self._settings.node_timeout_ms, self._pool.max_timeout_ms)
        return AttemptPolicy(
            timeout_ms=int(timeout_s * 1000) if timeout_s else default_ms,
            retry=node.retry or (task.retry if task else None) or RetryPolicy(),
        )

    def run(self, attempt: Attempt, began: int) -> Returned | Failure | LeaseLost:
        """Run the body of a claimed attempt.

        `began` is the monotonic time before the claim. While inputs are read, and before the body
        starts, the lease is renewed under its fence when that is due; a lost one runs nothing.
        """
        body = self._body_of(attempt)
        if isinstance(body, Failure):
            return body
        try:
            keep_lease = self._lease_keeper(attempt, began)
            ref, graph, node = attempt.dispatch.ref, attempt.graph, attempt.node
            inputs = self._inputs.read(ref, graph, node, on_read=keep_lease)
            keep_lease()
        except _LeaseLostError:
            return LeaseLost()
        except PayloadMissing:
            return Failure(Reason.PAYLOAD_MISSING, permanent=True)
        except Retry:
            _log.exception("inputs could not be read", extra=attempt.names)
            return Failure(Reason.PAYLOADS_UNAVAILABLE)
        self._pool.started(attempt.dispatch)
        _log.info("body starts", extra=attempt.names)
        outcome = self._runner.run(
            partial(body, inputs),
            timeout_ms=attempt.policy.timeout_ms,
            heartbeat_ms=self._settings.heartbeat_ms,
            renew=attempt.renew,
        )
        match outcome:
            case Raised(error) if not isinstance(error, _BodyTimedOutError):
                return _classify(error, attempt)
            case TimedOut() | Raised():
                _log.warning("body timed out", extra=attempt.names)
                return Failure(Reason.NODE_TIMEOUT)
            case _:
                return outcome

    def _lease_keeper(self, attempt: Attempt, began: int) -> Callable[[], None]:
        renewed = began

        def keep() -> None:
            nonlocal renewed
            # Again when the renewal itself took so long that the next one is due.
            while (now := self._clock.monotonic_ms()) - renewed >= self._settings.heartbeat_ms:
                try:
                    if not attempt.renew():
                        raise _LeaseLostError
                    renewed = now
                except Retry:
                    if self._clock.monotonic_ms() - renewed >= self._settings.lease_ms:
                        raise
                    _log.warning("lease not renewed", exc_info=True, extra=attempt.names)
                    return

        return keep

    def _body_of(self, attempt: Attempt) -> Callable[[Inputs], object] | Failure:
        node, policy = attempt.node, attempt.policy
        if policy.timeout_ms > self._pool.max_timeout_ms:
            return Failure(Reason.TIMEOUT_EXCEEDS_POOL, permanent=True)
        if node.kind is NodeKind.LAMBDA:
            if node.action not in self._pool.allowed_lambdas:
                return Failure(Reason.LAMBDA_NOT_ALLOWED, permanent=True)
            return partial(self._invoke, attempt)
        task = self._tasks.find(node.action)
        if task is None:
            return Failure(Reason.TASK_NOT_FOUND, permanent=True)
        context = RunningContext(
            attempt.dispatch,
            self._clock.now_ms() + policy.timeout_ms,
            logging.LoggerAdapter(_task_log, attempt.names),
            self._clock,
            attempt.renew,
        )
        if task.is_async:
            return partial(_run_async, cast(AsyncBody, task.body), context, policy.timeout_ms)
        return partial(cast(SyncBody, task.body), context)

    def _invoke(self, attempt: Attempt, inputs: Inputs) -> Json:
        payload: dict[str, Json] = {"context": dict(attempt.names), "inputs": dict(inputs)}
        return self._invoker.invoke(attempt.node.action, payload, attempt.policy.timeout_ms / 1000)


def _run_async(body: AsyncBody, context: RunningContext, timeout_ms: int, inputs: Inputs) -> object:
    async def bounded() -> object:
        limit = asyncio.timeout(timeout_ms / 1000)
        try:
            async with limit:
                return await body(context, inputs)
        except TimeoutError:
            if limit.expired():
                raise _BodyTimedOutError from None
            raise

    return asyncio.run(bounded())


def _classify(error: Exception, attempt: Attempt) -> Failure | LeaseLost:
    # The text of an error may quote a document: it goes to the log and nowhere else.
    _log.warning("body failed", exc_info=error, extra=attempt.names)
    if isinstance(error, TaskError):
        if error.code == LEASE_LOST:
            return LeaseLost()
        return Failure(error.code, permanent=isinstance(error, Permanent))
    return Failure(Reason.TASK_ERROR)
