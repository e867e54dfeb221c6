"""Where a process can crash: before a call, or after it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from local.simulator.faults import Fault, Kind, Place
from local.simulator.host import Call


class Side(StrEnum):
    """On which side of the call the process dies."""

    BEFORE = "before"
    AFTER = "after"


_KINDS: Final = {Side.BEFORE: Kind.CRASH_BEFORE, Side.AFTER: Kind.CRASH_AFTER}
_WRITTEN: Final = re.compile(r"([1-9]\d*):(before|after)")


@dataclass(frozen=True, order=True, slots=True)
class Point:
    """A crash at call `number`, counted from 1 over all processes."""

    number: int
    side: Side

    @classmethod
    def parse(cls, text: str) -> Point:
        """Read `<number>:before` or `<number>:after`. Raises `ValueError`."""
        found = _WRITTEN.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is no crash point such as 17:after")
        return cls(int(found[1]), Side(found[2]))

    def __str__(self) -> str:
        return f"{self.number}:{self.side}"

    def fault(self) -> Fault:
        """The crash as the simulator takes it."""
        return Fault(_KINDS[self.side], Place.CALL, self.number)


def points_of(number: int) -> tuple[Point, Point]:
    """Both crash points of a call."""
    return Point(number, Side.BEFORE), Point(number, Side.AFTER)


def distinct_points(number: int, call: Call) -> tuple[Point, ...]:
    """The crash points of a call that differ in what they leave behind: a read leaves nothing."""
    before, after = points_of(number)
    return (before, after) if call.writes else (before,)
