"""When each node waited and ran, attempt by attempt."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from local.demo.ledger import AttemptRecord, Drop, ExecutionRecord, Kill, NodeRecord
from local.demo.verdict import Verdict
from piton.domain.status import NodeStatus

WIDTH: Final = 120
"""Columns that a timeline needs."""

_NAME: Final = 20
_BAR: Final = 60
_MOST_ROWS: Final = 40
_WAITS: Final = "░"
_RUNS: Final = "█"
_OUTCOMES: Final = {
    "COMPLETED": "green",
    "RETRIED": "red",
    "FAILED": "red",
    "CANCELLED": "magenta",
}

# The library's own frame loads its font from the network; this one takes what the reader has.
_SVG: Final = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
  font-size: {char_height}px;
  line-height: {line_height}px;
}}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
  <rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


@dataclass(frozen=True, slots=True)
class Timeline:
    """What happened in a run. `labels` names the executions by id."""

    records: Sequence[ExecutionRecord]
    labels: dict[str, str]
    kills: Sequence[Kill]
    drops: Sequence[Drop]

    def render(self) -> RenderableType:
        """Return the bars of all executions on one scale of time."""
        moments = [
            at
            for record in self.records
            for node in record.nodes
            for attempt in node.attempts
            for at in (attempt.queued_at, attempt.started_at, attempt.finished_at)
            if at is not None
        ]
        if not moments:
            return Text("Nothing ran.")
        scale = _Scale(min(moments), max(moments))
        legend = f"{_WAITS} waits  {_RUNS} runs  one column is {scale.column_s:.1f} s"
        tables = [self._execution(record, scale) for record in self.records]
        return Group(Text(legend, "dim"), *tables)

    def _execution(self, record: ExecutionRecord, scale: _Scale) -> RenderableType:
        table = Table(
            title=f"{self.labels.get(record.id, record.id)}  {record.status}",
            title_justify="left",
            title_style="bold",
            box=None,
            pad_edge=False,
            show_header=False,
        )
        table.add_column(no_wrap=True, min_width=_NAME)
        table.add_column(no_wrap=True, min_width=_BAR)
        table.add_column()
        reached = [node for node in record.nodes if node.status is not NodeStatus.PENDING]
        shown = self._chosen(record, reached)
        for node in shown:
            table.add_row(_name(node.id), _bar(node, scale), self._remark(record, node))
        hidden = len(reached) - len(shown)
        if hidden:
            table.add_row(Text(f"and {hidden} more", "dim"))
        return table

    def _chosen(self, record: ExecutionRecord, nodes: Sequence[NodeRecord]) -> list[NodeRecord]:
        """Return the nodes to show in the order of time: those with a story, then the longest."""

        def weight(node: NodeRecord) -> tuple[bool, int, int]:
            ran = sum(
                attempt.finished_at - attempt.started_at
                for attempt in node.attempts
                if attempt.finished_at and attempt.started_at
            )
            return bool(self._remark(record, node).plain), len(node.attempts), ran

        chosen = sorted(nodes, key=weight, reverse=True)[:_MOST_ROWS]
        return sorted(chosen, key=lambda node: node.queued_at or node.finished_at or 0)

    def _remark(self, record: ExecutionRecord, node: NodeRecord) -> Text:
        text = Text()
        for kill in self.kills:
            for victim in kill.victims:
                if (victim.execution_id, victim.node_id) == (record.id, node.id):
                    text.append(f"attempt {victim.attempt} died with process {kill.pid} ", "red")
        for drop in self.drops:
            if (drop.execution_id, drop.node_id) == (record.id, node.id):
                text.append("its completion message was lost ", "yellow")
        if node.status in (NodeStatus.SKIPPED, NodeStatus.FAILED, NodeStatus.CANCELLED):
            text.append(" ".join(filter(None, (node.status.value, node.reason))), "dim")
        return text


@dataclass(frozen=True, slots=True)
class _Scale:
    begin: int
    end: int

    @property
    def column_s(self) -> float:
        return max(1, self.end - self.begin) / _BAR / 1000

    def column(self, at: int) -> int:
        return min(_BAR - 1, int((at - self.begin) / 1000 / self.column_s))


def _name(node_id: str) -> str:
    """Shorten an id where it says least: published ids begin with the path of a module."""
    return node_id if len(node_id) <= _NAME else f"…{node_id[1 - _NAME :]}"


def _bar(node: NodeRecord, scale: _Scale) -> Text:
    cells = [(" ", "")] * _BAR
    for attempt in node.attempts:
        _paint(cells, attempt, scale)
    text = Text()
    for cell, style in cells:
        text.append(cell, style)
    return text


def _paint(cells: list[tuple[str, str]], attempt: AttemptRecord, scale: _Scale) -> None:
    if attempt.queued_at is None:
        return
    ends = attempt.finished_at or scale.end
    starts = attempt.started_at or ends
    for column in range(scale.column(attempt.queued_at), scale.column(starts) + 1):
        cells[column] = (_WAITS, "dim")
    if attempt.started_at is not None:
        for column in range(scale.column(starts), scale.column(ends) + 1):
            cells[column] = (_RUNS, _OUTCOMES.get(attempt.outcome, "cyan"))


def summary(verdict: Verdict, wall_s: float) -> Table:
    """Return the verdict as a table."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim")
    table.add_column(justify="right")
    runs = sum(execution.body_runs for execution in verdict.executions)
    nodes = sum(execution.nodes for execution in verdict.executions)
    rows = {
        "executions": str(len(verdict.executions)),
        "nodes": str(nodes),
        "bodies started (from the body log)": str(runs),
        "terminal events (from the bus)": str(
            sum(execution.terminal_events for execution in verdict.executions)
        ),
        "finished nodes run again": str(verdict.finished_nodes_rerun),
        "lost": str(verdict.lost),
        "double completions": str(verdict.double_completions),
        "from the kill to the next claim": _seconds(verdict.kill_to_next_claim_s),
        "from the lost message to the advance": _seconds(verdict.lost_signal_to_advance_s),
        "all of it": _seconds(wall_s),
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def save_svg(path: Path, title: str, *parts: RenderableType) -> None:
    """Write `parts` as a picture that needs nothing from elsewhere."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    for part in parts:
        console.print(part)
    path.parent.mkdir(parents=True, exist_ok=True)
    console.save_svg(str(path), title=title, code_format=_SVG)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"
