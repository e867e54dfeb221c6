"""DynamoDB's expressions, as far as to know which attributes they name.

One tokenizer serves update, condition, filter, key condition and projection expressions. A name
counts when it begins a document path: IAM sees top-level attributes only.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from tests.iam.patterns import Undecidable


class Kind(Enum):
    """Kinds of token."""

    NAME = "name"
    ALIAS = "alias"
    VALUE = "value"
    INDEX = "index"
    SIGN = "sign"
    SPACE = "space"


@dataclass(frozen=True, slots=True)
class Token:
    """One token and its text."""

    kind: Kind
    text: str


_GRAMMAR: Final = re.compile(
    r"(?P<space>\s+)|(?P<name>[A-Za-z][A-Za-z0-9_]*)|(?P<alias>#[A-Za-z0-9_]+)"
    r"|(?P<value>:[A-Za-z0-9_]+)|(?P<index>\[\d+\])|(?P<sign><=|>=|<>|[=<>+\-(),.])"
)
_KEYWORDS: Final = frozenset(
    {"AND", "OR", "NOT", "BETWEEN", "IN", "SET", "REMOVE", "ADD", "DELETE"}
)
"""All reserved: an attribute of such a name can only be given by an alias."""

_FUNCTIONS: Final = frozenset(
    {
        "attribute_exists",
        "attribute_not_exists",
        "attribute_type",
        "begins_with",
        "contains",
        "if_not_exists",
        "list_append",
        "size",
    }
)


def tokens(expression: str) -> list[Token]:
    """Return the tokens of an expression. Raises `Undecidable` where it is not one."""
    found: list[Token] = []
    position = 0
    while position < len(expression):
        match = _GRAMMAR.match(expression, position)
        if match is None or match.lastgroup is None:
            raise Undecidable(f"not an expression from {expression[position:]!r} on")
        if match.lastgroup != Kind.SPACE.value:
            found.append(Token(Kind(match.lastgroup), match[0]))
        position = match.end()
    return found


def attributes(expression: str, aliases: Mapping[str, str]) -> frozenset[str]:
    """Return the top-level attributes that an expression names, with aliases resolved."""
    return frozenset(_named(tokens(expression), aliases))


def partition_value(expression: str, aliases: Mapping[str, str], partition: str) -> str:
    """Return the placeholder that a key condition demands the partition key to equal."""
    found = tokens(expression)
    for position, token in enumerate(found):
        if token.kind in (Kind.NAME, Kind.ALIAS) and _resolve(token, aliases) == partition:
            after = found[position + 1 : position + 3]
            before = found[max(position - 2, 0) : position]
            for pair in (after, before[::-1]):
                match pair:
                    case [Token(text="="), Token(kind=Kind.VALUE, text=placeholder)]:
                        return placeholder
                    case _:
                        pass
    raise Undecidable(f"no value for the partition key {partition} in {expression!r}")


def _named(found: Sequence[Token], aliases: Mapping[str, str]) -> Iterator[str]:
    for position, token in enumerate(found):
        if token.kind not in (Kind.NAME, Kind.ALIAS):
            continue
        if position and found[position - 1].text == ".":
            continue
        if token.kind is Kind.NAME and token.text.upper() in _KEYWORDS:
            continue
        if position + 1 < len(found) and found[position + 1].text == "(":
            if token.text not in _FUNCTIONS:
                raise Undecidable(f"function {token.text!r} is not known here")
            continue
        yield _resolve(token, aliases)


def _resolve(token: Token, aliases: Mapping[str, str]) -> str:
    if token.kind is Kind.NAME:
        return token.text
    try:
        return aliases[token.text]
    except KeyError as error:
        raise Undecidable(f"alias {token.text!r} stands for nothing") from error
