"""The language in which every write is declared.

An `Operation` is data: a guard, changes and what comes back. The DynamoDB expression, the check
in an embedded store and the IAM statement are derived from that one declaration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from piton.domain.errors import Bug
from piton.domain.rows import Value

Args = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Arg:
    """A value given at each call. An optional one may be left out; its change is then dropped."""

    name: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Const:
    """A value fixed by the declaration."""

    value: Value


Operand = Arg | Const


@dataclass(frozen=True, slots=True)
class Eq:
    """The attribute exists and equals the operand."""

    attribute: str
    operand: Operand


@dataclass(frozen=True, slots=True)
class In:
    """The attribute exists and equals one of the values."""

    attribute: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Exists:
    """The attribute exists."""

    attribute: str


@dataclass(frozen=True, slots=True)
class NotExists:
    """The attribute, or the whole item, does not exist."""

    attribute: str


@dataclass(frozen=True, slots=True)
class AtMost:
    """The attribute exists and is a number not above the operand."""

    attribute: str
    operand: Operand


@dataclass(frozen=True, slots=True)
class SizeIs:
    """The attribute exists and has exactly this many elements."""

    attribute: str
    operand: Operand


@dataclass(frozen=True, slots=True)
class SizeBelow:
    """The attribute is missing or has fewer elements than the operand."""

    attribute: str
    operand: Operand


Guard = Eq | In | Exists | NotExists | AtMost | SizeIs | SizeBelow


@dataclass(frozen=True, slots=True)
class Set:
    """Assign."""

    attribute: str
    operand: Operand


@dataclass(frozen=True, slots=True)
class SetIfMissing:
    """Assign where the attribute does not exist yet."""

    attribute: str
    operand: Operand


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete the attribute."""

    attribute: str


@dataclass(frozen=True, slots=True)
class Increment:
    """Add a constant to a number; a missing one counts as zero."""

    attribute: str
    by: int = 1


@dataclass(frozen=True, slots=True)
class AddToSet:
    """Add one number to a set of numbers, creating it if needed. Repeating it changes nothing."""

    attribute: str
    operand: Operand


@dataclass(frozen=True, slots=True)
class Append:
    """Append one element to a list, creating it if needed."""

    attribute: str
    operand: Operand


Change = Set | SetIfMissing | Remove | Increment | AddToSet | Append


class Table(StrEnum):
    """The tables, by the name of what they hold."""

    EXECUTIONS = "executions"
    EFFECTS = "effects"
    WORKFLOWS = "workflows"


class Item(StrEnum):
    """Kinds of item. Each lives under keys with a fixed prefix; see `keys`."""

    META = "meta"
    INPUT = "input"
    NODE = "node"
    IDEMPOTENCY = "idempotency"
    WORKFLOW = "workflow"


class Returns(StrEnum):
    """What a write hands back. Whole items are never returned to a scoped role."""

    NONE = "NONE"
    UPDATED_NEW = "UPDATED_NEW"


@dataclass(frozen=True, slots=True)
class Operation:
    """One guarded single-item write.

    `transition` is the row of the transition table it carries out, None for writes that move no
    status. `transactional` operations are only ever part of a transaction.
    """

    name: str
    item: Item
    guard: tuple[Guard, ...]
    changes: tuple[Change, ...]
    transition: str | None = None
    returns: Returns = Returns.NONE
    transactional: bool = False

    _known: frozenset[str] = field(init=False, repr=False, compare=False)
    _required: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.guard:
            raise Bug(f"operation {self.name} has no guard")
        args = self._args()
        object.__setattr__(self, "_known", frozenset(arg.name for arg in args))
        required = frozenset(arg.name for arg in args if not arg.optional)
        object.__setattr__(self, "_required", required)

    @property
    def table(self) -> Table:
        """The table that holds this operation's item."""
        return Table.WORKFLOWS if self.item is Item.WORKFLOW else Table.EXECUTIONS

    @property
    def attributes(self) -> frozenset[str]:
        """Top-level attributes that the write names, without the key."""
        return frozenset(part.attribute for part in (*self.guard, *self.changes))

    @property
    def arguments(self) -> frozenset[str]:
        """Names of the arguments that a call must give."""
        return self._required

    def check(self, args: Args) -> None:
        """Raise `Bug` unless `args` has exactly the declared arguments."""
        given = {name for name, value in args.items() if value is not None}
        if missing := self._required - given:
            raise Bug(f"operation {self.name} lacks {', '.join(sorted(missing))}")
        if spare := given - self._known:
            raise Bug(f"operation {self.name} does not take {', '.join(sorted(spare))}")

    def bound_changes(self, args: Args) -> tuple[Change, ...]:
        """Changes that apply to a call: those of left-out optional arguments are dropped."""
        if self._required == self._known:
            return self.changes
        return tuple(
            change
            for change in self.changes
            if isinstance(change, Remove | Increment)
            or not isinstance(change.operand, Arg)
            or args.get(change.operand.name) is not None
        )

    def _args(self) -> tuple[Arg, ...]:
        operands = [
            part.operand
            for part in (*self.guard, *self.changes)
            if not isinstance(part, In | Exists | NotExists | Remove | Increment)
        ]
        return tuple(operand for operand in operands if isinstance(operand, Arg))


def value_of(operand: Operand, args: Args) -> Value:
    """Return what `operand` stands for in a call."""
    return operand.value if isinstance(operand, Const) else args[operand.name]
