"""The state machine and the guarded writes that carry it out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from local.docs.markdown import code, codes, table
from piton.domain.status import EventType
from piton.domain.transitions import DISPATCH, TRANSITIONS, Heals, Transition
from piton.storage.algebra import (
    AtMost,
    Const,
    Eq,
    Exists,
    Guard,
    In,
    NotExists,
    Operand,
    SizeBelow,
    SizeIs,
)
from piton.storage.operations import OPERATIONS

RECOVERY: Final[Mapping[Heals, str]] = {
    Heals.LOST_FRONTIER: (
        "The sweep passes every ended node to the scheduler again. Edges that are resolved already "
        "and nodes that have a status cost nothing; what was missed is resolved, queued, skipped "
        "or finished now."
    ),
    Heals.LOST_DISPATCH: (
        "The sweep sends the message of a queued node again when nobody has claimed it in time. "
        "The fence stays, so an old copy and a new one are the same order."
    ),
    Heals.STALLED: (
        "The sweep ends an attempt whose lease has run out, or whose body runs far beyond its "
        "timeout, and queues the next one under a higher fence (or fails the node)."
    ),
    Heals.LOST_FINALISE: (
        "The sweep finds the end gate ready, or a fatal failure, under an execution that still "
        "runs, and ends it."
    ),
    Heals.DRAIN: (
        "Once the execution has ended, every sweep cancels what is still queued, and what runs "
        "without a living worker, until nothing is left."
    ),
    Heals.DUE: (
        "The execution stands on the watchdog's list from the write that creates it until long "
        "after its end, so the next sweep makes the step."
    ),
    Heals.CALLER: (
        "Nothing was stored, so nothing is half done. The caller saw an error and asks again; "
        "asking twice is safe."
    ),
}
"""What each kind of repair does, for the readers of the table."""


def transitions_table() -> str:
    """Render the state machine."""
    return table(
        ("#", "From", "To", "When", "Who", "Sends", "Repaired as"),
        (
            (
                transition.id,
                _statuses(transition),
                code(transition.to.value)
                if transition.to
                else "unchanged, off the watchdog's list",
                transition.trigger,
                ", ".join(actor.value for actor in transition.actors),
                _messages(transition),
                transition.heals.value,
            )
            for transition in TRANSITIONS
        ),
    )


def recovery_table() -> str:
    """Render what each kind of repair does, and for which rows."""
    return table(
        ("Repaired as", "Rows", "What happens"),
        (
            (
                heals.value,
                ", ".join(t.id for t in TRANSITIONS if t.heals is heals),
                RECOVERY[heals],
            )
            for heals in Heals
        ),
    )


def operations_table() -> str:
    """Render every guarded write."""
    return table(
        ("Write", "Row", "Only if"),
        (
            (
                code(operation.name),
                operation.transition or "",
                " and ".join(_guard(guard) for guard in operation.guard),
            )
            for operation in OPERATIONS
        ),
    )


def _statuses(transition: Transition) -> str:
    found = sorted(status.value for status in transition.allowed_from)
    return codes(found) if found else "no row"


def _messages(transition: Transition) -> str:
    return codes(m if m == DISPATCH else EventType(m).value for m in transition.messages) or "-"


def _operand(operand: Operand) -> str:
    return str(operand.value) if isinstance(operand, Const) else f":{operand.name}"


def _guard(guard: Guard) -> str:
    match guard:
        case Eq(attribute, operand):
            return code(f"{attribute} = {_operand(operand)}")
        case In(attribute, values):
            return f"{code(attribute)} is {' or '.join(code(value) for value in values)}"
        case Exists(attribute):
            return f"{code(attribute)} exists"
        case NotExists(attribute):
            return f"no {code(attribute)}"
        case AtMost(attribute, operand):
            return code(f"{attribute} <= {_operand(operand)}")
        case SizeIs(attribute, operand):
            return code(f"size({attribute}) = {_operand(operand)}")
        case SizeBelow(attribute, operand):
            return f"{code(f'size({attribute}) < {_operand(operand)}')} or none"
