"""From a declared operation to DynamoDB's expressions.

The texts depend on the operation and on which of its optional arguments are given, never on
values, so they are compiled once. Names need no aliases: a test runs every expression against a
server that knows the reserved words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Final, assert_never

from piton.domain.errors import Bug
from piton.domain.rows import Value
from piton.storage.algebra import (
    AddToSet,
    Append,
    Arg,
    Args,
    AtMost,
    Change,
    Const,
    Eq,
    Exists,
    Guard,
    In,
    Increment,
    NotExists,
    Operand,
    Operation,
    Remove,
    Set,
    SetIfMissing,
    SizeBelow,
    SizeIs,
)
from piton.storage.attributes import encode

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import AttributeValueTypeDef as Encoded

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_CLAUSES: Final = ("SET", "REMOVE", "ADD")


class _Form(Enum):
    """How an operand stands in an expression: as it is, or as the only element of something."""

    PLAIN = "plain"
    SET = "set"
    LIST = "list"


_NO_ELEMENTS: Final[list[Value]] = []


@dataclass(frozen=True, slots=True)
class Expressions:
    """The texts of one write, and what stands behind each of their placeholders."""

    update: str
    condition: str
    constants: Mapping[str, Encoded]
    arguments: Mapping[str, tuple[str, _Form]]

    def values(self, args: Args) -> dict[str, Encoded]:
        """Return a call's values: exactly the placeholders that the texts name."""
        given = {
            placeholder: encode(_formed(args[name], form))
            for placeholder, (name, form) in self.arguments.items()
        }
        return {**self.constants, **given}


def expressions(operation: Operation, args: Args) -> Expressions:
    """Return the expressions for a call. Raises `Bug` when `args` do not fit the operation."""
    operation.check(args)
    return _compile(operation.guard, operation.bound_changes(args))


@cache
def _compile(guard: tuple[Guard, ...], changes: tuple[Change, ...]) -> Expressions:
    writer = _Writer()
    condition = " AND ".join(writer.guard(part) for part in guard)
    clauses: dict[str, list[str]] = {clause: [] for clause in _CLAUSES}
    for change in changes:
        clause, text = writer.change(change)
        clauses[clause].append(text)
    update = " ".join(f"{clause} {', '.join(texts)}" for clause, texts in clauses.items() if texts)
    arguments = {text: (name, form) for (name, form), text in writer.arguments.items()}
    return Expressions(update, condition, writer.constants, arguments)


class _Writer:
    """Writes fragments and collects their placeholders."""

    def __init__(self) -> None:
        self.constants: dict[str, Encoded] = {}
        self.arguments: dict[tuple[str, _Form], str] = {}

    def guard(self, part: Guard) -> str:
        name = _checked(part.attribute)
        match part:
            case Eq(operand=operand):
                return f"{name} = {self._placeholder(operand)}"
            case In(values=values):
                options = ", ".join(self._constant(value) for value in values)
                return f"{name} IN ({options})"
            case Exists():
                return f"attribute_exists({name})"
            case NotExists():
                return f"attribute_not_exists({name})"
            case AtMost(operand=operand):
                return f"{name} <= {self._placeholder(operand)}"
            case SizeIs(operand=operand):
                return f"size({name}) = {self._placeholder(operand)}"
            case SizeBelow(operand=operand):
                below = f"size({name}) < {self._placeholder(operand)}"
                return f"(attribute_not_exists({name}) OR {below})"
        assert_never(part)

    def change(self, part: Change) -> tuple[str, str]:
        name = _checked(part.attribute)
        match part:
            case Set(operand=operand):
                return "SET", f"{name} = {self._placeholder(operand)}"
            case SetIfMissing(operand=operand):
                return "SET", f"{name} = if_not_exists({name}, {self._placeholder(operand)})"
            case Append(operand=operand):
                so_far = f"if_not_exists({name}, {self._constant(_NO_ELEMENTS)})"
                element = self._placeholder(operand, _Form.LIST)
                return "SET", f"{name} = list_append({so_far}, {element})"
            case Remove():
                return "REMOVE", name
            case Increment(by=by):
                return "ADD", f"{name} {self._constant(by)}"
            case AddToSet(operand=operand):
                return "ADD", f"{name} {self._placeholder(operand, _Form.SET)}"
        assert_never(part)

    def _placeholder(self, operand: Operand, form: _Form = _Form.PLAIN) -> str:
        match operand:
            case Const(value):
                return self._constant(_formed(value, form))
            case Arg(name):
                return self.arguments.setdefault((name, form), f":a{len(self.arguments)}")
        assert_never(operand)

    def _constant(self, value: Value) -> str:
        placeholder = f":c{len(self.constants)}"
        self.constants[placeholder] = encode(value)
        return placeholder


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise Bug(f"attribute {name!r} cannot stand in an expression")
    return name


def _formed(value: Value, form: _Form) -> Value:
    match form:
        case _Form.PLAIN:
            return value
        case _Form.LIST:
            return [value]
        case _Form.SET:
            if not isinstance(value, int) or isinstance(value, bool):
                raise Bug("only whole numbers go into a stored set")
            return frozenset({value})
