"""YAML by the rules of YAML 1.2, built from the parser's events.

PyYAML's own loaders speak YAML 1.1, in which the key `on` is a boolean and `12:30` a number, keep
the last of two equal keys, and let aliases grow a small text without bound. Here data is built
without recursion, with places and with limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from piton.domain.canonical import Json
from piton.domain.errors import InvalidDefinition, Problem

MAX_BYTES: Final = 1024 * 1024
MAX_DEPTH: Final = 64
MAX_WRITTEN_OUT: Final = 2 * MAX_BYTES
"""Characters of a document once every alias is written out; without aliases none comes near."""

_CORE: Final = "tag:yaml.org,2002:"
_NULL: Final = re.compile(r"null|Null|NULL|~|")
_BOOL: Final = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT: Final = re.compile(r"[-+]?[0-9]{1,1200}")
_OCTAL_OR_HEX: Final = re.compile(r"0o[0-7]{1,400}|0x[0-9a-fA-F]{1,400}")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def fault(place: str, message: str) -> InvalidDefinition:
    """Return the error of a document with one fault."""
    return InvalidDefinition([Problem(place, message)])


def member(place: str, key: str) -> str:
    """Return the place of a key's value within `place`; the document itself is the empty one."""
    return f"{place}.{key[:80]}" if place else key[:80]


class _Mark(Protocol):
    line: int
    column: int


@dataclass(slots=True)
class _Branch:
    """A list or mapping that is being filled, how many characters it has and how deep it goes."""

    value: list[Json] | dict[str, Json]
    place: str
    anchor: str | None
    key: str | None = None
    size: int = 1
    height: int = 1


@dataclass(frozen=True, slots=True)
class _Anchored:
    value: Json
    size: int
    height: int


def read_yaml(text: str) -> tuple[Json, dict[str, int]]:
    """Parse one document; return its data and the line, from 1, of its places.

    Raises `InvalidDefinition`.
    """
    builder = _Builder()
    try:
        for event in _events(text):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        where = _where(error.problem_mark or error.context_mark)
        raise fault(where, f"not YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:  # characters that YAML does not allow
        raise fault("document", "not YAML: it has characters that YAML does not allow") from error
    if not builder.done:
        raise fault("document", "is empty")
    return builder.result, builder.lines


def _events(text: str) -> Iterator[Event]:
    events: Iterator[Event] = yaml.parse(text, Loader=yaml.CSafeLoader)
    yield from events


class _Builder:
    """Builds plain data from parser events."""

    def __init__(self) -> None:
        self.result: Json = None
        self.done = False
        self.lines: dict[str, int] = {}
        self._stack: list[_Branch] = []
        self._anchors: dict[str, _Anchored] = {}
        self._documents = 0

    def take(self, event: Event) -> None:
        """Take the next event. Raises `InvalidDefinition`."""
        match event:
            case DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    raise self._refuse(event, "a second document begins; give one")
            case ScalarEvent():
                self._scalar(event)
            case AliasEvent():
                self._alias(event)
            case SequenceStartEvent() | MappingStartEvent():
                self._open(event)
            case SequenceEndEvent() | MappingEndEvent():
                branch = self._stack.pop()
                self._add(event, branch.value, branch.size, branch.height, branch.anchor)
            case _:
                pass

    def _open(self, event: SequenceStartEvent | MappingStartEvent) -> None:
        is_list = isinstance(event, SequenceStartEvent)
        if event.tag not in (None, "!", f"{_CORE}{'seq' if is_list else 'map'}"):
            raise self._refuse(event, f"tag {event.tag} is not supported")
        if self._at_key():
            raise self._refuse(event, "a key must be text")
        if len(self._stack) >= MAX_DEPTH:
            raise self._refuse(event, f"nested deeper than {MAX_DEPTH}")
        place = self._here()
        self.lines[place] = _line(event)
        self._stack.append(_Branch([] if is_list else {}, place, event.anchor))

    def _scalar(self, event: ScalarEvent) -> None:
        if not self._at_key():
            size = 1 + len(event.value)
            self._add(event, self._value_of(event), size, 0, event.anchor)
            return
        branch = self._stack[-1]
        key = self._value_of(event)
        if not isinstance(key, str):
            raise self._refuse(event, f"the key {event.value[:40]} is not text; put it in quotes")
        place = member(branch.place, key)
        if key in branch.value:
            first = self.lines[place]
            raise self._refuse(event, f"the key '{key[:80]}' stands on line {first} already")
        self.lines[place] = _line(event)
        branch.key = key
        branch.size += 1 + len(key)
        if event.anchor:
            self._anchors[event.anchor] = _Anchored(key, 1 + len(key), 0)

    def _alias(self, event: AliasEvent) -> None:
        anchored = self._anchors.get(str(event.anchor))
        if anchored is None:
            raise self._refuse(event, f"there is no complete '&{event.anchor}' before this alias")
        if self._at_key():
            raise self._refuse(event, "a key cannot be an alias")
        if len(self._stack) + anchored.height > MAX_DEPTH:
            raise self._refuse(event, f"nested deeper than {MAX_DEPTH}")
        self._add(event, anchored.value, anchored.size, anchored.height, None)

    def _add(self, event: Event, value: Json, size: int, height: int, anchor: str | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = _Anchored(value, size, height)
        if not self._stack:
            self.result, self.done = value, True
            return
        branch = self._stack[-1]
        if isinstance(branch.value, list):
            branch.value.append(value)
        elif branch.key is not None:
            branch.value[branch.key] = value
            branch.key = None
        branch.size += size
        branch.height = max(branch.height, height + 1)
        if branch.size > MAX_WRITTEN_OUT:
            raise self._refuse(event, "aliases make this too large once they are written out")

    def _at_key(self) -> bool:
        return (
            bool(self._stack)
            and isinstance(self._stack[-1].value, dict)
            and self._stack[-1].key is None
        )

    def _here(self) -> str:
        if not self._stack:
            return ""
        branch = self._stack[-1]
        if isinstance(branch.value, list):
            return f"{branch.place}[{len(branch.value)}]"
        return member(branch.place, branch.key or "")

    def _value_of(self, event: ScalarEvent) -> Json:
        if event.tag in ("!", f"{_CORE}str") or (event.tag is None and not event.implicit[0]):
            return str(event.value)
        value = _resolve(event.value)
        if event.tag in (None, f"{_CORE}{_kind(value)}"):
            return value
        raise self._refuse(event, f"tag {event.tag} is not supported here")

    def _refuse(self, event: Event, message: str) -> InvalidDefinition:
        return fault(_where(event.start_mark), message)


def _resolve(text: str) -> Json:
    """The value of a plain scalar in YAML 1.2's core schema."""
    if _NULL.fullmatch(text):
        return None
    if _BOOL.fullmatch(text):
        return text[0] in "tT"
    if _INT.fullmatch(text):
        return int(text)
    if _OCTAL_OR_HEX.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _NOT_FINITE.fullmatch(text):
        return float(text.replace(".", "", 1))
    return text


def _kind(value: Json) -> str:
    return {type(None): "null", bool: "bool", int: "int", float: "float"}.get(type(value), "str")


def _line(event: Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


def _where(mark: _Mark | None) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}" if mark else "document"
