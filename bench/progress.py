"""Progress of long work: bars on a terminal, elsewhere a plain line now and then."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

LINE_EVERY_S: Final = 12.0


@dataclass
class Bar:
    """One part of the work. Whoever does it sets `done` and, at will, `note`."""

    name: str
    total: int
    done: int = 0
    note: str = ""

    def __str__(self) -> str:
        note = f" ({self.note})" if self.note else ""
        return f"{self.name} {self.done:,} of {self.total:,}{note}"


class Board:
    """Shows all parts together. `refresh` costs little, and is what moves the picture."""

    def __init__(self, console: Console, line_every_s: float = LINE_EVERY_S) -> None:
        self._console = console
        self._line_every_s = line_every_s
        self._bars: dict[TaskID, Bar] = {}
        self._open = ExitStack()
        self._began = time.monotonic()
        self._last_line: float | None = None
        self._has_bars = console.is_terminal and not console.is_dumb_terminal
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[counted]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            disable=not self._has_bars,
        )

    def __enter__(self) -> Self:
        self._open.enter_context(self._progress)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()

    def add(self, name: str, total: int) -> Bar:
        """Add a part with this much to do."""
        bar = Bar(name, total)
        task = self._progress.add_task(name, total=total, counted="", note="")
        self._bars[task] = bar
        return bar

    def say(self, text: str, style: str = "") -> None:
        """Print a line that stays."""
        self._console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)

    def refresh(self) -> None:
        """Show where everything stands; without a terminal only if the last line is old."""
        for task, bar in self._bars.items():
            counted = f"{bar.done:,} of {bar.total:,}"
            self._progress.update(
                task, completed=bar.done, total=bar.total, counted=counted, note=bar.note
            )
        now = time.monotonic()
        if not self._has_bars and self._is_line_due(now):
            self._last_line = now
            self.say(f"{duration(now - self._began)}  {self._line()}")

    def _is_line_due(self, now: float) -> bool:
        """True when the last line is old, and as soon as there is anything to tell."""
        if self._last_line is None and any(bar.done for bar in self._bars.values()):
            return True
        return now - (self._last_line or self._began) >= self._line_every_s

    def _line(self) -> str:
        unfinished = [bar for bar in self._bars.values() if bar.done < bar.total]
        begun = [bar for bar in unfinished if bar.done] or unfinished[:1]
        return "; ".join(map(str, begun)) or "all parts done"


def duration(seconds: float) -> str:
    """Return a time span as hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
