"""Stored rows as the engine reads them.

Attribute names carry the prefix of their owner (`exec_`, `node_`, ...) because IAM grants are
by top-level attribute name. Times are epoch milliseconds, except `expires_at`, which the table's
time-to-live reads in epoch seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from piton.domain.errors import Bug
from piton.domain.retry import RetryPolicy
from piton.domain.status import ExecutionStatus, NodeStatus

Value = None | bool | int | str | bytes | frozenset[int] | list["Value"] | dict[str, "Value"]
"""What an attribute holds. Floats never appear: user data is stored as canonical text."""

Attributes = Mapping[str, Value]

_Status = TypeVar("_Status", NodeStatus, ExecutionStatus)

META_SK: Final = "META"
INPUT_SK: Final = "INPUT"
NODE_SK_PREFIX: Final = "NODE#"
NODE_SK_END: Final = "NODE$"


@dataclass(frozen=True, slots=True)
class ExecutionRef:
    """Names an execution. The tenant is part of every key, so ids never cross tenants."""

    tenant: str
    execution_id: str

    @property
    def pk(self) -> str:
        """Partition key of all rows of this execution."""
        return f"EX#{self.tenant}#{self.execution_id}"

    @classmethod
    def from_pk(cls, pk: str) -> ExecutionRef:
        """Read a partition key back. Raises `Bug` when it is not one."""
        kind, _, rest = pk.partition("#")
        tenant, _, execution_id = rest.partition("#")
        if kind != "EX" or not tenant or not execution_id:
            raise Bug(f"not the key of an execution: {pk[:80]!r}")
        return cls(tenant, execution_id)


def node_sk(ordinal: int) -> str:
    """Sort key of the node with this ordinal."""
    return f"{NODE_SK_PREFIX}{ordinal:05d}"


def node_ordinal(sk: str) -> int:
    """Ordinal in a node's sort key. Raises `Bug` when it is not one."""
    digits = sk.removeprefix(NODE_SK_PREFIX)
    if digits == sk or not digits.isdigit():
        raise Bug(f"not the key of a node: {sk[:40]!r}")
    return int(digits)


class _Reader:
    """Typed access to raw attributes; a wrong type is a `Bug`."""

    def __init__(self, attributes: Attributes) -> None:
        self._attributes = attributes

    def text(self, name: str, default: str = "") -> str:
        value = self._attributes.get(name, default)
        if not isinstance(value, str):
            raise Bug(f"attribute {name} is not text")
        return value

    def status(self, name: str, statuses: type[_Status], default: str = "") -> _Status:
        try:
            return statuses(self.text(name, default))
        except ValueError as error:
            raise Bug(f"attribute {name} is no status") from error

    def optional_text(self, name: str) -> str | None:
        return self.text(name) if self._attributes.get(name) is not None else None

    def number(self, name: str, default: int = 0) -> int:
        value = self._attributes.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise Bug(f"attribute {name} is not a whole number")
        return value

    def optional_number(self, name: str) -> int | None:
        return self.number(name) if self._attributes.get(name) is not None else None

    def ordinals(self, name: str) -> frozenset[int]:
        value = self._attributes.get(name, frozenset[int]())
        if not isinstance(value, frozenset):
            raise Bug(f"attribute {name} is not a set of numbers")
        return value

    def entries(self, name: str) -> tuple[LogEntry, ...]:
        value = self._attributes.get(name, [])
        if not isinstance(value, list):
            raise Bug(f"attribute {name} is not a list")
        return tuple(LogEntry.from_value(item) for item in value)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One transition in a row's history: which, when, and the values it set."""

    transition: str
    at: int
    fence: int | None = None
    attempt: int | None = None
    reason: str | None = None
    owner: str | None = None
    code: str | None = None
    not_before: int | None = None
    actor: str | None = None

    # One-letter names: the log is stored with every row and is paid for on every write.
    _NAMES = (
        ("f", "fence"),
        ("a", "attempt"),
        ("r", "reason"),
        ("w", "owner"),
        ("c", "code"),
        ("nb", "not_before"),
        ("by", "actor"),
    )

    def to_value(self) -> dict[str, Value]:
        """Return the stored form, without the fields that are unset."""
        stored: dict[str, Value] = {"t": self.transition, "at": self.at}
        for short, name in self._NAMES:
            if (value := getattr(self, name)) is not None:
                stored[short] = value
        return stored

    @classmethod
    def from_value(cls, value: Value) -> LogEntry:
        """Read the stored form. Raises `Bug` when it is not one."""
        if not isinstance(value, dict):
            raise Bug("log entry is not a map")
        reader = _Reader(value)
        return cls(
            transition=reader.text("t"),
            at=reader.number("at"),
            fence=reader.optional_number("f"),
            attempt=reader.optional_number("a"),
            reason=reader.optional_text("r"),
            owner=reader.optional_text("w"),
            code=reader.optional_text("c"),
            not_before=reader.optional_number("nb"),
            actor=reader.optional_text("by"),
        )


@dataclass(frozen=True, slots=True)
class AttemptPolicy:
    """How the current attempt is bounded, written at its claim.

    The worker knows the task's own declaration and the watchdog does not, so the claim records
    it for whoever has to judge the attempt later. `timeout_ms` is in milliseconds.
    """

    timeout_ms: int
    retry: RetryPolicy

    def to_value(self) -> list[Value]:
        """Return the stored form."""
        retry = self.retry
        return [
            self.timeout_ms,
            retry.max_attempts,
            round(retry.base_s * 1000),
            round(retry.cap_s * 1000),
        ]

    @classmethod
    def from_value(cls, value: Value) -> AttemptPolicy | None:
        """Read the stored form; None when the row was never claimed."""
        match value:
            case None:
                return None
            case [int(timeout_ms), int(attempts), int(base_ms), int(cap_ms)]:
                try:
                    retry = RetryPolicy(attempts, base_ms / 1000, cap_ms / 1000)
                except ValueError as error:
                    raise Bug("attempt policy is out of range") from error
                return cls(timeout_ms, retry)
            case _:
                raise Bug("attempt policy has another shape")


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node's row. `status` is `PENDING` while edges resolve."""

    ordinal: int
    node_id: str = ""
    status: NodeStatus = NodeStatus.PENDING
    resolved: frozenset[int] = frozenset()
    declined: frozenset[int] = frozenset()
    pool: str = ""
    attempt: int = 0
    fence: int = 0
    sends: int = 0
    not_before: int = 0
    queued_at: int = 0
    sent_at: int = 0
    claimed_at: int = 0
    finished_at: int = 0
    lease_owner: str = ""
    lease_until: int = 0
    policy: AttemptPolicy | None = None
    result: str | None = None
    result_ref: str | None = None
    result_hash: str = ""
    reason: str | None = None
    scope: str = ""
    code_hash: str = ""
    progress: int | None = None
    progress_note: str = ""
    log: tuple[LogEntry, ...] = field(default=(), repr=False)

    @property
    def terminal(self) -> bool:
        """True when the node has ended."""
        return self.status.terminal

    @property
    def taken(self) -> frozenset[int]:
        """Predecessors whose edge into this node was taken."""
        return self.resolved - self.declined

    @classmethod
    def from_attributes(cls, attributes: Attributes) -> NodeRow:
        """Read a stored row, key attributes included. Raises `Bug` on a malformed one."""
        read = _Reader(attributes)
        return cls(
            ordinal=node_ordinal(read.text("sk")),
            node_id=read.text("node_id"),
            status=read.status("node_status", NodeStatus, NodeStatus.PENDING),
            resolved=read.ordinals("node_resolved"),
            declined=read.ordinals("node_declined"),
            pool=read.text("node_pool"),
            attempt=read.number("node_attempt"),
            fence=read.number("node_fence"),
            sends=read.number("node_sends"),
            not_before=read.number("node_not_before"),
            queued_at=read.number("node_queued_at"),
            sent_at=read.number("node_sent_at"),
            claimed_at=read.number("node_claimed_at"),
            finished_at=read.number("node_finished_at"),
            lease_owner=read.text("node_lease_owner"),
            lease_until=read.number("node_lease_until"),
            policy=AttemptPolicy.from_value(attributes.get("node_policy")),
            result=read.optional_text("node_result"),
            result_ref=read.optional_text("node_result_ref"),
            result_hash=read.text("node_result_hash"),
            reason=read.optional_text("node_reason"),
            scope=read.text("node_scope"),
            code_hash=read.text("node_code_hash"),
            progress=read.optional_number("node_progress"),
            progress_note=read.text("node_progress_note"),
            log=read.entries("node_log"),
        )


@dataclass(frozen=True, slots=True)
class ExecutionRow:
    """An execution's META row."""

    ref: ExecutionRef
    status: ExecutionStatus
    workflow_id: str
    workflow_version: int
    definition_hash: str
    root_id: str
    scope: str
    created_at: int
    ends_by: int
    expires_at: int
    deadline: int | None = None
    started_at: int | None = None
    finished_at: int | None = None
    reason: str | None = None
    node: str | None = None
    actor: str = ""
    note: str | None = None
    resumes: int = 0
    resumed_at: int | None = None
    resumed_by: str | None = None
    parked: str | None = None
    due_at: int | None = None
    log: tuple[LogEntry, ...] = field(default=(), repr=False)

    @property
    def terminal(self) -> bool:
        """True when the execution has ended."""
        return self.status.terminal

    @classmethod
    def from_attributes(cls, attributes: Attributes) -> ExecutionRow:
        """Read a stored META row, key attributes included. Raises `Bug` on a malformed one."""
        read = _Reader(attributes)
        return cls(
            ref=ExecutionRef.from_pk(read.text("pk")),
            status=read.status("exec_status", ExecutionStatus),
            workflow_id=read.text("exec_workflow_id"),
            workflow_version=read.number("exec_workflow_version"),
            definition_hash=read.text("exec_definition_hash"),
            root_id=read.text("exec_root_id"),
            scope=read.text("exec_scope"),
            created_at=read.number("exec_created_at"),
            ends_by=read.number("exec_ends_by"),
            expires_at=read.number("expires_at"),
            deadline=read.optional_number("exec_deadline"),
            started_at=read.optional_number("exec_started_at"),
            finished_at=read.optional_number("exec_finished_at"),
            reason=read.optional_text("exec_reason"),
            node=read.optional_text("exec_node"),
            actor=read.text("exec_actor"),
            note=read.optional_text("exec_note"),
            resumes=read.number("exec_resumes"),
            resumed_at=read.optional_number("exec_resumed_at"),
            resumed_by=read.optional_text("exec_resumed_by"),
            parked=read.optional_text("exec_parked"),
            due_at=read.optional_number("due_at"),
            log=read.entries("exec_log"),
        )
