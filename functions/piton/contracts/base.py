"""What all contracts share: strict models, common forms, and where a fault is."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from piton.domain.compile import ID_PATTERN
from piton.domain.errors import Problem
from piton.domain.settings import MAX_LIFE_MS

MAX_WORKFLOW_VERSION: Final = 999_999
NEED_FORMS: Final = frozenset({"id", "edge"})
"""Tags of the two forms of a need, which pydantic puts into the places of faults."""


class Strict(BaseModel):
    """Takes what it declares, in the declared type, and nothing else."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def matching(pattern: str) -> StringConstraints:
    """Constrain a text to `pattern` as a whole."""
    return StringConstraints(pattern=f"^{pattern}$")


Id = Annotated[str, matching(ID_PATTERN)]
Seconds = Annotated[float, Field(gt=0, le=MAX_LIFE_MS / 1000)]
Count = Annotated[int, Field(ge=0, lt=2**53)]


def problems_of(error: ValidationError) -> list[Problem]:
    """Return each fault with its place in the document, for example `nodes[3].needs[0].when`."""
    return [
        Problem(place_of(fault["loc"]), fault["msg"].removeprefix("Value error, "))
        for fault in error.errors(include_url=False, include_input=False, include_context=False)
    ]


def place_of(location: tuple[int | str, ...]) -> str:
    """Return the written form of a place; the whole document is `document`."""
    place = ""
    for before, step in zip(("", "", *location), location, strict=False):
        if isinstance(step, int):
            place += f"[{step}]"
        elif not (before == "needs" and step in NEED_FORMS):
            place += f".{step[:80]}" if place else step[:80]
    return place or "document"
