"""Which documents have generated regions, and what renders each region."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from local.docs import (
    cases,
    codes,
    cost,
    data,
    deployment,
    events,
    figures,
    machine,
    permissions,
    timing,
)
from local.docs.includes import ROOT, shown
from local.docs.regions import Render, fill

DOCUMENTS: Final = (
    ROOT / "README.md",
    ROOT / "docs" / "architecture.md",
    ROOT / "docs" / "cases.md",
    ROOT / "docs" / "events.md",
    ROOT / "docs" / "permissions.md",
    ROOT / "docs" / "runbook.md",
    ROOT / "docs" / "security.md",
)

RENDERERS: Final[Mapping[str, Render]] = {
    "alarms": figures.alarms_table,
    "attributes": data.attributes_table,
    "choices": deployment.choices_table,
    "counters": figures.counters_table,
    "dispatch": events.dispatch_example,
    "envelope": events.envelope_example,
    "errors": codes.errors_table,
    "event-examples": events.event_examples,
    "event-fields": events.fields_table,
    "events": events.event_table,
    "hello-tasks": shown("examples/hello/tasks.py"),
    "hello-workflow": shown("examples/hello/workflow.yaml"),
    "idle-cost": cost.idle_table,
    "idle-summary": cost.idle_summary,
    "indexes": data.indexes_table,
    "killed-worker": timing.killed_worker,
    "limits": timing.limits_table,
    "operations": machine.operations_table,
    "queues": timing.queues_table,
    "reasons": codes.reasons_table,
    "recovery": machine.recovery_table,
    "resends": timing.resends_table,
    "retention": timing.retention_table,
    "rows": data.rows_table,
    "settings": timing.settings_table,
    "storage-limits": timing.storage_limits_table,
    "timers": figures.timers_table,
    "transitions": machine.transitions_table,
    **cases.RENDERERS,
    **permissions.RENDERERS,
}


def render(path: Path) -> str:
    """Return a document with its regions rendered. Raises `RegionError`."""
    return fill(path.read_text(), RENDERERS)
