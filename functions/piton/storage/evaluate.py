"""What an operation means, over the plain attributes of one item.

The reference for every store: an embedded one carries operations out with it, and a remote one
is held against it. Right-hand sides read the item as it was before the write.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import TypeGuard

from piton.domain.errors import Bug
from piton.domain.rows import Attributes, Value
from piton.storage.algebra import (
    AddToSet,
    Append,
    Args,
    AtMost,
    Change,
    Eq,
    Exists,
    Guard,
    In,
    Increment,
    NotExists,
    Operation,
    Remove,
    Returns,
    Set,
    SetIfMissing,
    SizeBelow,
    SizeIs,
    value_of,
)


def apply(
    operation: Operation, attributes: Attributes | None, args: Args
) -> dict[str, Value] | None:
    """Return the item's attributes after the write, or None when the guard refuses it.

    `attributes` is None where there is no item yet; keys are not part of it. Neither argument is
    changed. Raises `Bug` when `args` are not the declared ones or an attribute has the wrong type.
    """
    operation.check(args)
    before: Attributes = {} if attributes is None else attributes
    if not all(_holds(guard, before, args) for guard in operation.guard):
        return None
    after = dict(before)
    for change in operation.bound_changes(args):
        _carry_out(change, before, after, args)
    return after


def returned(operation: Operation, after: Attributes, args: Args) -> dict[str, Value]:
    """Return what the write hands back: with `UPDATED_NEW` all named attributes that exist."""
    if operation.returns is Returns.NONE:
        return {}
    names = [change.attribute for change in operation.bound_changes(args)]
    return {name: after[name] for name in names if name in after}


def _holds(guard: Guard, item: Attributes, args: Args) -> bool:
    name = guard.attribute
    if name not in item:
        return isinstance(guard, NotExists | SizeBelow)
    value = item[name]
    match guard:
        case Exists():
            return True
        case NotExists():
            return False
        case Eq(operand=operand):
            return _same(value, value_of(operand, args))
        case In(values=values):
            return isinstance(value, str) and value in values
        case AtMost(operand=operand):
            return _is_number(value) and value <= _number(name, value_of(operand, args))
        case SizeIs(operand=operand):
            return _size(name, value) == _number(name, value_of(operand, args))
        case SizeBelow(operand=operand):
            return _size(name, value) < _number(name, value_of(operand, args))


def _carry_out(change: Change, before: Attributes, after: dict[str, Value], args: Args) -> None:
    name = change.attribute
    match change:
        case Set(operand=operand):
            _assign(after, name, value_of(operand, args))
        case SetIfMissing(operand=operand):
            if name not in before:
                _assign(after, name, value_of(operand, args))
        case Remove():
            after.pop(name, None)
        case Increment(by=by):
            after[name] = _number(name, before.get(name, 0)) + by
        case AddToSet(operand=operand):
            members = before.get(name, frozenset[int]())
            if not isinstance(members, frozenset):
                raise Bug(f"attribute {name} is not a set of numbers")
            after[name] = members | {_number(name, value_of(operand, args))}
        case Append(operand=operand):
            elements = before.get(name, [])
            if not isinstance(elements, list):
                raise Bug(f"attribute {name} is not a list")
            after[name] = [*elements, value_of(operand, args)]


def _assign(after: dict[str, Value], name: str, value: Value) -> None:
    if isinstance(value, frozenset) and not value:
        raise Bug(f"attribute {name}: a stored set cannot be empty")
    after[name] = value


def _size(name: str, value: Value) -> int:
    if isinstance(value, Sized):
        return len(value)
    raise Bug(f"attribute {name} has no size")


def _number(name: str, value: Value) -> int:
    if _is_number(value):
        return value
    raise Bug(f"attribute {name} is compared with or changed by something that is no number")


def _is_number(value: Value) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _same(left: Value, right: Value) -> bool:
    """Equal in kind and content: to a store, true and 1 are different."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[k], right[k]) for k in left)
    return isinstance(left, bool) is isinstance(right, bool) and left == right
