"""Which edges are taken, and what becomes of the nodes behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from piton.domain.canonical import Json
from piton.domain.graph import Edge, Graph
from piton.domain.rows import NodeRow
from piton.domain.status import EdgeOn, NodeStatus, Reason

Condition = Callable[[str, Json], bool]
"""Evaluates a condition over a document. Raises `ConditionFault` when it cannot."""


class ConditionFault(Exception):
    """An edge condition cannot be evaluated over the actual result."""


@dataclass(frozen=True, slots=True)
class Resolutions:
    """What an ended node means for its successors: taken or declined, by target ordinal."""

    taken: Mapping[int, bool]


@dataclass(frozen=True, slots=True)
class Fatal:
    """An ended node that ends its execution. It resolves none of its edges."""

    reason: Reason


EdgeOutcome = Resolutions | Fatal


def evaluate_edges(
    graph: Graph, row: NodeRow, load_result: Callable[[], Json], condition: Condition
) -> EdgeOutcome:
    """Evaluate all out-edges of a terminal node, before any of them is resolved.

    `load_result` is called only when a condition needs the node's result. Several edges to one
    target count as taken if any of them is.
    """
    edges = graph.out_edges[row.ordinal]
    document = _document_source(row, load_result)
    taken: dict[int, bool] = {}
    try:
        for edge in edges:
            is_taken = _matches(row.status, edge) and (
                edge.when is None or condition(edge.when, document())
            )
            taken[edge.target] = taken.get(edge.target, False) or is_taken
    except ConditionFault:
        return Fatal(Reason.EDGE_CONDITION_ERROR)
    if row.status is NodeStatus.FAILED and not any(taken.values()):
        return Fatal(Reason.NODE_FAILED)
    return Resolutions(taken)


def _matches(status: NodeStatus, edge: Edge) -> bool:
    match status:
        case NodeStatus.COMPLETED:
            return edge.on in (EdgeOn.SUCCESS, EdgeOn.ALWAYS)
        case NodeStatus.FAILED:
            return edge.on in (EdgeOn.FAILURE, EdgeOn.ALWAYS)
        case _:
            return False


def _document_source(row: NodeRow, load_result: Callable[[], Json]) -> Callable[[], Json]:
    cache: list[Json] = []

    def document() -> Json:
        if not cache:
            failed = row.status is NodeStatus.FAILED
            cache.append({"reason": row.reason} if failed else load_result())
        return cache[0]

    return document
