"""Texts of policies: wildcards, policy variables and the six parts of an ARN."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

Context = Mapping[str, tuple[str, ...]]
"""What a request says of itself: values by condition key, the key in lower case."""

_TOKEN: Final = re.compile(
    r"\$\{(?P<variable>[^}]*)\}|(?P<wildcard>[*?])|(?P<literal>.)", re.DOTALL
)
_ESCAPED: Final = frozenset("*?$")
_WILDCARDS: Final = {"*": ".*", "?": "."}
_ARN_PARTS: Final = 6


class Undecidable(Exception):
    """A policy or a request holds what this evaluator does not know; nothing follows from it."""


class _Unresolved(Exception):
    """A policy variable has no value in this request."""


def matches(pattern: str, value: str, context: Context, *, wildcards: bool = True) -> bool:
    """Whether `value` fits `pattern`. A variable without a value fits nothing.

    A variable's value stands for itself: wildcards in it mean nothing.
    """
    try:
        expression = "".join(_pieces(pattern, context, wildcards=wildcards))
    except _Unresolved:
        return False
    return re.fullmatch(expression, value, re.DOTALL) is not None


def matches_arn(pattern: str, value: str, context: Context) -> bool:
    """Whether an ARN fits, part by part: a wildcard never crosses a colon before the sixth part."""
    if pattern == "*":
        return True
    wanted, given = _parts(pattern), value.split(":", _ARN_PARTS - 1)
    if len(given) != _ARN_PARTS:
        return False
    return all(matches(part, text, context) for part, text in zip(wanted, given, strict=True))


def variables(text: str) -> tuple[str, ...]:
    """Names of the policy variables in `text`; `${*}`, `${?}` and `${$}` are escapes, not names."""
    names = (token["variable"] for token in _TOKEN.finditer(text))
    return tuple(name for name in names if name is not None and name not in _ESCAPED)


def resolves(text: str, context: Context) -> bool:
    """Whether every variable in `text` has one value in this request."""
    return all(len(context.get(name.strip().lower(), ())) == 1 for name in variables(text))


def _parts(pattern: str) -> list[str]:
    """Split an ARN pattern. Missing parts count as wildcards, as AWS completes them."""
    parts: list[str] = []
    rest = pattern
    while len(parts) < _ARN_PARTS - 1 and rest:
        # Variables hold colons in their names, so a plain split would tear them.
        part, _, rest = _cut(rest)
        parts.append(part)
    if rest:
        parts.append(rest)
    if not parts or parts[0] != "arn":
        raise Undecidable(f"{pattern!r} is not the pattern of an ARN")
    return parts + ["*"] * (_ARN_PARTS - len(parts))


def _cut(text: str) -> tuple[str, str, str]:
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "{") - (character == "}")
        if character == ":" and depth == 0:
            return text[:position], ":", text[position + 1 :]
    return text, "", ""


def _pieces(pattern: str, context: Context, *, wildcards: bool) -> Iterator[str]:
    for token in _TOKEN.finditer(pattern):
        if (name := token["variable"]) is not None:
            yield re.escape(name if name in _ESCAPED else _value(name, context))
        elif wildcards and token["wildcard"]:
            yield _WILDCARDS[token["wildcard"]]
        else:
            yield re.escape(token[0])


def _value(name: str, context: Context) -> str:
    if "," in name:
        raise Undecidable(f"the variable {name!r} has a default, which is not evaluated here")
    values = context.get(name.strip().lower(), ())
    if len(values) != 1:
        raise _Unresolved(name)
    return values[0]
