"""Small pieces of Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from piton.domain.canonical import Json


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table. Bars and line ends in cells are made harmless."""
    lines = [_row(heads), _row(["---"] * len(heads)), *(_row(row) for row in rows)]
    return "\n".join(lines)


def code(text: object) -> str:
    """Return `text` as code, and nothing for nothing."""
    return f"`{text}`" if str(text) else ""


def codes(texts: Iterable[object]) -> str:
    """Return several pieces of code, separated by commas."""
    return ", ".join(code(text) for text in texts)


def fence(language: str, text: str) -> str:
    """Return a fenced block."""
    return f"```{language}\n{text.strip()}\n```"


def json_block(value: Json) -> str:
    """Return a fenced block of indented JSON, in the order in which its keys come."""
    return fence("json", json.dumps(value, indent=2, ensure_ascii=False))


def seconds(milliseconds: int) -> str:
    """Return a duration in the largest unit that keeps it a whole number."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if milliseconds and milliseconds % size == 0 and milliseconds // size > 0:
            return f"{milliseconds // size} {unit}"
    return f"{milliseconds} ms"


def size(count: int) -> str:
    """Return a number of bytes in KiB or MiB where it is a whole number of them."""
    for unit, factor in (("MiB", 1024 * 1024), ("KiB", 1024)):
        if count and count % factor == 0:
            return f"{count // factor} {unit}"
    return f"{count} B"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
