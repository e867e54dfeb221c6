"""The tasks in the order of their workflow file, on every sample, as a worker would call them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import jmespath
import pytest
import yaml

from examples import pacing
from examples.invoices import tasks
from examples.invoices.batch import SAMPLES, WORKFLOW, Expected, execution_input, samples
from examples.invoices.findings import Decision
from piton.contracts import NodeDocument, WorkflowDocument
from piton.tasks import REGISTRY, Context, Inputs, Json, Permanent, Task

CHECKS = ("check_totals", "check_supplier", "check_duplicate", "check_policy")


@dataclass
class Attempt:
    """A first attempt that notes the progress it is told of."""

    node_id: str
    tenant: str = "acme"
    execution_id: str = "ex-1"
    attempt: int = 1
    fence: int = 1
    deadline: int = 20_000
    logger: logging.Logger = field(default_factory=lambda: logging.getLogger("invoices"))
    shares: list[float] = field(default_factory=list)

    def remaining_s(self) -> float:
        return 20.0

    def progress(self, fraction: float, note: str = "") -> None:
        del note
        self.shares.append(fraction)


def _task(name: str | None) -> Task:
    entry = REGISTRY.find(name or "")
    assert entry is not None
    return entry


def _call(entry: Task, ctx: Context, inputs: Inputs) -> Json:
    result = entry.body(ctx, inputs)
    if entry.is_async:
        result = asyncio.run(result)  # type: ignore[arg-type]
    # As stored: whatever a node hands on has been JSON.
    return json.loads(json.dumps(result, allow_nan=False))  # type: ignore[no-any-return]


NODES = WorkflowDocument.model_validate(yaml.safe_load(WORKFLOW.read_text("utf-8"))).nodes


def _taken(node: NodeDocument, results: Mapping[str, Json]) -> dict[str, Json]:
    """Results of the predecessors whose edges are taken."""
    taken = {}
    for need in node.needs:
        source, when = (need, None) if isinstance(need, str) else (need.node, need.when)
        if source in results and (when is None or jmespath.search(when, results[source])):
            taken[source] = results[source]
    return taken


def _run(execution: dict[str, Json]) -> dict[str, Json]:
    """Results by node of one run; a node runs if any edge into it is taken."""
    results: dict[str, Json] = {}
    for node in NODES:
        nodes = _taken(node, results)
        if node.needs and not nodes:
            continue
        inputs: Inputs = {"execution": execution, "nodes": nodes}
        results[node.id] = _call(_task(node.task), Attempt(node.id), inputs)
    return results


def _samples(*, readable: bool) -> list[tuple[Path, Expected]]:
    return [(p, e) for p, e in samples().items() if (e.code is None) == readable]


@pytest.mark.parametrize(
    ("path", "expected"), _samples(readable=True), ids=lambda value: getattr(value, "name", "")
)
def test_sample_ends_as_expected(path: Path, expected: Expected) -> None:
    results = _run(execution_input(path))
    decision = Decision.model_validate(results["decide"])
    assert sorted(decision.findings) == sorted(CHECKS)
    found = {
        check: tuple(dict.fromkeys(finding.rule for finding in entries))
        for check, entries in decision.findings.items()
        if entries
    }
    assert found == expected.findings
    assert decision.accepted is not bool(found)
    assert [node for node in ("post", "reject") if node in results] == [expected.last_node]


@pytest.mark.parametrize(
    ("path", "expected"), _samples(readable=False), ids=lambda value: getattr(value, "name", "")
)
def test_unreadable_sample_fails_its_node_for_good(path: Path, expected: Expected) -> None:
    execution = execution_input(path)
    with pytest.raises(Permanent) as failed:
        _run(execution)
    assert failed.value.code == expected.code
    ingest = _task("invoices.ingest")
    inputs: Inputs = {"execution": execution, "nodes": {}}
    if expected.node == "ingest":
        with pytest.raises(Permanent):
            _call(ingest, Attempt("ingest"), inputs)
    else:
        assert _call(ingest, Attempt("ingest"), inputs)


def test_samples_hold_both_outcomes_in_xml_and_in_pdf() -> None:
    outcomes = {(p.suffix, e.last_node) for p, e in _samples(readable=True)}
    assert outcomes == {(s, n) for s in (".xml", ".pdf") for n in ("post", "reject")}


def test_runs_are_pure_functions_of_their_input() -> None:
    execution = execution_input(SAMPLES / "kessel-KR-88140.pdf")
    assert _run(execution) == _run(execution)


def test_neither_log_nor_failure_carries_text_of_a_document(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    said = []
    for path in samples():
        try:
            _run(execution_input(path))
        except Permanent as failed:
            said.append(str(failed))
    said.extend(record.getMessage() for record in caplog.records)
    assert len(said) > len(samples())
    told = "\n".join(said)
    for secret in ("Nordlicht", "Kessel", "Fernhill", "RE-2025", "KR-88", "hundred", "DE30", "PO-"):
        assert secret not in told


def _without(key: str) -> dict[str, Json]:
    execution = execution_input(SAMPLES / "kessel-KR-88120.xml")
    del execution[key]
    return execution


@pytest.mark.parametrize(
    ("execution", "place"),
    [
        (None, "execution: "),
        ({}, "execution.document: "),
        (_without("policy"), "execution.policy: "),
        (_without("suppliers"), "execution.suppliers: "),
        ({**_without("pace_s"), "pace_s": -1}, "execution.pace_s."),
        ({**_without("pace_s"), "colour": "red"}, "execution.colour: "),
    ],
)
def test_input_of_another_shape_is_refused_by_its_place(execution: Json, place: str) -> None:
    with pytest.raises(Permanent) as failed:
        tasks.ingest(Attempt("ingest"), {"execution": execution, "nodes": {}})
    assert failed.value.code == "INPUT_INVALID"
    assert failed.value.detail.startswith(place)


def test_node_without_the_result_it_needs_is_refused() -> None:
    execution = execution_input(SAMPLES / "kessel-KR-88120.xml")
    with pytest.raises(Permanent) as failed:
        tasks.check_totals(Attempt("check_totals"), {"execution": execution, "nodes": {}})
    assert (failed.value.code, failed.value.detail) == (
        "INPUT_INVALID",
        "nodes.extract: model_type",
    )


def test_every_task_of_the_workflow_is_registered_and_one_is_async() -> None:
    assert {node.id for node in NODES if _task(node.task).is_async} == {"check_duplicate"}


@pytest.mark.parametrize("node", ["ingest", "check_duplicate"])
def test_pace_slows_a_body_and_reports_its_progress(
    node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "REPORT_EVERY_S", 0.001)
    execution = execution_input(SAMPLES / "kessel-KR-88120.xml", pace_s={node: 0.004})
    extract = _run(execution_input(SAMPLES / "kessel-KR-88120.xml"))["extract"]
    slow, fast = Attempt(node), Attempt("check_policy")
    inputs: Inputs = {"execution": execution, "nodes": {"extract": extract}}
    _call(_task(f"invoices.{node}"), slow, inputs)
    _call(_task("invoices.check_policy"), fast, inputs)
    assert slow.shares == [0.25, 0.5, 0.75, 1.0]
    assert fast.shares == []
