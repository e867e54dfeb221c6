"""From a workflow definition to a compiled graph.

Adds the end gate behind all sinks and splits every join that is wider than `MAX_IN_DEGREE` into
a tree of gates, so that the cost of a node does not grow with the width of the graph.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from piton.domain.canonical import Json
from piton.domain.errors import InvalidDefinition, Problem
from piton.domain.graph import DEFAULT_POOL, END_ID, Edge, Graph, Node, NodeKind, topological_order
from piton.domain.retry import RetryPolicy
from piton.domain.status import EdgeOn

MAX_IN_DEGREE: Final = 256
MAX_NODES: Final = 10_000
MAX_EDGES: Final = 250_000
"""Keeps the gates of wide joins so few that every ordinal has five digits."""
ID_PATTERN: Final = r"[A-Za-z0-9_.-]{1,128}"
_ID: Final = re.compile(ID_PATTERN)


@dataclass(frozen=True, slots=True)
class Need:
    """An incoming edge as its author wrote it."""

    node: str
    on: EdgeOn = EdgeOn.SUCCESS
    when: str | None = None


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node as its author wrote it. Exactly one of `task` and `lambda_arn` is set."""

    id: str
    task: str | None = None
    lambda_arn: str | None = None
    pool: str = DEFAULT_POOL
    timeout_s: float | None = None
    retry: RetryPolicy | None = None
    params: Mapping[str, Json] = field(default_factory=dict)
    needs: tuple[Need, ...] = ()


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """What a pool offers: the longest node timeout in seconds and the Lambda ARNs it may call."""

    max_timeout_s: float
    allowed_lambdas: frozenset[str] = frozenset()


Pools = Mapping[str, PoolLimits]
CheckCondition = Callable[[str], str | None]
"""Compiles a condition; returns what is wrong with it, or None."""


def compile_graph(
    workflow_id: str,
    specs: Sequence[NodeSpec],
    *,
    pools: Pools,
    check_condition: CheckCondition,
    timeout_s: float | None = None,
    max_in_degree: int = MAX_IN_DEGREE,
) -> Graph:
    """Compile a definition. Raises `InvalidDefinition` naming every faulty place.

    Joins of more than `max_in_degree` (at least 2) sources get gates.
    """
    problems = list(_problems(workflow_id, specs, pools, check_condition))
    if problems:
        raise InvalidDefinition(problems)
    ordinals = {spec.id: i for i, spec in enumerate(specs)}
    builder = _Builder([_node(i, spec) for i, spec in enumerate(specs)], max_in_degree)
    for target, spec in enumerate(specs):
        incoming = [
            Edge(ordinals[need.node], target, need.on, need.when)
            for need in dict.fromkeys(spec.needs)
        ]
        builder.join(target, incoming)
    sources = {edge.source for edge in builder.edges}
    sinks = [i for i in range(len(specs)) if i not in sources]
    builder.close(sinks)
    return Graph(workflow_id, tuple(builder.nodes), tuple(builder.edges), timeout_s)


class _Builder:
    """Collects nodes and edges and spreads wide joins over gates."""

    def __init__(self, nodes: list[Node], max_in_degree: int) -> None:
        self.nodes = nodes
        self.edges: list[Edge] = []
        self._max_in_degree = max_in_degree

    def join(self, target: int, incoming: list[Edge]) -> None:
        """Lead `incoming` into `target`, through gates where there are too many sources."""
        self.edges.extend(self._narrow(self.nodes[target].id, incoming, target))

    def close(self, sinks: Sequence[int]) -> None:
        """Append the end gate behind `sinks`; its ordinal is the highest of all."""
        narrowed = self._narrow(END_ID, [Edge(sink, -1) for sink in sinks], -1)
        end = len(self.nodes)
        self.nodes.append(Node(end, END_ID, NodeKind.END))
        self.edges.extend(Edge(e.source, end, e.on, e.when) for e in narrowed)

    def _narrow(self, label: str, incoming: list[Edge], target: int) -> list[Edge]:
        level = 0
        while True:
            by_source: dict[int, list[Edge]] = {}
            for edge in incoming:
                by_source.setdefault(edge.source, []).append(edge)
            if len(by_source) <= self._max_in_degree:
                return [Edge(e.source, target, e.on, e.when) for e in incoming]
            chunks = _even_chunks(list(by_source.values()), self._max_in_degree)
            incoming = [
                Edge(self._gate(f"$gate:{label}:{level}.{i}", chunk), target)
                for i, chunk in enumerate(chunks)
            ]
            level += 1

    def _gate(self, gate_id: str, chunk: Iterable[list[Edge]]) -> int:
        ordinal = len(self.nodes)
        self.nodes.append(Node(ordinal, gate_id, NodeKind.GATE))
        self.edges.extend(Edge(e.source, ordinal, e.on, e.when) for edges in chunk for e in edges)
        return ordinal


def _even_chunks(groups: list[list[Edge]], largest: int) -> list[list[list[Edge]]]:
    count = -(-len(groups) // largest)
    size, larger = divmod(len(groups), count)
    chunks: list[list[list[Edge]]] = []
    start = 0
    for i in range(count):
        stop = start + size + (1 if i < larger else 0)
        chunks.append(groups[start:stop])
        start = stop
    return chunks


def _node(ordinal: int, spec: NodeSpec) -> Node:
    return Node(
        ordinal=ordinal,
        id=spec.id,
        kind=NodeKind.LAMBDA if spec.lambda_arn else NodeKind.TASK,
        action=spec.lambda_arn or spec.task or "",
        pool=spec.pool,
        timeout_s=spec.timeout_s,
        retry=spec.retry,
        params=spec.params,
    )


def _problems(
    workflow_id: str, specs: Sequence[NodeSpec], pools: Pools, check_condition: CheckCondition
) -> Iterable[Problem]:
    if not _ID.fullmatch(workflow_id):
        yield Problem("id", f"must match {ID_PATTERN}")
    if not specs:
        yield Problem("nodes", "a workflow needs at least one node")
    if len(specs) > MAX_NODES:
        yield Problem("nodes", f"{len(specs)} nodes; at most {MAX_NODES} are allowed")
    edges = sum(len(spec.needs) for spec in specs)
    if edges > MAX_EDGES:
        yield Problem("nodes", f"{edges} needs; at most {MAX_EDGES} are allowed")
    first: dict[str, int] = {}
    for i, spec in enumerate(specs):
        if not _ID.fullmatch(spec.id):
            yield Problem(f"nodes[{i}].id", f"must match {ID_PATTERN}")
        elif spec.id in first:
            yield Problem(
                f"nodes[{i}].id", f"'{spec.id}' is also the id of nodes[{first[spec.id]}]"
            )
        first.setdefault(spec.id, i)
    for i, spec in enumerate(specs):
        yield from _node_problems(f"nodes[{i}]", spec, first, pools, check_condition)
    yield from _cycle(specs, first)


def _node_problems(
    place: str,
    spec: NodeSpec,
    known: Mapping[str, int],
    pools: Pools,
    check_condition: CheckCondition,
) -> Iterable[Problem]:
    if (spec.task is None) == (spec.lambda_arn is None):
        yield Problem(place, "give exactly one of 'task' and 'lambda'")
    limits = pools.get(spec.pool)
    if limits is None:
        yield Problem(
            f"{place}.pool", f"no pool '{spec.pool}'; there is {', '.join(sorted(pools))}"
        )
    else:
        if spec.timeout_s is not None and spec.timeout_s > limits.max_timeout_s:
            yield Problem(
                f"{place}.timeout_s",
                f"{spec.timeout_s:g} s does not fit pool '{spec.pool}' "
                f"(at most {limits.max_timeout_s:g} s)",
            )
        if spec.lambda_arn is not None and spec.lambda_arn not in limits.allowed_lambdas:
            yield Problem(f"{place}.lambda", f"not in the allow-list of pool '{spec.pool}'")
    for j, need in enumerate(spec.needs):
        if need.node not in known:
            yield Problem(f"{place}.needs[{j}]", f"no node '{need.node[:128]}'")
        if need.when is not None and (fault := check_condition(need.when)) is not None:
            yield Problem(f"{place}.needs[{j}].when", fault)


def _cycle(specs: Sequence[NodeSpec], known: Mapping[str, int]) -> Iterable[Problem]:
    sources = [sorted({known[n.node] for n in spec.needs if n.node in known}) for spec in specs]
    ordered = set(topological_order(sources))
    if len(ordered) == len(specs):
        return
    # Walking backwards among the unordered nodes must close a loop.
    here = next(i for i in range(len(specs)) if i not in ordered)
    seen: dict[int, int] = {}
    while here not in seen:
        seen[here] = len(seen)
        here = next(s for s in sources[here] if s not in ordered)
    loop = list(seen)[seen[here] :][::-1]
    names = " -> ".join(specs[i].id for i in [*loop, loop[0]][:12])
    yield Problem(f"nodes[{loop[0]}].needs", f"cycle: {names}")
