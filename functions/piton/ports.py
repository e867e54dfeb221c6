"""What the services need from the outside, as protocols.

Every port has one adapter per host. Anything that can fail for a passing reason raises
`errors.Retry`; a refused guard is a normal answer, `Refused`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from piton.domain.canonical import Json
from piton.domain.graph import Graph
from piton.domain.messages import Dispatch, Event
from piton.domain.rows import Attributes, ExecutionRef, ExecutionRow, NodeRow
from piton.storage.algebra import Args, Operation
from piton.storage.keys import Key
from piton.storage.views import ExecutionView, NodeView
from piton.tasks import Task

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Applied:
    """The write is stored. `returned` holds the updated attributes of operations that ask."""

    returned: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refused:
    """The guard did not hold and nothing changed.

    After an answer was lost, a repeated write is refused by its own first success; callers that
    must know read the row.
    """


Outcome = Applied | Refused


@dataclass(frozen=True, slots=True)
class Write:
    """One operation with its key and arguments, as part of a transaction."""

    operation: Operation
    key: Key
    args: Args


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Part of a list. `next_token` is opaque; None on the last page."""

    items: Sequence[T]
    next_token: str | None = None


@dataclass(frozen=True, slots=True)
class DueExecution:
    """A candidate of the watchdog's list. Decisions read its META row again."""

    ref: ExecutionRef
    due_at: int


class Store(Protocol):
    """Rows of executions. All reads are consistent unless a method says otherwise."""

    def apply(self, operation: Operation, key: Key, args: Args) -> Outcome:
        """Carry out one guarded write."""
        ...

    def transact(self, writes: Sequence[Write]) -> Outcome:
        """Carry out writes on distinct items together, or none of them."""
        ...

    def get_execution(
        self, ref: ExecutionRef, view: ExecutionView = ExecutionView.CONTROL
    ) -> ExecutionRow | None:
        """Read META."""
        ...

    def get_nodes(
        self, ref: ExecutionRef, ordinals: Iterable[int], view: NodeView = NodeView.RESULT
    ) -> dict[int, NodeRow]:
        """Read some node rows by ordinal; missing rows are left out."""
        ...

    def query_nodes(
        self,
        ref: ExecutionRef,
        view: NodeView = NodeView.CONTROL,
        *,
        after: int = -1,
        limit: int | None = None,
    ) -> list[NodeRow]:
        """Read rows in the order of ordinals, from beyond `after`; every page if no `limit`."""
        ...

    def get_raw(self, key: Key, attributes: Sequence[str]) -> Attributes | None:
        """Read some attributes of one item."""
        ...

    def list_executions(
        self,
        tenant: str,
        *,
        status: str | None,
        workflow_id: str | None,
        limit: int,
        token: str | None,
    ) -> Page[str]:
        """List ids of a tenant's executions, newest first. Eventually consistent.

        Raises `Rejected` when `token` did not come from an earlier page of this list.
        """
        ...

    def due(self, now: int, limit: int) -> Iterable[DueExecution]:
        """Executions whose `due_at` is at most `now`. Eventually consistent."""
        ...


@dataclass(frozen=True, slots=True)
class Workflow:
    """One registered version. `definition` is the author's document in canonical JSON."""

    tenant: str
    workflow_id: str
    version: int
    hash: str
    created_at: int
    actor: str
    definition: str
    graph: Graph


class WorkflowStore(Protocol):
    """Registered workflow versions: immutable, so adapters cache them for ever."""

    def load(self, tenant: str, workflow_id: str, version: int) -> Workflow | None:
        """Return one version. Raises `Bug` when what is stored does not match its hash."""
        ...

    def latest_version(self, tenant: str, workflow_id: str) -> int | None:
        """Return the highest version, or None when the tenant has no such workflow."""
        ...

    def register(
        self, tenant: str, definition: str, graph: Graph, now: int, actor: str
    ) -> Workflow:
        """Store a new version, or return the latest one when it is the same definition."""
        ...

    def list_ids(self, tenant: str, *, limit: int, token: str | None) -> Page[str]:
        """List a tenant's workflow ids in order."""
        ...


class BlobStore(Protocol):
    """Payloads too large for a row. Keys are content-addressed, so a put may be repeated."""

    def put(self, key: str, body: bytes) -> None:
        """Store `body`."""
        ...

    def get(self, key: str) -> bytes | None:
        """Return what is stored, or None."""
        ...


class Publisher(Protocol):
    """Where the relay sends. Raises `Retry` unless every message was accepted."""

    def publish(self, events: Sequence[Event]) -> None:
        """Put events on the bus."""
        ...

    def dispatch(self, dispatches: Sequence[Dispatch]) -> None:
        """Put dispatches on the queues of their pools."""
        ...


class Clock(Protocol):
    """Time."""

    def now_ms(self) -> int:
        """Wall-clock time in epoch milliseconds."""
        ...

    def monotonic_ms(self) -> int:
        """A clock that never steps back, in milliseconds from an arbitrary start."""
        ...


class Random(Protocol):
    """Randomness and new names."""

    def uniform(self) -> float:
        """Return a number in [0, 1)."""
        ...

    def ulid(self, now_ms: int) -> str:
        """Return a new name that sorts by time."""
        ...

    def nonce(self) -> str:
        """Return a short text that no other claim has."""
        ...


class Counter(StrEnum):
    """Figures that the engine counts. Each becomes a metric of the same name."""

    STALE_WRITE_REFUSED = "StaleWriteRefused"
    STALE_MESSAGE = "StaleMessage"
    CLAIM_REFUSED = "ClaimRefused"
    NODE_COMPLETED = "NodeCompleted"
    NODE_RETRIED = "NodeRetried"
    NODE_DEAD_LETTERED = "NodeDeadLettered"
    NODE_CANCELLED = "NodeCancelled"
    EXECUTION_STARTED = "ExecutionStarted"
    EXECUTION_COMPLETED = "ExecutionCompleted"
    EXECUTION_FAILED = "ExecutionFailed"
    EXECUTION_CANCELLED = "ExecutionCancelled"
    SWEPT = "ExecutionsSwept"
    FRONTIER_RECOVERED = "LostFrontierRecovered"
    DISPATCH_RESENT = "LostDispatchResent"
    STALL_RECOVERED = "StalledNodeRecovered"
    FINALISE_RECOVERED = "LostFinaliseRecovered"
    DEADLINE_PASSED = "DeadlinePassed"
    TIMED_OUT = "ExecutionTimedOut"
    PARKED = "ExecutionParked"
    RETIRED = "ExecutionRetired"
    SWEEP_ERROR = "SweepError"
    POOL_MISSING = "PoolMissing"
    RECORD_SKIPPED = "StreamRecordSkipped"


class Timer(StrEnum):
    """Durations that the engine measures, in milliseconds."""

    QUEUE_WAIT = "QueueWait"
    TASK_TIME = "TaskTime"
    JOB_AGE = "JobAge"
    SWEEP_TIME = "SweepTime"
    SWEEP_LAG = "SweepLag"


class Metrics(Protocol):
    """Where figures go."""

    def count(self, counter: Counter, amount: int = 1) -> None:
        """Add to a counter."""
        ...

    def time(self, timer: Timer, milliseconds: int) -> None:
        """Record a duration."""
        ...


class TaskRegistry(Protocol):
    """Tasks by name."""

    def find(self, name: str) -> Task | None:
        """Return the task, or None when this bundle does not have it."""
        ...


@dataclass(frozen=True, slots=True)
class Returned:
    """The body returned `value`, which may be anything."""

    value: object


@dataclass(frozen=True, slots=True)
class Raised:
    """The body raised `error`."""

    error: Exception


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The body ran into its timeout and was left behind."""


@dataclass(frozen=True, slots=True)
class LeaseLost:
    """A newer attempt owns the node; whatever the body does is of no account any more."""


BodyOutcome = Returned | Raised | TimedOut | LeaseLost


class BodyRunner(Protocol):
    """Runs a task's body under its timeout while its lease is renewed."""

    def run(
        self,
        body: Callable[[], object],
        *,
        timeout_ms: int,
        heartbeat_ms: int,
        renew: Callable[[], bool],
    ) -> BodyOutcome:
        """Run `body` and call `renew` every `heartbeat_ms` until it is done.

        `renew` returns False once the lease is lost; it may raise `Retry`, which is tried again
        at the next beat.
        """
        ...


class LambdaInvoker(Protocol):
    """Calls another Lambda function and waits for its answer."""

    def invoke(self, arn: str, payload: Json, timeout_s: float) -> Json:
        """Return the answer. Raises `tasks.Transient` or `tasks.Permanent`."""
        ...
