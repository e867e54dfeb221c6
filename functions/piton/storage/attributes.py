"""Stored values in DynamoDB's wire form and back."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from piton.domain.errors import Bug
from piton.domain.rows import Attributes, Value

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import AttributeValueTypeDef as Encoded

_NUMBER_LIMIT: Final = 10**38
"""DynamoDB keeps 38 digits and rounds silently beyond."""


def encode(value: Value) -> Encoded:
    """Return the wire form of `value`. Raises `Bug` when DynamoDB cannot hold it as it is."""
    match value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case int():
            return {"N": _number(value)}
        case str():
            return {"S": value}
        case bytes():
            return {"B": value}
        case frozenset():
            if not value:
                raise Bug("a stored set cannot be empty")
            return {"NS": [_number(element) for element in sorted(value)]}
        case list():
            return {"L": [encode(element) for element in value]}
        case dict():
            return {"M": {name: encode(element) for name, element in value.items()}}
    raise Bug(f"no attribute holds a {type(value).__name__}")


def decode(encoded: Mapping[str, object]) -> Value:
    """Return the value of a wire form. Raises `Bug` on types that the engine never stores."""
    for kind, content in encoded.items():
        if kind in _READERS:
            return _READERS[kind](content)
    raise Bug(f"the engine stores no attribute of type {', '.join(encoded)}")


def decode_item(item: Mapping[str, Mapping[str, object]]) -> Attributes:
    """Return the attributes of an item of a table or of its stream. Raises `Bug` as `decode`."""
    return {name: decode(encoded) for name, encoded in item.items()}


def _number(value: int) -> str:
    if abs(value) >= _NUMBER_LIMIT:
        raise Bug("a stored number has at most 38 digits")
    return str(value)


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise Bug(f"stored number {text!r} is not whole") from error


def _binary(content: Any) -> bytes:
    # Change events of the stream carry JSON, and so base64 text.
    return base64.b64decode(content) if isinstance(content, str) else bytes(content)


_READERS: Final[Mapping[str, Callable[[Any], Value]]] = {
    "S": str,
    "N": _whole,
    "NS": lambda numbers: frozenset(map(_whole, numbers)),
    "L": lambda elements: [decode(element) for element in elements],
    "M": lambda members: {name: decode(member) for name, member in members.items()},
    "BOOL": bool,
    "B": _binary,
    "NULL": lambda _: None,
}
