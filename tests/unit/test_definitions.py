"""Workflow definitions: what is read, and that every complaint names its place."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from piton.adapters.conditions import check_condition
from piton.domain.compile import MAX_NODES, PoolLimits
from piton.domain.errors import InvalidDefinition
from piton.domain.graph import Graph, NodeKind
from piton.domain.retry import RetryPolicy
from piton.domain.status import EdgeOn
from piton.services import documents
from piton.services.definitions import Definition, parse_definition
from piton.services.documents import read
from piton.services.yaml_reader import MAX_BYTES, MAX_DEPTH

ARN = "arn:aws:lambda:us-east-1:000000000000:function:lookup"
POOLS = {"default": PoolLimits(900, frozenset({ARN})), "gpu": PoolLimits(60)}

WORKFLOW = """
id: invoices
description: Takes in an invoice
timeout_s: 3600
nodes:
  - id: extract
    task: invoices.extract
    timeout_s: 20
    retry: {max_attempts: 5, base_s: 0.5, cap_s: 10}
    params: {on: yes, at: 12:30, since: 2024-01-01, ratio: 1e-2, mode: 0o17, none: ~}
  - id: look-up
    lambda: arn:aws:lambda:us-east-1:000000000000:function:lookup
    needs: [extract]
  - id: post
    task: invoices.post
    needs:
      - node: look-up
        when: total > `0`
  - id: reject
    task: invoices.reject
    needs:
      - {node: look-up, on: failure}
      - {node: extract, on: always}
"""


def parse(text: str) -> Definition:
    return parse_definition(text, pools=POOLS, check_condition=check_condition)


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidDefinition) as caught:
        parse(text)
    return [str(problem) for problem in caught.value.problems]


def problem(text: str) -> str:
    (only,) = problems(text)
    return only


def with_node(**node: Any) -> str:
    return json.dumps({"id": "w", "nodes": [{"id": "a", "task": "t"}, {"id": "b", **node}]})


def test_yaml_becomes_a_graph() -> None:
    graph = parse(WORKFLOW).graph
    assert (graph.workflow_id, graph.timeout_s) == ("invoices", 3600)
    extract, look_up, _, _, end = graph.nodes
    assert (extract.kind, extract.action, extract.timeout_s) == (
        NodeKind.TASK,
        "invoices.extract",
        20,
    )
    assert extract.retry == RetryPolicy(5, 0.5, 10)
    assert (look_up.kind, look_up.action) == (NodeKind.LAMBDA, ARN)
    assert end.kind is NodeKind.END
    edges = {(edge.source, edge.target, edge.on, edge.when) for edge in graph.edges}
    assert {
        (0, 1, EdgeOn.SUCCESS, None),
        (1, 2, EdgeOn.SUCCESS, "total > `0`"),
        (1, 3, EdgeOn.FAILURE, None),
        (0, 3, EdgeOn.ALWAYS, None),
    } <= edges


def test_scalars_follow_yaml_1_2() -> None:
    assert parse(WORKFLOW).graph.nodes[0].params == {
        "on": "yes",
        "at": "12:30",
        "since": "2024-01-01",
        "ratio": 0.01,
        "mode": 15,
        "none": None,
    }


def test_the_authors_document_is_kept_and_compiles_to_the_same_graph() -> None:
    definition = parse(WORKFLOW)
    assert json.loads(definition.text) == read(WORKFLOW).value
    assert parse(definition.text) == definition


def test_json_and_yaml_of_one_document_are_the_same_definition() -> None:
    assert parse(json.dumps(read(WORKFLOW).value, indent=1)) == parse(WORKFLOW)


@pytest.mark.parametrize(
    ("node", "complaint"),
    [
        ({"task": "t", "needs": ["c"]}, "nodes[1].needs[0]: no node 'c'"),
        ({"task": "t", "needs": [7]}, "nodes[1].needs[0]: "),
        ({"task": "t", "needs": ["c d"]}, "nodes[1].needs[0]: String should match pattern"),
        (
            {"task": "t", "needs": [{"node": "a", "when": "a.["}]},
            "nodes[1].needs[0].when: not JMESPath",
        ),
        (
            {"task": "t", "needs": [{"node": "a", "when": "lenght(x)"}]},
            "nodes[1].needs[0].when: there is no function lenght()",
        ),
        (
            {"task": "t", "needs": [{"node": "a", "on": "sometimes"}]},
            "nodes[1].needs[0].on: Input should be 'success', 'failure' or 'always'",
        ),
        ({"task": "t", "needs": [{"nod": "a", "node": "a"}]}, "nodes[1].needs[0].nod: Extra"),
        ({"task": "t", "needs": ["b"]}, "nodes[1].needs: cycle: b -> b"),
        ({"task": "t", "tsk": "t"}, "nodes[1].tsk: Extra inputs are not permitted"),
        ({}, "nodes[1]: give exactly one of 'task' and 'lambda'"),
        ({"task": "t", "lambda": ARN}, "nodes[1]: give exactly one of 'task' and 'lambda'"),
        ({"lambda": ARN + "2"}, "nodes[1].lambda: not in the allow-list of pool 'default'"),
        ({"task": "t", "pool": "gpu", "timeout_s": 61}, "nodes[1].timeout_s: 61 s does not fit"),
        ({"task": "t", "pool": "cpu"}, "nodes[1].pool: no pool 'cpu'"),
        ({"task": "t", "timeout_s": 0}, "nodes[1].timeout_s: Input should be greater than 0"),
        ({"task": "t", "timeout_s": True}, "nodes[1].timeout_s: Input should be a valid number"),
        ({"task": "t", "retry": {"max_attempts": 0}}, "nodes[1].retry.max_attempts: "),
        ({"task": "t", "retry": {"base_s": 9, "cap_s": 1}}, "nodes[1].retry: back-off must keep"),
        ({"task": "t", "params": []}, "nodes[1].params: Input should be a valid dictionary"),
        ({"task": 5}, "nodes[1].task: Input should be a valid string"),
    ],
)
def test_a_complaint_names_its_place(node: Mapping[str, Any], complaint: str) -> None:
    assert problem(with_node(**node)).startswith(complaint)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("id: w\nnodes: []", "nodes (line 2): List should have at least 1 item"),
        ("id: w", "nodes: Field required"),
        ("id: 'w x'\nnodes: [{id: a, task: t}]", "id (line 1): String should match pattern"),
        ("id: 7\nnodes: [{id: a, task: t}]", "id (line 1): Input should be a valid string"),
        ("- id: w", "document: Input should be a valid dictionary"),
        ("id: w\nnodes: [{id: a, task: t}]\nnode: 1", "node (line 3): Extra inputs"),
        (
            "id: w\nnodes:\n- {id: a, task: t}\n- id: a\n  task: t",
            "nodes[1].id (line 4): 'a' is also the id of nodes[0]",
        ),
        (
            "id: w\nnodes:\n- id: a\n  task: t\n  needs:\n  - node: a\n    when: ']'",
            "nodes[0].needs[0].when (line 7): not JMESPath",
        ),
    ],
)
def test_a_complaint_about_yaml_names_the_line(text: str, complaint: str) -> None:
    assert any(each.startswith(complaint) for each in problems(text)), problems(text)


def test_all_faults_are_reported_at_once() -> None:
    text = '{"id": "w", "nodes": [{"id": "a", "needs": ["x"]}, {"id": "a", "task": "t"}]}'
    assert problems(text) == [
        "nodes[1].id: 'a' is also the id of nodes[0]",
        "nodes[0]: give exactly one of 'task' and 'lambda'",
        "nodes[0].needs[0]: no node 'x'",
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "document: is empty"),
        ("# nothing\n", "document: is empty"),
        ("a: [1,\n 2", "line 3, column 1: not YAML: "),
        ("a:\n\t- b", "line 2, column 1: not YAML: "),
        ("a: 'x", "line 1, column 6: not YAML: "),
        ("a: 1\nb: 2\na: 3", "line 3, column 1: the key 'a' stands on line 1 already"),
        ("1: a", "line 1, column 1: the key 1 is not text"),
        ("true: a", "line 1, column 1: the key true is not text"),
        ("~: a", "line 1, column 1: the key ~ is not text"),
        ("? [a]\n: b", "line 1, column 3: a key must be text"),
        ("--- {}\n--- {}", "line 2, column 1: a second document begins"),
        ("a: !!python/object/apply:os.system [id]", "line 1, column 4: tag "),
        ("a: !!binary aGk=", "line 1, column 4: tag "),
        ("a: !!int x", "line 1, column 4: tag "),
        ("a: !own {}", "line 1, column 4: tag "),
        ("a: &a [*a]", "line 1, column 8: there is no complete '&a' before this alias"),
        ("a: *b", "line 1, column 4: there is no complete '&b' before this alias"),
        ("a: .nan", "a (line 1): NaN and infinities have no JSON form"),
        ("a: -.inf", "a (line 1): NaN and infinities have no JSON form"),
        ('a: "\\0"', "a (line 1): text with U+0000"),
        ("a: \x07", "document: not YAML: it has characters"),
        ("a: \ud800", "document: text with a lone surrogate"),
        ("[" * (MAX_DEPTH + 1), f"line 1, column {MAX_DEPTH + 1}: nested deeper than"),
        ("[" * 100_000, "line 1, column 1001: not YAML: exceeded maximum nesting depth"),
        ("{" * 3 + "a", "line 1, column 2: not JSON: "),
        ('{"a": 1,\n "b": }', "line 2, column 7: not JSON: Expecting value"),
        ('{"a": {"b": 1, "b": 2}}', "a.b: this key appears twice"),
        ('{"a": NaN}', "document: NaN is not JSON"),
        ('{"a": 1e999}', "a: NaN and infinities have no JSON form"),
        ('{"a": "\\ud800"}', "a: text with a lone surrogate"),
        ('{"a": ' + "9" * 5000 + "}", "document: a number has too many digits"),
        ('{"a":' * 100_000, "document: nested deeper than"),
        ('{"a":' + "[" * MAX_DEPTH + "]" * MAX_DEPTH + "}", "a[0][0]"),
        ("x" * (MAX_BYTES + 1), f"document: {MAX_BYTES + 1} bytes; at most {MAX_BYTES}"),
    ],
)
def test_text_that_is_no_document_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(InvalidDefinition) as caught:
        read(text)
    (only,) = caught.value.problems
    assert str(only).startswith(complaint)


def test_aliases_are_written_out_within_reason() -> None:
    text = "a: &n {x: [1, 2]}\nb: *n\nc: [*n, *n]"
    assert read(text).value == {
        "a": {"x": [1, 2]},
        "b": {"x": [1, 2]},
        "c": [{"x": [1, 2]}, {"x": [1, 2]}],
    }


def test_an_alias_bomb_is_refused_where_it_goes_off() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 20)]
    with pytest.raises(InvalidDefinition, match="aliases make this too large"):
        read("\n".join(lines))


def test_an_alias_of_a_long_text_counts_with_its_length() -> None:
    text = f"a: &a {'x' * 500_000}\nb: [{', '.join(['*a'] * 1000)}]"
    with pytest.raises(InvalidDefinition, match="aliases make this too large"):
        read(text)


def test_an_alias_cannot_hide_depth() -> None:
    lines = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, MAX_DEPTH + 2)]
    with pytest.raises(InvalidDefinition, match="nested deeper"):
        read("\n".join(lines))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(
                st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_json_reads_back_as_it_was(value: object) -> None:
    document = {"value": value}
    assert read(json.dumps(document)).value == document


@given(JSON)
def test_quoted_yaml_reads_back_as_it_was(value: object) -> None:
    # Every text in quotes: which plain texts are numbers differs between the versions of YAML.
    text = yaml.safe_dump({"value": value}, default_style='"', allow_unicode=True)
    assert read(text).value == {"value": value}


def chain(nodes: int, dump: str) -> str:
    document: dict[str, Any] = {
        "id": "chain",
        "nodes": [
            {"id": f"node-{i:05d}", "task": "bench.step", "needs": [f"node-{i - 1:05d}"][: i > 0]}
            for i in range(nodes)
        ],
    }
    if dump == "yaml":
        return str(yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False))
    return json.dumps(document)


@pytest.mark.parametrize("dump", ["json", "yaml"])
def test_ten_thousand_nodes_fit_a_request(dump: str) -> None:
    text = chain(MAX_NODES, dump)
    assert len(json.dumps({"query": "m" * 500, "variables": {"text": text}})) < MAX_BYTES
    graph: Graph = parse(text).graph
    assert len(graph.user_nodes) == MAX_NODES


def test_one_node_more_is_refused() -> None:
    assert "at most 10000 items" in problem(chain(MAX_NODES + 1, "json"))


def test_a_byte_order_mark_is_skipped() -> None:
    assert documents.read('\ufeff{"a": 1}').value == {"a": 1}
    assert documents.read("\ufeffa: 1").value == {"a": 1}
