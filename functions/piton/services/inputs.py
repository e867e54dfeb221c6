"""A node's inputs: a pure function of what is stored, whichever path dispatched it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy

from piton.domain.canonical import Json
from piton.domain.errors import Bug
from piton.domain.graph import Graph, Node
from piton.domain.rows import ExecutionRef, NodeRow
from piton.domain.status import NodeStatus
from piton.ports import Store
from piton.services.payloads import Payloads


class InputReader:
    """Collects `{"execution": ..., "nodes": {...}}` for a node about to run."""

    def __init__(self, store: Store, payloads: Payloads) -> None:
        self._store = store
        self._payloads = payloads

    def read(
        self, ref: ExecutionRef, graph: Graph, node: Node, on_read: Callable[[], None]
    ) -> dict[str, Json]:
        """Return the inputs of `node`: the results of its taken predecessors only.

        Gates pass through what they took. `on_read` is called after each result, because a wide
        join has thousands to fetch. Raises `PayloadMissing` when a stored result or the
        execution's input is gone, `Bug` when a taken predecessor has not ended.
        """
        results: dict[str, Json] = {}
        for row in self._taken(ref, graph, node):
            if row.status is NodeStatus.COMPLETED:
                results[graph.nodes[row.ordinal].id] = self._payloads.load_result(row)
                on_read()
        inputs: dict[str, Json] = {
            "execution": self._payloads.load_input(ref),
            "nodes": results,
        }
        if node.params:
            # A body may change what it is given, and the graph serves every execution.
            inputs["params"] = deepcopy(dict(node.params))
        return inputs

    def _taken(self, ref: ExecutionRef, graph: Graph, node: Node) -> list[NodeRow]:
        found: list[NodeRow] = []
        wanted = set(self._taken_sources(ref, graph, node))
        while wanted:
            rows = self._store.get_nodes(ref, sorted(wanted))
            if rows.keys() != wanted or not all(row.terminal for row in rows.values()):
                raise Bug(f"{ref.execution_id}: a taken predecessor of {node.id} has not ended")
            wanted = set()
            for ordinal, row in sorted(rows.items()):
                if graph.nodes[ordinal].is_gate:
                    wanted |= row.taken
                else:
                    found.append(row)
        return sorted(found, key=lambda row: row.ordinal)

    def _taken_sources(self, ref: ExecutionRef, graph: Graph, node: Node) -> Iterable[int]:
        sources = graph.predecessors[node.ordinal]
        if len(sources) <= 1:
            # A node with one predecessor is queued only if that edge was taken.
            return sources
        row = self._store.get_nodes(ref, [node.ordinal]).get(node.ordinal)
        if row is None:
            raise Bug(f"{ref.execution_id}: {node.id} runs without a row")
        return row.taken
