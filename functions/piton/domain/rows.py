"""Stored rows as the engine reads them.

Attribute names carry the prefix of their owner (`exec_`, `node_`, ...) because IAM grants are
by top-level attribute name. Times are epoch milliseconds, except `expires_at`, which the table's
time-to-live reads in epoch seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import lru_cache
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


_Read = Callable[[str, Value], object]
_Fields = Mapping[str, tuple[str, _Read]]
"""Which field an attribute fills, and how its value is read."""


def _text(name: str, value: Value) -> str:
    if not isinstance(value, str):
        raise Bug(f"attribute {name} is not text")
    return value


def _number(name: str, value: Value) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise Bug(f"attribute {name} is not a whole number")
    return value


def _optional_text(name: str, value: Value) -> str | None:
    return None if value is None else _text(name, value)


def _optional_number(name: str, value: Value) -> int | None:
    return None if value is None else _number(name, value)


def _ordinals(name: str, value: Value) -> frozenset[int]:
    if not isinstance(value, frozenset):
        raise Bug(f"attribute {name} is not a set of numbers")
    return value


def _entries(name: str, value: Value) -> tuple[LogEntry, ...]:
    if not isinstance(value, list):
        raise Bug(f"attribute {name} is not a list")
    return tuple(map(LogEntry.from_value, value))


def _status(statuses: type[_Status]) -> _Read:
    known = {status.value: status for status in statuses}

    def read(name: str, value: Value) -> _Status:
        if isinstance(value, str) and value in known:
            return known[value]
        raise Bug(f"attribute {name} is no status")

    return read


def _read(known: _Fields, attributes: Attributes) -> dict[str, object]:
    """Return the fields that are there: rows are read often and most are sparse."""
    found: dict[str, object] = {}
    for name, value in attributes.items():
        if name in known:
            field_name, read = known[name]
            found[field_name] = read(name, value)
    return found


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

    def to_value(self) -> dict[str, Value]:
        """Return the stored form, without the fields that are unset."""
        stored: dict[str, Value] = {"t": self.transition, "at": self.at}
        for short, name in _LOG_NAMES:
            if (value := getattr(self, name)) is not None:
                stored[short] = value
        return stored

    @classmethod
    def from_value(cls, value: Value) -> LogEntry:
        """Read the stored form. Raises `Bug` when it is not one."""
        if not isinstance(value, dict) or "t" not in value or "at" not in value:
            raise Bug("log entry is not a map with a transition and a time")
        return _new_entry(**_read(_LOG_FIELDS, value))


# One-letter names: the log is stored with every row and is paid for on every write.
_LOG_FIELDS: Final[_Fields] = {
    "t": ("transition", _text),
    "at": ("at", _number),
    "f": ("fence", _optional_number),
    "a": ("attempt", _optional_number),
    "r": ("reason", _optional_text),
    "w": ("owner", _optional_text),
    "c": ("code", _optional_text),
    "nb": ("not_before", _optional_number),
    "by": ("actor", _optional_text),
}
_LOG_NAMES: Final = tuple((short, name) for short, (name, _) in _LOG_FIELDS.items())[2:]
_new_entry: Final[Callable[..., LogEntry]] = LogEntry


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
                return _policy(timeout_ms, attempts, base_ms, cap_ms)
            case _:
                raise Bug("attempt policy has another shape")


@lru_cache(maxsize=256)
def _policy(timeout_ms: int, attempts: int, base_ms: int, cap_ms: int) -> AttemptPolicy:
    try:
        return AttemptPolicy(timeout_ms, RetryPolicy(attempts, base_ms / 1000, cap_ms / 1000))
    except ValueError as error:
        raise Bug("attempt policy is out of range") from error


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
        if "sk" not in attributes:
            raise Bug("a node's row without its key")
        return _new_node(**_read(_NODE_FIELDS, attributes))


def _ordinal(_: str, value: Value) -> int:
    return node_ordinal(_text("sk", value))


def _attempt_policy(_: str, value: Value) -> AttemptPolicy | None:
    return AttemptPolicy.from_value(value)


_NODE_FIELDS: Final[_Fields] = {
    "sk": ("ordinal", _ordinal),
    "node_id": ("node_id", _text),
    "node_status": ("status", _status(NodeStatus)),
    "node_resolved": ("resolved", _ordinals),
    "node_declined": ("declined", _ordinals),
    "node_pool": ("pool", _text),
    "node_attempt": ("attempt", _number),
    "node_fence": ("fence", _number),
    "node_sends": ("sends", _number),
    "node_not_before": ("not_before", _number),
    "node_queued_at": ("queued_at", _number),
    "node_sent_at": ("sent_at", _number),
    "node_claimed_at": ("claimed_at", _number),
    "node_finished_at": ("finished_at", _number),
    "node_lease_owner": ("lease_owner", _text),
    "node_lease_until": ("lease_until", _number),
    "node_policy": ("policy", _attempt_policy),
    "node_result": ("result", _optional_text),
    "node_result_ref": ("result_ref", _optional_text),
    "node_result_hash": ("result_hash", _text),
    "node_reason": ("reason", _optional_text),
    "node_scope": ("scope", _text),
    "node_code_hash": ("code_hash", _text),
    "node_progress": ("progress", _optional_number),
    "node_progress_note": ("progress_note", _text),
    "node_log": ("log", _entries),
}
_new_node: Final[Callable[..., NodeRow]] = NodeRow


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
        found = _read(_EXECUTION_FIELDS, attributes)
        if missing := _EXECUTION_REQUIRED - found.keys():
            raise Bug(f"an execution's row without its {', '.join(sorted(missing))}")
        return _new_execution(**found)


def _ref(_: str, value: Value) -> ExecutionRef:
    return ExecutionRef.from_pk(_text("pk", value))


_EXECUTION_FIELDS: Final[_Fields] = {
    "pk": ("ref", _ref),
    "exec_status": ("status", _status(ExecutionStatus)),
    "exec_workflow_id": ("workflow_id", _text),
    "exec_workflow_version": ("workflow_version", _number),
    "exec_definition_hash": ("definition_hash", _text),
    "exec_root_id": ("root_id", _text),
    "exec_scope": ("scope", _text),
    "exec_created_at": ("created_at", _number),
    "exec_ends_by": ("ends_by", _number),
    "expires_at": ("expires_at", _number),
    "exec_deadline": ("deadline", _optional_number),
    "exec_started_at": ("started_at", _optional_number),
    "exec_finished_at": ("finished_at", _optional_number),
    "exec_reason": ("reason", _optional_text),
    "exec_node": ("node", _optional_text),
    "exec_actor": ("actor", _text),
    "exec_note": ("note", _optional_text),
    "exec_resumes": ("resumes", _number),
    "exec_resumed_at": ("resumed_at", _optional_number),
    "exec_resumed_by": ("resumed_by", _optional_text),
    "exec_parked": ("parked", _optional_text),
    "due_at": ("due_at", _optional_number),
    "exec_log": ("log", _entries),
}
_EXECUTION_REQUIRED: Final = frozenset(
    known.name for known in fields(ExecutionRow) if known.default is MISSING
)
_new_execution: Final[Callable[..., ExecutionRow]] = ExecutionRow
