"""The whole check: which systems are explored, within which bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from local.model.explore import Exploration, Explored
from local.model.graphs import CHAIN, DIAMOND, FATAL_JOIN, JOIN, Small
from local.model.rows import RowTable
from local.model.space import Space
from local.model.system import Bounds, System


@dataclass(frozen=True, slots=True)
class Exercise:
    """One exploration."""

    small: Small
    bounds: Bounds

    def run(self) -> Explored:
        """Explore it to the end, or to the first violation."""
        return Exploration(System(Space(self.small, RowTable({})), self.bounds)).run()


EXERCISES: Final = tuple(Exercise(small, Bounds()) for small in (CHAIN, DIAMOND, JOIN, FATAL_JOIN))
