"""Errors, split by what the caller should do about them.

`Retry`: try the same thing again later. `Rejected`: the request is wrong, tell the caller.
`Stale`: the world moved on, acknowledge and count. `Bug`: an assumption of the engine does not
hold, raise until somebody looks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_CODE: Final = re.compile(r"[A-Z][A-Z0-9_]{1,63}")


def is_code(text: str) -> bool:
    """Tell whether `text` is fit to be stored as a reason code (`UPPER_SNAKE`, 2 to 64 long)."""
    return _CODE.fullmatch(text) is not None


class ErrorCode(StrEnum):
    """Stable codes of the errors that callers of the API see."""

    UNAUTHENTICATED = "UNAUTHENTICATED"
    FORBIDDEN = "FORBIDDEN"
    INVALID_INPUT = "INVALID_INPUT"
    INVALID_DEFINITION = "INVALID_DEFINITION"
    INPUT_TOO_LARGE = "INPUT_TOO_LARGE"
    OUTPUT_TOO_LARGE = "OUTPUT_TOO_LARGE"
    WORKFLOW_NOT_FOUND = "WORKFLOW_NOT_FOUND"
    EXECUTION_NOT_FOUND = "EXECUTION_NOT_FOUND"
    EXECUTION_ENDED = "EXECUTION_ENDED"
    EXECUTION_NOT_STARTED = "EXECUTION_NOT_STARTED"
    IDEMPOTENCY_CONFLICT = "IDEMPOTENCY_CONFLICT"
    BUSY = "BUSY"
    INTERNAL = "INTERNAL"


class PitonError(Exception):
    """Base of every error that the engine raises on purpose."""


class Retry(PitonError):
    """A dependency did not answer or asked to slow down; the same call may succeed later."""


class NotYet(Retry):
    """Work arrived before its time. `wait_ms` is how long it still has to stay hidden."""

    def __init__(self, wait_ms: int) -> None:
        super().__init__(f"not due for another {wait_ms} ms")
        self.wait_ms = wait_ms


class Stale(PitonError):
    """The message or caller speaks about a state that has passed; nothing is left to do."""


class Bug(PitonError):
    """Stored data or a message contradicts what the engine guarantees."""


class Rejected(PitonError):
    """The request cannot be served as it stands.

    `code` is stable; `message` says what happened and what to do, and is safe to show.
    """

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a workflow definition and its place, for example `nodes[3].needs[0]`."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


class InvalidDefinition(Rejected):
    """A workflow definition that cannot be registered; `problems` names each place."""

    SHOWN: Final = 20

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        shown = [str(problem) for problem in self.problems[: self.SHOWN]]
        hidden = len(self.problems) - len(shown)
        if hidden:
            shown.append(f"and {hidden} more")
        super().__init__(ErrorCode.INVALID_DEFINITION, "; ".join(shown))
