"""Rows as small numbers, so that states are cheap to keep and to compare.

Logs are left out: they tell the path to a state, and two paths to one state are one state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from piton.domain.rows import META_SK, Attributes, ExecutionRef, ExecutionRow, NodeRow, Value
from piton.storage import evaluate
from piton.storage.algebra import Append, Args, Operation

REF: Final = ExecutionRef("model", "0" * 26)
LOGS: Final = ("node_log", "exec_log")
ABSENT: Final = 0
"""The number of a row that does not exist."""

Frozen = tuple[tuple[str, object], ...]


@dataclass(frozen=True, slots=True)
class Applied:
    """A write that its guard let through: the row's new number and what came back."""

    row: int
    returned: Frozen


class RowTable:
    """Numbers for rows, and what operations make of them. Equal rows have equal numbers.

    `mutations` replaces operations by name.
    """

    def __init__(self, mutations: Mapping[str, Operation]) -> None:
        self._mutations = mutations
        self._numbers: dict[Frozen, int] = {(): ABSENT}
        self._attributes: list[dict[str, Value]] = [{}]
        self._applied: dict[tuple[int, str, Frozen], Applied | None] = {}

    def number(self, attributes: Attributes) -> int:
        """Return the number of a row."""
        frozen = freeze(attributes)
        if frozen not in self._numbers:
            self._numbers[frozen] = len(self._attributes)
            self._attributes.append(dict(attributes))
        return self._numbers[frozen]

    def attributes(self, row: int) -> dict[str, Value]:
        """Return a row's attributes, without its key."""
        return self._attributes[row]

    def apply(self, operation: Operation, row: int, args: Args) -> Applied | None:
        """Carry out an operation on a row; None when its guard refuses."""
        given = {name: value for name, value in args.items() if name != "log"}
        key = (row, operation.name, freeze(given))
        if key not in self._applied:
            self._applied[key] = self._carry_out(operation, row, given)
        return self._applied[key]

    def _carry_out(self, operation: Operation, row: int, args: Args) -> Applied | None:
        operation = _without_log(self._mutations.get(operation.name, operation))
        before = None if row == ABSENT else self._attributes[row]
        after = evaluate.apply(operation, before, args)
        if after is None:
            return None
        return Applied(self.number(after), freeze(evaluate.returned(operation, after, args)))


def freeze(attributes: Mapping[str, Value]) -> Frozen:
    """Return a mapping in a form that can be compared and hashed; unset values are left out."""
    return tuple(
        sorted((name, _frozen(value)) for name, value in attributes.items() if value is not None)
    )


def _frozen(value: Value) -> object:
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    if isinstance(value, dict):
        return freeze(value)
    return value


@cache
def _without_log(operation: Operation) -> Operation:
    kept = tuple(
        change
        for change in operation.changes
        if not (isinstance(change, Append) and change.attribute in LOGS)
    )
    return replace(operation, changes=kept)


def node_row(attributes: Attributes, sk: str) -> NodeRow:
    """Read a node's row as the engine does."""
    return NodeRow.from_attributes({**attributes, "pk": REF.pk, "sk": sk})


def execution_row(attributes: Attributes) -> ExecutionRow:
    """Read META as the engine does."""
    return ExecutionRow.from_attributes({**attributes, "pk": REF.pk, "sk": META_SK})
