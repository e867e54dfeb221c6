"""Callers of the API. They repeat what was not answered, as the documentation tells them to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final

from local.simulator.engine import Machine
from local.simulator.handling import handled
from local.simulator.host import End, Host
from piton.contracts import StartExecutionInput
from piton.domain.canonical import Json
from piton.domain.errors import ErrorCode, Rejected
from piton.domain.names import Tenant
from piton.domain.rows import ExecutionRef
from piton.services.caller import Caller, Group

CALLER: Final = Caller(Tenant("simulation"), "simulator", frozenset({Group.OPERATORS}))
_ASK_AGAIN_MS: Final = 700


@dataclass(frozen=True, slots=True)
class Request:
    """What is started, once per document. `deadline_at` is in epoch milliseconds."""

    workflow: str
    version: int
    input: dict[str, Json]
    deadline_at: int | None

    def for_document(self, number: int) -> StartExecutionInput:
        """The argument of `startExecution`."""
        deadline_at = self.deadline_at
        return StartExecutionInput.model_validate(
            {
                "workflow": self.workflow,
                "version": self.version,
                "input": self.input,
                "idempotency": {"document": f"document-{number}", "operationVersion": 1},
                "deadlineAt": None
                if deadline_at is None
                else datetime.fromtimestamp(deadline_at / 1000, UTC).isoformat(),
            }
        )


class Clients:
    """Starts, cancels and resumes. `pick` returns a commands process for each call."""

    def __init__(
        self, host: Host, request: Request, pick: Callable[[], Machine], limit_ms: int
    ) -> None:
        self.unanswered_starts = 0
        self.refused_starts: list[ErrorCode] = []
        self._host = host
        self._request = request
        self._pick = pick
        self._limit_ms = limit_ms

    def start(self, number: int) -> None:
        """Start the execution of one document, until there is an answer."""
        self.unanswered_starts += 1
        self._ask(partial(self._start, self._request.for_document(number)), self._started)

    def cancel(self, ref: ExecutionRef) -> None:
        """Cancel an execution, until there is an answer."""
        self._ask(partial(_cancel, ref), lambda: None)

    def resume(self, ref: ExecutionRef) -> None:
        """Resume an execution, until there is an answer."""
        self._ask(partial(_resume, ref), lambda: None)

    def _ask(self, command: Callable[[Machine], None], answered: Callable[[], None]) -> None:
        process = self._pick()

        def ended(end: End) -> None:
            if end is End.DONE:
                answered()
            else:
                again = partial(self._ask, command, answered)
                self._host.agenda.after(_ASK_AGAIN_MS, again)

        self._host.spawn(
            process,
            partial(handled, partial(command, process)),
            ended,
            limit_ms=self._limit_ms,
        )

    def _start(self, asked: StartExecutionInput, process: Machine) -> None:
        try:
            process.services.commands.start_execution(CALLER, asked)
        except Rejected as answer:
            self.refused_starts.append(answer.code)
            raise

    def _started(self) -> None:
        self.unanswered_starts -= 1


def _cancel(ref: ExecutionRef, process: Machine) -> None:
    process.services.commands.cancel_execution(CALLER, ref.execution_id, None)


def _resume(ref: ExecutionRef, process: Machine) -> None:
    process.services.commands.resume_execution(CALLER, ref.execution_id)
