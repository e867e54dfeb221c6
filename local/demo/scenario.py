"""What the demo runs, and which parts of it the faults may hit."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from examples.invoices.batch import SAMPLES, WORKFLOW, execution_input, samples
from examples.invoices.batch import Expected as Outcome
from local.demo.ledger import Expected
from local.published import PublishedWorkflow
from piton.domain.canonical import Json
from piton.domain.status import ExecutionStatus, NodeStatus

LONGEST_S: Final = 4.0
"""What the longest node of a published workflow takes here, in seconds."""

_TO_KILL: Final = "nordlicht-RE-2025-0417.xml"
_TO_DROP: Final = "nordlicht-RE-2025-0431.pdf"
_TO_RESUME: Final = "delta-koffie-20250093.pdf"

# Staggered, so that not all of them are in one worker process when it dies.
_PACES: Final[Mapping[str, Mapping[str, float]]] = {
    _TO_KILL: {"ingest": 1, "extract": 12, "check_policy": 2},
    _TO_DROP: {"ingest": 6, "extract": 8, "check_totals": 2},
    _TO_RESUME: {"ingest": 0, "extract": 15, "check_supplier": 8, "check_policy": 3},
}
_UNPACED: Final = (
    "kessel-KR-88131.xml",
    "quickprint-5512.pdf",
    "atelier-F2025-118.xml",
    "kessel-KR-88140.pdf",
    "malformed/truncated.xml",
)


@dataclass(frozen=True, slots=True)
class Planned:
    """An execution to start. `seconds` tells how long the body of a node takes."""

    label: str
    document: str
    input: Mapping[str, Json]
    expected: Expected
    seconds: Callable[[str], float]


@dataclass(frozen=True, slots=True)
class Plan:
    """Executions of one workflow, and the positions of those that the faults hit.

    `target` names the only node that the faults may hit; None leaves the choice open.
    `ended_before_resume` is how many nodes have ended when an execution is resumed.
    """

    title: str
    workflow: str
    definition: str
    executions: tuple[Planned, ...]
    kill: int
    drop: int
    resume: int
    target: str | None = None
    ended_before_resume: int = 0


def invoices() -> Plan:
    """The sample documents: accepted, rejected and unreadable ones in four formats."""
    outcomes = {path.relative_to(SAMPLES).as_posix(): each for path, each in samples().items()}
    names = (_TO_KILL, _TO_DROP, _TO_RESUME, *_UNPACED)
    return Plan(
        title="invoices: ingest, extract, four checks, decide, post or reject",
        workflow="invoices",
        definition=WORKFLOW.read_text("utf-8"),
        executions=tuple(_invoice(name, outcomes[name]) for name in names),
        kill=names.index(_TO_KILL),
        drop=names.index(_TO_DROP),
        resume=names.index(_TO_RESUME),
        target="extract",
        ended_before_resume=1,
    )


def published(path: Path) -> Plan:
    """A published workflow as one execution that all faults hit. Raises `PublishedError`."""
    trace = PublishedWorkflow.read(path)
    scale = trace.scale(LONGEST_S)
    seconds = {task.id: task.runtime_s * scale for task in trace.tasks}
    planned = Planned(
        label=trace.name,
        document=trace.name,
        input={"scale": scale},
        expected=Expected(nodes={task.id: NodeStatus.COMPLETED for task in trace.tasks}),
        seconds=seconds.__getitem__,
    )
    return Plan(
        title=f"{trace.name}: {len(trace.tasks)} tasks, {scale:.3g} of their recorded time",
        workflow=trace.name,
        definition=json.dumps(trace.definition()),
        executions=(planned,),
        kill=0,
        drop=0,
        resume=0,
    )


def _invoice(name: str, outcome: Outcome) -> Planned:
    pace = _PACES.get(name, {})
    return Planned(
        label=name,
        document=name,
        input=execution_input(SAMPLES / name, pace_s=pace),
        expected=_expected(outcome),
        seconds=lambda node_id: pace.get(node_id, 0.0),
    )


def _expected(outcome: Outcome) -> Expected:
    last = outcome.last_node
    if outcome.node is not None:
        return Expected(ExecutionStatus.FAILED, {last: NodeStatus.FAILED})
    other = "reject" if last == "post" else "post"
    return Expected(nodes={last: NodeStatus.COMPLETED, other: NodeStatus.SKIPPED})
