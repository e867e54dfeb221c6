"""Published traces become definitions that the engine registers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from local.published import PublishedError, PublishedWorkflow
from piton.adapters.conditions import check_condition
from piton.domain.compile import PoolLimits
from piton.services.definitions import parse_definition

TRACE = {
    "name": "trace-3",
    "source": "somewhere",
    "tasks": [
        {"id": "split", "parents": [], "runtime_s": 8},
        {"id": "work.1", "parents": ["split"], "runtime_s": 0.5},
        {"id": "join", "parents": ["work.1", "split"], "runtime_s": 0},
    ],
}


def written(folder: Path, content: object) -> Path:
    path = folder / "trace.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_the_graph_and_the_times_of_a_trace_are_kept(tmp_path: Path) -> None:
    trace = PublishedWorkflow.read(written(tmp_path, TRACE))
    checked = parse_definition(
        json.dumps(trace.definition()),
        pools={"default": PoolLimits(50, frozenset())},
        check_condition=check_condition,
    )
    graph = checked.graph
    assert graph.workflow_id == "trace-3"
    assert [node.id for node in graph.user_nodes] == ["split", "work.1", "join"]
    assert [dict(node.params) for node in graph.user_nodes] == [
        {"runtime_s": 8.0},
        {"runtime_s": 0.5},
        {"runtime_s": 0.0},
    ]
    assert sorted(graph.predecessors[2]) == [0, 1]
    assert {node.action for node in graph.user_nodes} == {"dag.run"}


def test_the_scale_makes_the_longest_task_take_what_is_asked(tmp_path: Path) -> None:
    trace = PublishedWorkflow.read(written(tmp_path, TRACE))
    assert trace.scale(4.0) == 0.5
    idle = {**TRACE, "tasks": [{"id": "a", "parents": [], "runtime_s": 0}]}
    assert PublishedWorkflow.read(written(tmp_path, idle)).scale(4.0) == 1.0


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("{", "Invalid JSON"),
        ({"name": "x", "tasks": []}, "tasks: "),
        ({"tasks": TRACE["tasks"]}, "name: "),
        ({"name": "x", "tasks": [{"id": "a", "runtime_s": -1}]}, "tasks[0].runtime_s: "),
        ({"name": "x", "tasks": [{"id": "a", "runtime_s": 1, "parents": "b"}]}, "tasks[0].parents"),
    ],
)
def test_another_file_is_refused_with_its_name_and_the_place(
    tmp_path: Path, content: object, place: str
) -> None:
    path = written(tmp_path, content)
    with pytest.raises(PublishedError) as refusal:
        PublishedWorkflow.read(path)
    assert str(refusal.value).startswith(f"{path} is no published workflow: ")
    assert place in str(refusal.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PublishedError, match="cannot be read"):
        PublishedWorkflow.read(tmp_path / "none.json")
