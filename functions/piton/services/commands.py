"""What operators ask for: start, resume, cancel, register."""

from __future__ import annotations

from typing import Final, NoReturn

from piton.contracts import StartExecutionInput
from piton.domain.compile import CheckCondition, Pools
from piton.domain.errors import ErrorCode, Rejected, Retry
from piton.domain.rows import ExecutionRef, ExecutionRow, LogEntry, Value
from piton.domain.settings import Settings
from piton.domain.status import ExecutionStatus, Reason
from piton.ports import (
    Applied,
    BlobStore,
    Clock,
    Counter,
    Metrics,
    Random,
    Store,
    Workflow,
    WorkflowStore,
)
from piton.services.caller import Caller
from piton.services.definitions import parse_definition
from piton.services.payloads import Payloads
from piton.services.start import Start, Started
from piton.storage import keys
from piton.storage import operations as op
from piton.storage.algebra import Operation
from piton.storage.views import ExecutionView

MAX_NOTE: Final = 256
_TRIES: Final = 3


class Commands:
    """Every method checks the caller's role first and names rows of their tenant only.

    Methods raise `Rejected`, and `Retry` when a dependency does not answer.
    """

    def __init__(
        self,
        *,
        store: Store,
        workflows: WorkflowStore,
        blobs: BlobStore,
        clock: Clock,
        random: Random,
        metrics: Metrics,
        settings: Settings,
        pools: Pools,
        check_condition: CheckCondition,
    ) -> None:
        self._store = store
        self._workflows = workflows
        self._clock = clock
        self._metrics = metrics
        self._settings = settings
        self._pools = pools
        self._check_condition = check_condition
        payloads = Payloads(store, blobs, settings)
        self._start = Start(store, workflows, payloads, clock, random, settings)

    def start_execution(self, caller: Caller, asked: StartExecutionInput) -> Started:
        """Start a workflow (E1); see `Start.start`."""
        caller.require_operator()
        return self._start.start(caller, asked)

    def register_workflow(self, caller: Caller, definition: str) -> Workflow:
        """Register a definition in JSON or YAML as the workflow's next version.

        Registering the latest version again returns that version. Raises `InvalidDefinition`.
        """
        caller.require_operator()
        checked = parse_definition(
            definition, pools=self._pools, check_condition=self._check_condition
        )
        return self._workflows.register(
            caller.tenant, checked.text, checked.graph, self._clock.now_ms(), caller.subject
        )

    def resume_execution(self, caller: Caller, execution_id: str) -> ExecutionRow:
        """Ask for another pass over a running execution (E8).

        It dispatches what never finished and nothing else, so it may be repeated at will.
        """
        caller.require_operator()
        ref = _named(caller, execution_id)
        for _ in range(_TRIES):
            args: dict[str, Value] = {"now": self._clock.now_ms(), "actor": caller.subject}
            applied, execution = self._apply(ref, op.RESUME, args)
            if applied:
                return execution
            if execution.terminal:
                _refuse_ended(execution, "Start a new one with a higher operationVersion")
            if execution.status is not ExecutionStatus.RUNNING:
                raise Rejected(
                    ErrorCode.EXECUTION_NOT_STARTED,
                    "The execution is about to start by itself; there is nothing to resume yet",
                )
        raise Retry("the execution changes faster than it can be resumed")

    def cancel_execution(self, caller: Caller, execution_id: str, note: str | None) -> ExecutionRow:
        """End an execution for good (E5). Cancelling it again returns it as it is.

        A body that runs may still finish and its result is kept; nothing follows from it.
        """
        caller.require_operator()
        ref = _named(caller, execution_id)
        checked_note = _note(note)
        for _ in range(_TRIES):
            now = self._clock.now_ms()
            reason = Reason.CANCELLED_BY_CALLER.value
            entry = LogEntry("E5", now, reason=reason, actor=caller.subject)
            args: dict[str, Value] = {
                "now": now,
                "reason": reason,
                "note": checked_note,
                "due_at": now + self._settings.drain_ms,
                "log": entry.to_value(),
            }
            applied, execution = self._apply(ref, op.CANCEL_EXECUTION, args)
            if applied:
                self._metrics.count(Counter.EXECUTION_CANCELLED)
                return execution
            if execution.status is ExecutionStatus.CANCELLED:
                return execution
            if execution.terminal:
                _refuse_ended(execution, "There is nothing left to cancel")
        raise Retry("the execution changes faster than it can be cancelled")

    def _apply(
        self, ref: ExecutionRef, operation: Operation, args: dict[str, Value]
    ) -> tuple[bool, ExecutionRow]:
        """Write, then read what stands there now: a missing execution takes the same two calls."""
        outcome = self._store.apply(operation, keys.meta(ref), args)
        execution = self._store.get_execution(ref, ExecutionView.FULL)
        if execution is None:
            raise Rejected(
                ErrorCode.EXECUTION_NOT_FOUND,
                "You have no execution with this id; check it, or list your executions",
            )
        return isinstance(outcome, Applied), execution


def _named(caller: Caller, execution_id: str) -> ExecutionRef:
    ref = caller.execution(execution_id)
    if ref is None:
        raise Rejected(
            ErrorCode.INVALID_INPUT,
            "executionId must be the 26 characters that startExecution answered",
        )
    return ref


def _refuse_ended(execution: ExecutionRow, advice: str) -> NoReturn:
    raise Rejected(
        ErrorCode.EXECUTION_ENDED, f"The execution has {_ENDED[execution.status]}. {advice}"
    )


_ENDED: Final = {
    ExecutionStatus.COMPLETED: "completed",
    ExecutionStatus.FAILED: "failed",
    ExecutionStatus.CANCELLED: "been cancelled",
}


def _note(note: str | None) -> str | None:
    if not note:
        return None
    if len(note) > MAX_NOTE or not note.isprintable():
        raise Rejected(
            ErrorCode.INVALID_INPUT,
            f"reason must be at most {MAX_NOTE} printable characters on one line",
        )
    return note
