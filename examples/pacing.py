"""Bodies that take their time, so that there is something to look at while a run goes on.

Waiting is all that this does: it uses no processor time and changes no result.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

from piton.tasks import Context

REPORT_EVERY_S = 1.0


def _steps(seconds: float) -> Iterator[tuple[float, float]]:
    """Split a wait into (seconds, share done after them); each whole second is one step."""
    count = max(1, int(seconds // REPORT_EVERY_S))
    for step in range(1, count + 1):
        yield seconds / count, step / count


def wait(ctx: Context, seconds: float) -> None:
    """Wait `seconds`, reporting progress about every second; below one second, report nothing."""
    if seconds <= 0:
        return
    never = threading.Event()
    for pause, share in _steps(seconds):
        never.wait(pause)
        if seconds >= REPORT_EVERY_S:
            ctx.progress(share)


async def wait_async(ctx: Context, seconds: float) -> None:
    """As `wait`, for an `async def` body."""
    if seconds <= 0:
        return
    for pause, share in _steps(seconds):
        await asyncio.sleep(pause)
        if seconds >= REPORT_EVERY_S:
            ctx.progress(share)
