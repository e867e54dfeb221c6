"""An execution as text for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

Answer = dict[str, Any]

_STYLES: Final = {
    "COMPLETED": "green",
    "FAILED": "red",
    "CANCELLED": "yellow",
    "RUNNING": "cyan",
    "QUEUED": "blue",
    "WAITING": "magenta",
    "SKIPPED": "dim",
    "PENDING": "dim",
}
_INTEREST: Final = ("FAILED", "RUNNING", "WAITING", "QUEUED", "CANCELLED", "COMPLETED", "SKIPPED")
"""What is shown first where there is no room for all nodes."""


def picture(execution: Answer, nodes: Sequence[Answer], *, rows: int | None = None) -> Group:
    """Return a picture of an execution, with at most `rows` nodes."""
    parts: list[RenderableType] = [_title(execution), _facts(execution), _counts(nodes)]
    shown = _most_interesting(nodes, rows)
    if shown:
        parts.append(_table(shown))
    if hidden := len(nodes) - len(shown):
        parts.append(Text(f"and {hidden} more", style="dim"))
    return Group(*parts)


def _title(execution: Answer) -> Text:
    return Text.assemble(
        (execution["id"], "bold"),
        f"  {execution['workflowId']} v{execution['workflowVersion']}  ",
        _status(execution["status"]),
    )


def _facts(execution: Answer) -> Text:
    facts = [f"started by {execution['actor']} at {_time(execution['createdAt'])}"]
    if execution["finishedAt"]:
        took = _span(execution["createdAt"], execution["finishedAt"])
        facts.append(f"ended at {_time(execution['finishedAt'])} after {took}")
    else:
        facts.append(f"ends by {execution['endsBy']}")
    if execution["reason"]:
        place = f" at {execution['reasonNode']}" if execution["reasonNode"] else ""
        facts.append(f"{execution['reason']}{place}")
    if execution["note"]:
        facts.append(f'"{execution["note"]}"')
    if execution["resumes"]:
        facts.append(f"resumed {execution['resumes']} time(s), last by {execution['resumedBy']}")
    if execution["parked"]:
        facts.append(f"parked: {execution['parked']}; `piton resume` clears it")
    return Text(" · ".join(facts), style="dim")


def _counts(nodes: Sequence[Answer]) -> Text:
    counts = Counter(node["status"] for node in nodes)
    text = Text()
    for status, style in _STYLES.items():
        if counts[status]:
            text.append(f"{counts[status]} {status.lower()}  ", style=style)
    return text


def _most_interesting(nodes: Sequence[Answer], rows: int | None) -> list[Answer]:
    if rows is None or len(nodes) <= rows:
        return list(nodes)
    rank = {status: number for number, status in enumerate(_INTEREST)}
    ordered = sorted(nodes, key=lambda node: rank.get(node["status"], len(rank)))
    return sorted(ordered[:rows], key=lambda node: int(node["ordinal"]))


def _table(nodes: Sequence[Answer]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("node", "status", "attempt", "started", "took", ""):
        table.add_column(heading, no_wrap=heading != "")
    for node in nodes:
        attempts = node["attempts"]
        for attempt in attempts[:-1]:
            table.add_row(
                "",
                Text(attempt["outcome"].lower(), style="dim"),
                str(attempt["number"]),
                _time(attempt["startedAt"]),
                _span(attempt["startedAt"], attempt["finishedAt"]),
                Text(attempt["reason"] or "", style="dim"),
            )
        latest = attempts[-1] if attempts else {}
        table.add_row(
            node["id"],
            _status(node["status"]),
            str(node["attempt"] or ""),
            _time(latest.get("startedAt")),
            _span(latest.get("startedAt"), node["finishedAt"]),
            _remark(node),
        )
    return table


def _remark(node: Answer) -> Text:
    if node["status"] == "RUNNING" and node["progress"] is not None:
        return Text(f"{node['progress']} % {node['progressNote'] or ''}".strip())
    return Text(node["reason"] or "")


def _status(status: str) -> Text:
    return Text(status.lower(), style=_STYLES.get(status, ""))


def _time(moment: str | None) -> str:
    if moment is None:
        return ""
    return datetime.fromisoformat(moment).astimezone().strftime("%H:%M:%S.%f")[:-3]


def _span(begin: str | None, end: str | None) -> str:
    if begin is None or end is None:
        return ""
    seconds = (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()
    return f"{seconds:.3f} s"
