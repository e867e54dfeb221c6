"""The small examples: the hello workflow and the body of imported DAGs."""

from __future__ import annotations

import logging
from pathlib import Path
from unittest.mock import create_autospec

import pytest
import yaml

from examples.dag import tasks as dag
from examples.hello import tasks as hello
from piton.contracts import WorkflowDocument
from piton.tasks import REGISTRY, Context, Json, Permanent


def _ctx() -> Context:
    ctx = create_autospec(Context, instance=True)
    ctx.logger = logging.getLogger("examples")
    return ctx  # type: ignore[no-any-return]


def test_hello_workflow_is_valid_and_its_tasks_exist() -> None:
    document = yaml.safe_load(Path(hello.__file__).with_name("workflow.yaml").read_text("utf-8"))
    nodes = WorkflowDocument.model_validate(document).nodes
    assert [node.id for node in nodes] == ["words", "count", "report"]
    assert {node.task for node in nodes} <= set(REGISTRY.names)


def test_hello_names_the_most_frequent_word() -> None:
    words = hello.words(_ctx(), {"execution": {"text": "to be or not to be to"}, "nodes": {}})
    count = hello.count(_ctx(), {"execution": None, "nodes": {"words": words}})
    assert count == {"to": 3, "be": 2, "or": 1, "not": 1}
    assert hello.report(_ctx(), {"execution": None, "nodes": {"count": count}}) == "to"


@pytest.mark.parametrize("execution", [None, {}, {"text": 7}, {"text": "  "}])
def test_hello_without_a_text_fails_for_good(execution: Json) -> None:
    with pytest.raises(Permanent) as failed:
        hello.words(_ctx(), {"execution": execution, "nodes": {}})
    assert failed.value.code == "TEXT_MISSING"


@pytest.mark.parametrize(
    ("params", "execution", "waited_s"),
    [
        ({"runtime_s": 5.0}, {"scale": 0}, 0.0),
        ({"runtime_s": 4}, {"scale": 0.0005}, 0.002),
        ({"runtime_s": 9000}, {"scale": 1, "longest_s": 0.001}, 0.001),
        ({}, {}, 0.0),
        (None, None, 0.0),
    ],
)
def test_dag_body_takes_its_scaled_time(params: Json, execution: Json, waited_s: float) -> None:
    result = dag.run(
        _ctx(), {"execution": execution, "nodes": {"a": None, "b": 1}, "params": params}
    )
    assert result == {"waited_s": pytest.approx(waited_s), "parents": 2}


@pytest.mark.parametrize(
    ("params", "execution"),
    [
        ({"runtime_s": -1}, {}),
        ({"runtime_s": "5"}, {}),
        ({"runtime_s": True}, {}),
        ({"runtime_s": 1}, {"scale": float("nan")}),
        ({"runtime_s": float("inf")}, {}),
    ],
)
def test_dag_body_refuses_what_is_no_time(params: Json, execution: Json) -> None:
    with pytest.raises(Permanent) as failed:
        dag.run(_ctx(), {"execution": execution, "nodes": {}, "params": params})
    assert failed.value.code == "PARAMETER_INVALID"
