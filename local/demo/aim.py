"""Where a fault tells most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from local.demo.ledger import NodeRecord

_SHORTEST_BODY_S: Final = 1.0
_INTO_BODY_S: Final = 0.3
_BEFORE_END_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Graph:
    """Who comes after whom."""

    children: Mapping[str, tuple[str, ...]]
    in_degree: Mapping[str, int]

    @classmethod
    def of(cls, nodes: Sequence[NodeRecord]) -> Graph:
        """Read the graph off the nodes of an execution."""
        children: dict[str, tuple[str, ...]] = {node.id: () for node in nodes}
        for node in nodes:
            for parent in node.needs:
                children[parent] += (node.id,)
        return cls(children, {node.id: len(node.needs) for node in nodes})

    def successors(self, node_id: str) -> tuple[str, ...]:
        """Nodes that wait for this one; none for one that is not of this graph."""
        return self.children.get(node_id, ())

    def rank(self, node_id: str) -> int | None:
        """How much the loss of this node's completion shows: 0 is most, None is nothing.

        It shows most where a successor waits for nobody else.
        """
        children = self.successors(node_id)
        if not children:
            return None
        return 0 if any(self.in_degree[child] == 1 for child in children) else 1


def is_in_the_middle(takes_s: float, age_s: float) -> bool:
    """Whether a body that takes `takes_s` is neither just beginning nor about to end."""
    return takes_s >= _SHORTEST_BODY_S and _INTO_BODY_S <= age_s <= takes_s - _BEFORE_END_S
