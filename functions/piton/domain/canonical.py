"""Canonical JSON: one text per value, so that hashes and content-addressed keys are stable.

Keys are sorted by code point, nothing is escaped that need not be, and numbers keep their kind:
an `int` stays an integer and a `float` is written so that it reads back to the same bits.
Values that JSON stores cannot carry (NaN, infinities, lone surrogates, U+0000, non-string keys)
are refused.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Final

_ALLOWED: Final = "use None, bool, int, float, str, list, tuple or dict with string keys"

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

_MAX_DEPTH: Final = 200
_MAX_INTEGER_BITS: Final = 4096


class NotJson(ValueError):
    """The value has no JSON form that every store can carry. The message names the place."""


def to_json(value: object) -> Json:
    """Return `value` as plain JSON data (tuples become lists), or raise `NotJson`."""
    return _convert(value, "$", 0)


def _convert(value: object, place: str, depth: int) -> Json:
    if depth > _MAX_DEPTH:
        raise NotJson(f"{place[:80]}...: nested deeper than {_MAX_DEPTH}")
    if isinstance(value, list | tuple):
        return [_convert(item, f"{place}[{i}]", depth + 1) for i, item in enumerate(value)]
    if isinstance(value, dict):
        converted: dict[str, Json] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise NotJson(f"{place}: key of type {type(key).__name__}; keys must be strings")
            converted[_text(key, place)] = _convert(item, f"{place}.{key[:40]}", depth + 1)
        return converted
    return _scalar(value, place)


def _scalar(value: object, place: str) -> Json:
    match value:
        case None | bool():
            return value
        case str():
            return _text(value, place)
        case int():
            if value.bit_length() > _MAX_INTEGER_BITS:
                raise NotJson(f"{place}: integer longer than {_MAX_INTEGER_BITS} bits")
            return int(value)
        case float():
            if not math.isfinite(value):
                raise NotJson(f"{place}: NaN and infinities have no JSON form")
            return float(value)
        case _:
            raise NotJson(f"{place}: {type(value).__name__} is not JSON; {_ALLOWED}")


def _text(value: str, place: str) -> str:
    if "\x00" in value:
        raise NotJson(f"{place}: text with U+0000")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise NotJson(f"{place}: text with a lone surrogate") from error
    # Not `str(value)`: an enumeration with text members prints its own name.
    return str.__str__(value)


def dumps(value: object) -> str:
    """Return the canonical text of `value`, or raise `NotJson`."""
    return json.dumps(
        to_json(value), ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
    )


def loads(text: str) -> Json:
    """Read JSON text strictly: NaN, infinities and numbers beyond a float are refused.

    Raises `NotJson`.
    """
    try:
        value: Json = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except NotJson:
        raise
    except (ValueError, RecursionError) as error:
        raise NotJson("text is not JSON") from error
    return value


def _refuse(constant: str) -> Json:
    raise NotJson(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise NotJson("a number is too large")
    return value


def digest(text: str) -> str:
    """Return the lowercase hexadecimal SHA-256 of `text` in UTF-8."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
