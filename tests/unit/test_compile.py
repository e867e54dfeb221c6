"""From a definition to a compiled graph: end gate, wide joins, refusals with their place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piton.domain import canonical
from piton.domain.compile import (
    MAX_EDGES,
    MAX_IN_DEGREE,
    MAX_NODES,
    Need,
    NodeSpec,
    PoolLimits,
    compile_graph,
)
from piton.domain.errors import InvalidDefinition
from piton.domain.graph import END_ID, Edge, Graph, NodeKind, topological_order
from piton.domain.retry import RetryPolicy
from piton.domain.status import EdgeOn

ARN = "arn:aws:lambda:eu-west-1:123456789012:function:check"
POOLS = {
    "default": PoolLimits(60),
    "large": PoolLimits(900, frozenset({ARN})),
}


def check_condition(text: str) -> str | None:
    return "does not compile" if text == "broken[" else None


def compiled(
    specs: Sequence[NodeSpec], *, workflow_id: str = "w", max_in_degree: int = MAX_IN_DEGREE
) -> Graph:
    return compile_graph(
        workflow_id,
        specs,
        pools=POOLS,
        check_condition=check_condition,
        max_in_degree=max_in_degree,
    )


def task(node_id: str, *needs: str | Need) -> NodeSpec:
    return NodeSpec(
        node_id, task="t", needs=tuple(n if isinstance(n, Need) else Need(n) for n in needs)
    )


def refusal(specs: Sequence[NodeSpec], *, workflow_id: str = "w") -> list[str]:
    with pytest.raises(InvalidDefinition) as caught:
        compiled(specs, workflow_id=workflow_id)
    return [str(problem) for problem in caught.value.problems]


def fan(width: int) -> list[NodeSpec]:
    """A root, `width` nodes behind it, and a join of them all."""
    return [
        task("root"),
        *(task(f"n{i}", "root") for i in range(width)),
        task("join", *(f"n{i}" for i in range(width))),
    ]


def leaves(graph: Graph, ordinal: int) -> Counter[int]:
    """User nodes that lead into `ordinal`, through any number of gates."""
    found: Counter[int] = Counter()
    for source in graph.predecessors[ordinal]:
        if graph.nodes[source].is_gate:
            found += leaves(graph, source)
        else:
            found[source] += 1
    return found


# --- The end gate --------------------------------------------------------------------------


def test_the_end_gate_is_the_last_node_behind_every_sink() -> None:
    graph = compiled([task("a"), task("b", "a"), task("c", "a"), task("d", "b")])
    end = graph.nodes[graph.end]
    assert (end.id, end.kind, end.ordinal) == (END_ID, NodeKind.END, 4)
    assert graph.predecessors[graph.end] == (2, 3)
    assert all(edge.on is EdgeOn.SUCCESS for edge in graph.edges if edge.target == graph.end)
    assert graph.sinks == (2, 3)
    assert graph.roots == (0,)
    assert [node.id for node in graph.user_nodes] == ["a", "b", "c", "d"]


def test_ordinals_are_the_order_of_the_definition() -> None:
    graph = compiled([task("z", "a"), task("a")])
    assert [(node.ordinal, node.id) for node in graph.nodes] == [(0, "z"), (1, "a"), (2, END_ID)]


def test_a_node_with_only_a_failure_edge_is_no_sink() -> None:
    graph = compiled([task("a"), task("rescue", Need("a", EdgeOn.FAILURE))])
    assert graph.sinks == (1,)


def test_wide_sinks_reach_the_end_through_gates() -> None:
    width = MAX_IN_DEGREE + 1
    graph = compiled([task(f"n{i}") for i in range(width)])
    gates = graph.predecessors[graph.end]
    assert [graph.nodes[i].kind for i in gates] == [NodeKind.GATE] * 2
    assert leaves(graph, graph.end) == Counter(range(width))
    assert graph.sinks == tuple(range(width))


# --- Wide joins ----------------------------------------------------------------------------


def test_a_join_at_the_limit_needs_no_gate() -> None:
    graph = compiled(fan(MAX_IN_DEGREE))
    assert Counter(node.kind for node in graph.nodes)[NodeKind.GATE] == 0
    assert graph.in_degree(MAX_IN_DEGREE + 1) == MAX_IN_DEGREE


def test_a_join_beyond_the_limit_is_spread_evenly() -> None:
    width = 2 * MAX_IN_DEGREE + 1
    graph = compiled(fan(width))
    join = width + 1
    gates = graph.predecessors[join]
    assert [graph.in_degree(gate) for gate in gates] == [171, 171, 171]
    assert leaves(graph, join) == Counter(range(1, width + 1))
    assert all(edge.on is EdgeOn.SUCCESS for edge in graph.edges if edge.source in gates)
    assert len({node.id for node in graph.nodes}) == len(graph.nodes)


def test_gates_of_gates_where_one_level_is_not_enough() -> None:
    graph = compiled(fan(20), max_in_degree=3)
    join = 21
    assert leaves(graph, join) == Counter(range(1, 21))
    assert all(graph.in_degree(node.ordinal) <= 3 for node in graph.nodes)
    depth = 0
    level = set(graph.predecessors[join])
    while all(graph.nodes[i].is_gate for i in level):
        depth += 1
        level = {source for gate in level for source in graph.predecessors[gate]}
    assert depth == 2
    assert len({node.id for node in graph.nodes}) == len(graph.nodes)


def test_parallel_edges_stay_under_one_gate() -> None:
    needs = [Need(f"n{i}", on) for on in (EdgeOn.SUCCESS, EdgeOn.FAILURE) for i in range(5)]
    specs = [*(task(f"n{i}") for i in range(5)), task("join", *needs)]
    graph = compiled(specs, max_in_degree=2)
    assert leaves(graph, 5) == Counter(range(5))
    for source in range(5):
        assert len({edge.target for edge in graph.out_edges[source]}) == 1
        assert {edge.on for edge in graph.out_edges[source]} == {EdgeOn.SUCCESS, EdgeOn.FAILURE}


def test_parallel_edges_count_as_one_predecessor_and_a_repeated_need_as_one_edge() -> None:
    when = Need("a", EdgeOn.SUCCESS, "x > `1`")
    graph = compiled([task("a"), task("b", "a", when, "a", Need("a", EdgeOn.FAILURE))])
    assert graph.in_degree(1) == 1
    assert graph.out_edges[0] == (
        Edge(0, 1),
        Edge(0, 1, EdgeOn.SUCCESS, "x > `1`"),
        Edge(0, 1, EdgeOn.FAILURE),
    )


@pytest.mark.parametrize("chain", [False, True], ids=["join", "chain"])
def test_ten_thousand_nodes_compile(chain: bool) -> None:  # noqa: FBT001
    specs = fan(MAX_NODES - 2)
    if chain:
        specs = [task("n0"), *(task(f"n{i}", f"n{i - 1}") for i in range(1, MAX_NODES))]
    graph = compiled(specs)
    assert len(graph.user_nodes) == MAX_NODES
    assert max(map(len, graph.predecessors)) <= MAX_IN_DEGREE
    assert graph.sinks == (MAX_NODES - 1,)
    assert len(topological_order(graph.predecessors)) == len(graph.nodes)


# --- Refusals ------------------------------------------------------------------------------


def test_every_fault_is_reported_with_its_place() -> None:
    specs = [
        task("a b"),
        task("ok", "gone", Need("ok2", when="broken[")),
        task("ok2"),
        task("ok2"),
        NodeSpec("both", task="t", lambda_arn=ARN),
        NodeSpec("neither"),
        NodeSpec("lost", task="t", pool="none"),
        NodeSpec("slow", task="t", timeout_s=61),
        NodeSpec("foreign", lambda_arn=ARN),
    ]
    assert refusal(specs, workflow_id="") == [
        "id: must match [A-Za-z0-9_.-]{1,128}",
        "nodes[0].id: must match [A-Za-z0-9_.-]{1,128}",
        "nodes[3].id: 'ok2' is also the id of nodes[2]",
        "nodes[1].needs[0]: no node 'gone'",
        "nodes[1].needs[1].when: does not compile",
        "nodes[4]: give exactly one of 'task' and 'lambda'",
        "nodes[4].lambda: not in the allow-list of pool 'default'",
        "nodes[5]: give exactly one of 'task' and 'lambda'",
        "nodes[6].pool: no pool 'none'; there is default, large",
        "nodes[7].timeout_s: 61 s does not fit pool 'default' (at most 60 s)",
        "nodes[8].lambda: not in the allow-list of pool 'default'",
    ]


@pytest.mark.parametrize("node_id", ["", "a" * 129, "a/b", "$end", "ä", "a\n", "NODE#1"])
def test_ids_outside_the_pattern_are_refused(node_id: str) -> None:
    assert refusal([task(node_id)]) == ["nodes[0].id: must match [A-Za-z0-9_.-]{1,128}"]


def test_an_empty_workflow_is_refused() -> None:
    assert refusal([]) == ["nodes: a workflow needs at least one node"]


def test_too_many_nodes_are_refused() -> None:
    specs = [task(f"n{i}") for i in range(MAX_NODES + 1)]
    assert refusal(specs) == [f"nodes: {MAX_NODES + 1} nodes; at most {MAX_NODES} are allowed"]


def test_too_many_edges_are_refused() -> None:
    sources = [f"n{i}" for i in range(1000)]
    specs = [*map(task, sources), *(task(f"t{i}", *sources) for i in range(251))]
    assert refusal(specs) == [f"nodes: 251000 needs; at most {MAX_EDGES} are allowed"]


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        ([task("a", "a")], "nodes[0].needs: cycle: a -> a"),
        ([task("a", "b"), task("b", "a")], "nodes[1].needs: cycle: b -> a -> b"),
        (
            [task("root"), task("a", "root", "c"), task("b", "a"), task("c", "b"), task("d", "c")],
            "nodes[2].needs: cycle: b -> c -> a -> b",
        ),
    ],
    ids=["self", "pair", "inside"],
)
def test_a_cycle_is_refused_and_shown(specs: list[NodeSpec], expected: str) -> None:
    assert refusal(specs) == [expected]


def test_a_cycle_of_ten_thousand_nodes_is_refused() -> None:
    specs = [task(f"n{i}", f"n{i - 1 if i else MAX_NODES - 1}") for i in range(MAX_NODES)]
    [problem] = refusal(specs)
    assert "cycle: " in problem
    assert len(problem) < 200


def test_a_long_list_of_problems_is_cut() -> None:
    with pytest.raises(InvalidDefinition) as caught:
        compiled([task("bad id") for _ in range(50)])
    assert len(caught.value.problems) == 50
    assert caught.value.message.endswith("and 30 more")


# --- The stored form -----------------------------------------------------------------------


def full_graph() -> Graph:
    specs = [
        NodeSpec("a", task="invoices.read", params={"depth": 2.0, "tags": ["x", None]}),
        NodeSpec(
            "b",
            lambda_arn=ARN,
            pool="large",
            timeout_s=20,
            retry=RetryPolicy(5, 1, 30),
            needs=(Need("a", EdgeOn.ALWAYS, "total > `10`"), Need("a", EdgeOn.FAILURE)),
        ),
    ]
    return compile_graph("w", specs, pools=POOLS, check_condition=check_condition, timeout_s=3600)


def test_the_stored_form_reads_back_to_the_same_graph_and_the_same_text() -> None:
    graph = full_graph()
    text = canonical.dumps(graph.to_json())
    again = Graph.from_json(canonical.loads(text))
    assert again == graph
    assert canonical.dumps(again.to_json()) == text
    assert again.nodes[1].retry == RetryPolicy(5, 1.0, 30.0)


@pytest.mark.parametrize(
    "document",
    [
        None,
        {"workflow_id": "w"},
        {"workflow_id": "w", "timeout_s": "1", "nodes": [], "edges": []},
        {"workflow_id": "w", "timeout_s": None, "nodes": [{}], "edges": []},
        {"workflow_id": "w", "timeout_s": None, "nodes": [], "edges": [[0, 1, "maybe", None]]},
        {"workflow_id": "w", "timeout_s": None, "nodes": [], "edges": [[0, 1]]},
        {
            "workflow_id": "w",
            "timeout_s": None,
            "nodes": [{"id": "a", "kind": "task", "retry": [1]}],
            "edges": [],
        },
        {
            "workflow_id": "w",
            "timeout_s": None,
            "nodes": [{"id": "a", "kind": "task", "params": []}],
            "edges": [],
        },
    ],
    ids=repr,
)
def test_another_document_is_no_graph(document: canonical.Json) -> None:
    with pytest.raises(ValueError, match=r"compiled|expected|params|maybe"):
        Graph.from_json(document)


# --- Any definition ------------------------------------------------------------------------


@st.composite
def definitions(draw: st.DrawFn) -> list[NodeSpec]:
    size = draw(st.integers(1, 25))
    specs = []
    for i in range(size):
        sources = draw(st.lists(st.integers(0, i - 1), max_size=12)) if i else []
        needs = [Need(f"n{source}", draw(st.sampled_from(EdgeOn))) for source in sources]
        specs.append(task(f"n{i}", *needs))
    return specs


@given(definitions(), st.integers(2, 4))
def test_gates_change_no_dependency_and_bound_every_join(specs: list[NodeSpec], limit: int) -> None:
    graph = compiled(specs, max_in_degree=limit)
    for ordinal, spec in enumerate(specs):
        wanted = {int(need.node.removeprefix("n")) for need in spec.needs}
        assert leaves(graph, ordinal) == Counter(wanted)
    assert leaves(graph, graph.end) == Counter(graph.sinks)
    assert all(graph.in_degree(node.ordinal) <= limit for node in graph.nodes)
    assert len(topological_order(graph.predecessors)) == len(graph.nodes)
    assert Graph.from_json(canonical.loads(canonical.dumps(graph.to_json()))) == graph
