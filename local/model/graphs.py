"""The small workflows that are checked, and how their bodies end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from piton.domain.canonical import Json
from piton.domain.compile import MAX_IN_DEGREE, Need, NodeSpec, PoolLimits, compile_graph
from piton.domain.frontier import ConditionFault
from piton.domain.graph import Graph
from piton.domain.retry import RetryPolicy
from piton.domain.status import EdgeOn

MAX_ATTEMPTS: Final = 2
RESULT: Final[dict[str, Json]] = {"yes": True}
FAILURE: Final = "REFUSED_BY_TASK"

_POOLS: Final = {"default": PoolLimits(900)}


@dataclass(frozen=True)
class Small:
    """A workflow of a few nodes. Bodies of `failing` nodes raise `Permanent`, all others return."""

    name: str
    needs: Mapping[str, tuple[Need, ...]]
    failing: frozenset[str] = field(default_factory=frozenset)
    max_in_degree: int = MAX_IN_DEGREE

    @cached_property
    def specs(self) -> tuple[NodeSpec, ...]:
        """The nodes as their author wrote them."""
        retry = RetryPolicy(MAX_ATTEMPTS, 0, 0)
        return tuple(
            NodeSpec(node_id, task=node_id, timeout_s=60, retry=retry, needs=needs)
            for node_id, needs in self.needs.items()
        )

    @cached_property
    def graph(self) -> Graph:
        """The compiled graph."""
        return compile_graph(
            "small",
            self.specs,
            pools=_POOLS,
            check_condition=lambda _: None,
            max_in_degree=self.max_in_degree,
        )


def condition(when: str, document: Json) -> bool:
    """Evaluate `yes` or `no` over the one result that bodies return."""
    if not isinstance(document, dict):
        raise ConditionFault("not a result")
    return bool(document.get("yes")) is (when == "yes")


ONE: Final = Small("one node", {"a": ()})
CHAIN: Final = Small("chain of 2", {"a": (), "b": (Need("a"),)})
DIAMOND: Final = Small(
    "conditional diamond",
    {
        "a": (),
        "b": (Need("a", when="yes"),),
        "c": (Need("a", when="no"),),
        "d": (Need("b"), Need("c")),
    },
)
JOIN: Final = Small(
    "join with one failing",
    {"a": (), "b": (), "c": (Need("a"), Need("b", EdgeOn.FAILURE))},
    frozenset({"b"}),
)
FATAL_JOIN: Final = Small(
    "join with one failing for good",
    {"a": (), "b": (), "c": (Need("a"), Need("b"))},
    frozenset({"b"}),
)
SMALL: Final = (CHAIN, DIAMOND, JOIN, FATAL_JOIN)
"""Explored with all services."""

TWO_SINKS: Final = Small("two sinks", {"a": (), "b": ()})


def _gated(name: str, when: str) -> Small:
    middle = {node: (Need("a", when=when),) for node in ("b", "c", "d")}
    joined = tuple(Need(node) for node in middle)
    return Small(name, {"a": (), **middle, "e": joined}, max_in_degree=2)


GATED: Final = _gated("join behind gates", "yes")
GATED_SKIPPED: Final = _gated("join behind gates, skipped", "no")
