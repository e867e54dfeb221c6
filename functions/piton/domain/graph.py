"""Compiled workflow graphs: ordinals, edges, gates.

A compiled graph is what an execution is pinned to. Registration compiles once and stores the
outcome, so a later change of the compiler never moves the ordinals of a running execution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Final

from piton.domain.canonical import Json
from piton.domain.retry import RetryPolicy
from piton.domain.status import EdgeOn

END_ID: Final = "$end"
DEFAULT_POOL: Final = "default"


class NodeKind(StrEnum):
    """What a node does when it is ready."""

    TASK = "task"
    LAMBDA = "lambda"
    GATE = "gate"
    END = "end"


@dataclass(frozen=True, slots=True)
class Edge:
    """A dependency between two ordinals. `when` is a JMESPath text over the source's result."""

    source: int
    target: int
    on: EdgeOn = EdgeOn.SUCCESS
    when: str | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """A compiled node.

    `action` is the task's name or the Lambda function's ARN, empty for gates. `timeout_s` and
    `retry` are None where the task's own declaration decides.
    """

    ordinal: int
    id: str
    kind: NodeKind
    action: str = ""
    pool: str = DEFAULT_POOL
    timeout_s: float | None = None
    retry: RetryPolicy | None = None
    params: Mapping[str, Json] = field(default_factory=dict)

    @property
    def is_gate(self) -> bool:
        """True for nodes without a body, the end gate included."""
        return self.kind in (NodeKind.GATE, NodeKind.END)


@dataclass(frozen=True)
class Graph:
    """A compiled, acyclic graph. `nodes[i].ordinal == i`; the last node is the end gate."""

    workflow_id: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    timeout_s: float | None = None

    @cached_property
    def out_edges(self) -> tuple[tuple[Edge, ...], ...]:
        """Edges by source ordinal."""
        return self._grouped(by_source=True)

    @cached_property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        """Distinct predecessors of each ordinal, ascending."""
        incoming = self._grouped(by_source=False)
        return tuple(tuple(sorted({edge.source for edge in edges})) for edges in incoming)

    @cached_property
    def roots(self) -> tuple[int, ...]:
        """Ordinals without predecessors."""
        return tuple(i for i, sources in enumerate(self.predecessors) if not sources)

    @cached_property
    def sinks(self) -> tuple[int, ...]:
        """Ordinals of user nodes whose every edge leads towards the end gate alone."""
        return tuple(
            node.ordinal
            for node in self.nodes
            if not node.is_gate and self._leads_only_to_end(node.ordinal)
        )

    @property
    def end(self) -> int:
        """Ordinal of the end gate."""
        return len(self.nodes) - 1

    def in_degree(self, ordinal: int) -> int:
        """Number of distinct predecessors."""
        return len(self.predecessors[ordinal])

    @property
    def user_nodes(self) -> tuple[Node, ...]:
        """Nodes as the author wrote them, without gates."""
        return tuple(node for node in self.nodes if not node.is_gate)

    def _grouped(self, *, by_source: bool) -> tuple[tuple[Edge, ...], ...]:
        groups: list[list[Edge]] = [[] for _ in self.nodes]
        for edge in self.edges:
            groups[edge.source if by_source else edge.target].append(edge)
        return tuple(tuple(group) for group in groups)

    def _leads_only_to_end(self, ordinal: int) -> bool:
        targets = [edge.target for edge in self.out_edges[ordinal]]
        return all(
            target == self.end
            or (self.nodes[target].kind is NodeKind.GATE and self._leads_only_to_end(target))
            for target in targets
        )

    def to_json(self) -> dict[str, Json]:
        """Return the stored form."""
        return {
            "workflow_id": self.workflow_id,
            "timeout_s": _stored_number(self.timeout_s),
            "nodes": [_node_to_json(node) for node in self.nodes],
            "edges": [[e.source, e.target, e.on.value, e.when] for e in self.edges],
        }

    @classmethod
    def from_json(cls, document: Json) -> Graph:
        """Read the stored form. Raises `ValueError` when it is not one."""
        if not isinstance(document, dict):
            raise ValueError("not a compiled graph")
        nodes, edges = document.get("nodes"), document.get("edges")
        if not isinstance(nodes, list) or not isinstance(edges, list):
            raise ValueError("a compiled graph has lists of nodes and edges")
        return cls(
            workflow_id=str(document["workflow_id"]),
            timeout_s=_optional_number(document.get("timeout_s")),
            nodes=tuple(_node_from_json(i, node) for i, node in enumerate(nodes)),
            edges=tuple(_edge_from_json(edge) for edge in edges),
        )


def _node_to_json(node: Node) -> Json:
    document: dict[str, Json] = {"id": node.id, "kind": node.kind.value}
    if node.action:
        document["action"] = node.action
    if node.pool != DEFAULT_POOL:
        document["pool"] = node.pool
    if node.timeout_s is not None:
        document["timeout_s"] = _stored_number(node.timeout_s)
    if node.retry is not None:
        retry = node.retry
        document["retry"] = [retry.max_attempts, float(retry.base_s), float(retry.cap_s)]
    if node.params:
        document["params"] = dict(node.params)
    return document


def _node_from_json(ordinal: int, document: Json) -> Node:
    if not isinstance(document, dict) or not document.keys() >= {"id", "kind"}:
        raise ValueError("not a compiled node")
    params = document.get("params", {})
    if not isinstance(params, dict):
        raise ValueError("params of a compiled node must be an object")
    return Node(
        ordinal=ordinal,
        id=str(document["id"]),
        kind=NodeKind(str(document["kind"])),
        action=str(document.get("action", "")),
        pool=str(document.get("pool", DEFAULT_POOL)),
        timeout_s=_optional_number(document.get("timeout_s")),
        retry=_retry_from_json(document.get("retry")),
        params=params,
    )


def _retry_from_json(document: Json) -> RetryPolicy | None:
    match document:
        case None:
            return None
        case [int(attempts), int() | float() as base, int() | float() as cap]:
            return RetryPolicy(attempts, float(base), float(cap))
        case _:
            raise ValueError("not a compiled retry policy")


def _edge_from_json(document: Json) -> Edge:
    match document:
        case [int(source), int(target), str(on), None | str() as when]:
            return Edge(source, target, EdgeOn(on), when)
        case _:
            raise ValueError("not a compiled edge")


def _stored_number(value: float | None) -> Json:
    # 20 and 20.0 are one timeout and must be one text.
    return None if value is None else float(value)


def _optional_number(value: Json) -> float | None:
    if value is None:
        return None
    if isinstance(value, int | float):
        return float(value)
    raise ValueError("expected a number")


def topological_order(predecessors: Sequence[Sequence[int]]) -> list[int]:
    """Return ordinals in dependency order; shorter than the input when there is a cycle."""
    followers: list[list[int]] = [[] for _ in predecessors]
    missing = [len(sources) for sources in predecessors]
    for target, sources in enumerate(predecessors):
        for source in sources:
            followers[source].append(target)
    order = [ordinal for ordinal, count in enumerate(missing) if count == 0]
    for ordinal in order:
        for target in followers[ordinal]:
            missing[target] -= 1
            if missing[target] == 0:
                order.append(target)
    return order
