"""The few edge conditions of random workflows, evaluated without the engine's help."""

from __future__ import annotations

import re
from typing import Final

from piton.domain.canonical import Json
from piton.domain.frontier import ConditionFault

_COMPARISON: Final = re.compile(r"v (>=|<) `(\d+)`")
_REASON: Final = re.compile(r"reason == '([A-Z_]+)'")


def evaluate(when: str, document: Json) -> bool:
    """Tell whether a condition holds. Raises `ConditionFault`, `ValueError` on an unknown one."""
    members = document if isinstance(document, dict) else {}
    if compared := _COMPARISON.fullmatch(when):
        value, limit = members.get("v"), int(compared[2])
        if not isinstance(value, int):
            return False
        return value >= limit if compared[1] == ">=" else value < limit
    if reason := _REASON.fullmatch(when):
        return members.get("reason") == reason[1]
    if when == "nothing":
        return False
    if when == "length(v)":
        raise ConditionFault("neither a number nor nothing has a length")
    raise ValueError(f"no condition of random workflows: {when}")
