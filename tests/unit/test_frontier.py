"""Which edges are taken."""

from __future__ import annotations

from typing import Any

import pytest

from piton.domain.canonical import Json
from piton.domain.frontier import ConditionFault, EdgeOutcome, Fatal, Resolutions, evaluate_edges
from piton.domain.graph import Edge, Graph, Node, NodeKind
from piton.domain.rows import NodeRow
from piton.domain.status import EdgeOn, NodeStatus, Reason

RESULT: Json = {"total": 12}


def graph(*edges: Edge) -> Graph:
    nodes = tuple(Node(i, f"n{i}", NodeKind.TASK) for i in range(5))
    return Graph("w", nodes, edges)


def condition(text: str, document: Json) -> bool:
    """Compares the whole document with a text, which is enough to see what it is given."""
    if text == "fault":
        raise ConditionFault("does not fit")
    return str(document) == text


def evaluate(status: NodeStatus, *edges: Edge, reason: str | None = None) -> EdgeOutcome:
    row = NodeRow(0, status=status, reason=reason)
    return evaluate_edges(graph(*edges), row, lambda: RESULT, condition)


@pytest.mark.parametrize(
    ("status", "on", "taken"),
    [
        (NodeStatus.COMPLETED, EdgeOn.SUCCESS, True),
        (NodeStatus.COMPLETED, EdgeOn.FAILURE, False),
        (NodeStatus.COMPLETED, EdgeOn.ALWAYS, True),
        (NodeStatus.SKIPPED, EdgeOn.SUCCESS, False),
        (NodeStatus.SKIPPED, EdgeOn.FAILURE, False),
        (NodeStatus.SKIPPED, EdgeOn.ALWAYS, False),
    ],
)
def test_an_edge_is_taken_on_its_outcome(status: NodeStatus, on: EdgeOn, *, taken: bool) -> None:
    assert evaluate(status, Edge(0, 1, on)) == Resolutions({1: taken})


@pytest.mark.parametrize("on", [EdgeOn.FAILURE, EdgeOn.ALWAYS])
def test_a_failure_with_a_taken_edge_is_not_fatal(on: EdgeOn) -> None:
    outcome = evaluate(NodeStatus.FAILED, Edge(0, 1, on), Edge(0, 2))
    assert outcome == Resolutions({1: True, 2: False})


@pytest.mark.parametrize(
    "edges",
    [
        (),
        (Edge(0, 1),),
        (Edge(0, 1, EdgeOn.FAILURE, "never"), Edge(0, 2, EdgeOn.ALWAYS, "never")),
    ],
    ids=["sink", "success", "conditions"],
)
def test_a_failure_without_a_taken_edge_is_fatal(edges: tuple[Edge, ...]) -> None:
    assert evaluate(NodeStatus.FAILED, *edges, reason="X") == Fatal(Reason.NODE_FAILED)


def test_a_condition_sees_the_result_and_on_a_failure_the_reason() -> None:
    success = evaluate(NodeStatus.COMPLETED, Edge(0, 1, when=str(RESULT)), Edge(0, 2, when="no"))
    assert success == Resolutions({1: True, 2: False})
    failure = evaluate(
        NodeStatus.FAILED, Edge(0, 1, EdgeOn.FAILURE, "{'reason': 'X_Y'}"), reason="X_Y"
    )
    assert failure == Resolutions({1: True})


def test_parallel_edges_count_as_taken_if_one_is() -> None:
    edges = (Edge(0, 1, when="no"), Edge(0, 1, EdgeOn.ALWAYS), Edge(0, 1, EdgeOn.FAILURE))
    assert evaluate(NodeStatus.COMPLETED, *edges) == Resolutions({1: True})


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_fault_in_any_condition_resolves_no_edge(place: int) -> None:
    edges = [Edge(0, target) for target in (1, 2, 3)]
    edges[place] = Edge(0, place + 1, when="fault")
    outcome = evaluate(NodeStatus.COMPLETED, *edges)
    assert outcome == Fatal(Reason.EDGE_CONDITION_ERROR)


def test_a_condition_of_an_edge_that_is_not_meant_is_not_evaluated() -> None:
    edges = (Edge(0, 1, EdgeOn.FAILURE, "fault"), Edge(0, 2))
    assert evaluate(NodeStatus.COMPLETED, *edges) == Resolutions({1: False, 2: True})


def test_the_result_is_loaded_once_and_only_for_a_condition() -> None:
    loads: list[Any] = []

    def load() -> Json:
        loads.append(1)
        return RESULT

    row = NodeRow(0, status=NodeStatus.COMPLETED)
    evaluate_edges(graph(Edge(0, 1)), row, load, condition)
    assert len(loads) == 0
    conditional = graph(Edge(0, 1, when="a"), Edge(0, 2, when="b"))
    evaluate_edges(conditional, row, load, condition)
    assert len(loads) == 1
