"""From the text of a document to plain data, safely: JSON, or YAML by the rules of YAML 1.2."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from piton.domain import canonical
from piton.domain.canonical import Json, NotJson
from piton.domain.errors import InvalidDefinition, Problem
from piton.services.yaml_reader import MAX_BYTES, MAX_DEPTH, fault, member, read_yaml


@dataclass(frozen=True)
class Document:
    """Parsed data. `lines` gives the line, from 1, of places in a YAML text."""

    value: Json
    lines: dict[str, int] = field(default_factory=dict)

    def locate(self, problem: Problem) -> Problem:
        """Add the line of the problem's place, or of the closest place around it."""
        place = problem.place
        while place and place not in self.lines:
            place = place[: max(place.rfind("."), place.rfind("["), 0)]
        if not place:
            return problem
        return Problem(f"{problem.place} (line {self.lines[place]})", problem.message)


def read(text: str) -> Document:
    """Parse `text`: JSON when it begins with `{`, else YAML.

    Raises `InvalidDefinition` on anything but one document of JSON data within the limits.
    """
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise fault("document", "text with a lone surrogate") from error
    if size > MAX_BYTES:
        raise fault("document", f"{size} bytes; at most {MAX_BYTES} are allowed")
    is_json = text.lstrip("\ufeff \t\r\n").startswith("{")
    document = _read_json(text.lstrip("\ufeff")) if is_json else Document(*read_yaml(text))
    try:
        canonical.to_json(document.value)
    except NotJson as error:
        place, _, message = str(error).partition(": ")
        problem = Problem(place.removeprefix("$").removeprefix(".") or "document", message)
        raise InvalidDefinition([document.locate(problem)]) from error
    return document


class _Members(list[tuple[str, object]]):
    """An object as the parser met it, equal keys included."""


def _read_json(text: str) -> Document:
    def refuse(constant: str) -> Json:
        raise NotJson(constant)

    try:
        raw: object = json.loads(text, object_pairs_hook=_Members, parse_constant=refuse)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise fault(where, f"not JSON: {error.msg}") from error
    except NotJson as error:
        raise fault("document", f"{error} is not JSON") from error
    except RecursionError as error:
        raise fault("document", f"nested deeper than {MAX_DEPTH}") from error
    except ValueError as error:  # digits beyond the interpreter's limit
        raise fault("document", "a number has too many digits") from error
    return Document(_plain(raw, "", 0))


def _plain(raw: object, place: str, depth: int) -> Json:
    if isinstance(raw, list) and depth >= MAX_DEPTH:
        raise fault(place, f"nested deeper than {MAX_DEPTH}")
    if isinstance(raw, _Members):
        value: dict[str, Json] = {}
        for key, content in raw:
            inner = member(place, key)
            if key in value:
                raise fault(inner, "this key appears twice")
            value[key] = _plain(content, inner, depth + 1)
        return value
    if isinstance(raw, list):
        return [_plain(item, f"{place}[{i}]", depth + 1) for i, item in enumerate(raw)]
    return raw  # type: ignore[return-value]
