"""The live picture: nodes by status, what has been done to them, when the watchdog comes."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from local.client import ApiError
from local.demo.clock import CLOCK
from local.demo.evidence import Sweeps
from local.demo.reading import ExecutionGone, Glance
from piton.domain.status import NodeStatus
from piton.ports import Counter as Figure

SWEEP_EVERY_MS: Final = 60_000
STYLES: Final = {
    NodeStatus.PENDING: "dim",
    NodeStatus.QUEUED: "yellow",
    NodeStatus.RUNNING: "cyan",
    NodeStatus.WAITING: "magenta",
    NodeStatus.COMPLETED: "green",
    NodeStatus.FAILED: "red",
    NodeStatus.CANCELLED: "magenta",
    NodeStatus.SKIPPED: "dim",
}

_REFRESH_PER_S: Final = 4
_SHORTEST_PAUSE_S: Final = 0.5
_SHARE_OF_TIME: Final = 6
"""Looking takes at most one part in this many of the time: the machine has better to do."""

_BAR: Final = 36
_TOLD: Final = (
    Figure.FRONTIER_RECOVERED,
    Figure.STALL_RECOVERED,
    Figure.DISPATCH_RESENT,
    Figure.FINALISE_RECOVERED,
    Figure.PARKED,
    Figure.SWEEP_ERROR,
)
_STOP_DEADLINE_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Row:
    """An execution on the board."""

    label: str
    id: str


class Board:
    """What there is to see. Threads may share it."""

    def __init__(self, console: Console, title: str) -> None:
        self._console = console
        self._title = title
        self._begun = CLOCK.monotonic_ms()
        self._lock = threading.Lock()
        self._rows: tuple[Row, ...] = ()
        self._glances: dict[str, Glance] = {}
        self._sweeps = Sweeps()
        self._scheduled_at = CLOCK.now_ms()

    def note(self, text: str, style: str = "") -> None:
        """Tell of something that has happened."""
        seconds = (CLOCK.monotonic_ms() - self._begun) / 1000
        self._console.print(
            f"[dim]{seconds:6.1f} s[/]  {text}", style=style, highlight=False, soft_wrap=True
        )

    def show(self, rows: Sequence[Row]) -> None:
        """Show these executions. The schedule of the watchdog runs by now."""
        with self._lock:
            self._rows = tuple(rows)
            self._scheduled_at = CLOCK.now_ms()

    def unfinished(self) -> list[Row]:
        """Executions that have not been seen at their end."""
        with self._lock:
            return [
                row
                for row in self._rows
                if (seen := self._glances.get(row.id)) is None or not seen.status.terminal
            ]

    def saw(self, row: Row, seen: Glance) -> None:
        """Take in where an execution stands."""
        with self._lock:
            self._glances[row.id] = seen

    def swept(self, sweeps: Sweeps) -> None:
        """Take in what the watchdog has done, and tell what is new."""
        with self._lock:
            before, self._sweeps = self._sweeps.counters, sweeps
        for figure in _TOLD:
            if new := sweeps.counters.get(figure, 0) - before.get(figure, 0):
                self.note(f"[bold green]watchdog[/] {figure}: {new:.0f}")

    @contextmanager
    def live(self) -> Iterator[None]:
        """Keep the picture on a terminal; elsewhere the notes have to do."""
        if not self._console.is_terminal:
            yield
            return
        with Live(
            console=self._console,
            get_renderable=self.picture,
            refresh_per_second=_REFRESH_PER_S,
            transient=True,
        ):
            yield

    def picture(self) -> Group:
        """Return the picture as it is now."""
        with self._lock:
            rows, glances = self._rows, dict(self._glances)
            counting_from = self._sweeps.last_at or self._scheduled_at
        table = Table(title=self._title, title_justify="left", box=None, pad_edge=False)
        table.add_column("execution", no_wrap=True, max_width=40)
        table.add_column("status")
        table.add_column("nodes", no_wrap=True)
        table.add_column("by status")
        for row in rows:
            seen = glances.get(row.id)
            if seen is None:
                table.add_row(row.label, Text("asked", "dim"))
                continue
            counts = Counter(status for status, _ in seen.nodes.values())
            status = seen.status.value
            table.add_row(
                row.label,
                Text(status, STYLES.get(NodeStatus(status), "")),
                _bar(counts),
                _legend(counts),
            )
        return Group(Text(""), table, _countdown(counting_from))


class Observer:
    """Keeps a board up to date in a thread of its own, taking its time."""

    def __init__(
        self,
        board: Board,
        look: Callable[[str], Glance],
        read_sweeps: Callable[[], Sweeps],
    ) -> None:
        self._board = board
        self._look = look
        self._read_sweeps = read_sweeps
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._observe, name="demo-board", daemon=True)

    @contextmanager
    def observing(self) -> Iterator[None]:
        """Observe until the end of the block."""
        self._thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            self._thread.join(_STOP_DEADLINE_S)

    def _observe(self) -> None:
        pause = 0.0
        while not self._stopping.wait(pause):
            begun = CLOCK.monotonic_ms()
            try:
                self._look_once()
            except (ApiError, ExecutionGone) as error:
                self._board.note(f"the board is not up to date: {error}", "dim")
            took = (CLOCK.monotonic_ms() - begun) / 1000
            pause = max(_SHORTEST_PAUSE_S, took * (_SHARE_OF_TIME - 1))

    def _look_once(self) -> None:
        for row in self._board.unfinished():
            self._board.saw(row, self._look(row.id))
            if self._stopping.is_set():
                return
        self._board.swept(self._read_sweeps())


def _bar(counts: Counter[NodeStatus]) -> Text:
    """Return a bar whose parts are as long as their shares, by largest remainder."""
    total = sum(counts.values()) or 1
    width = min(_BAR, total)
    parts = {status: divmod(counts[status] * width, total) for status in reversed(STYLES)}
    left = width - sum(whole for whole, _ in parts.values())
    order = sorted(parts, key=lambda status: parts[status][1], reverse=True)
    text = Text()
    for status in sorted(STYLES, key=_progress, reverse=True):
        text.append("█" * (parts[status][0] + (status in order[:left])), STYLES[status])
    return text


def _progress(status: NodeStatus) -> int:
    order: Final = (NodeStatus.PENDING, NodeStatus.QUEUED, NodeStatus.WAITING, NodeStatus.RUNNING)
    return order.index(status) if status in order else len(order)


def _legend(counts: Counter[NodeStatus]) -> Text:
    return Text("  ").join(
        Text(f"{counts[status]} {status}", STYLES[status]) for status in STYLES if counts[status]
    )


def _countdown(counting_from: int) -> Text:
    seconds = (counting_from + SWEEP_EVERY_MS - CLOCK.now_ms()) / 1000
    text = f"The watchdog comes within {seconds:.0f} s" if seconds > 0 else "Sweeping"
    return Text(text, "dim")
