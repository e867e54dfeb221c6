"""Tasks of the exercise: each brings a worker to another of its writes."""

import threading
from collections.abc import Callable
from typing import Final

from piton.tasks import Context, Inputs, Json, Permanent, Transient, task
from tests.iam.clock import CLOCK

RENEWED: Final = threading.Event()
"""Set when a worker has written while a body ran."""

DURING: Final[list[Callable[[], None]]] = []
"""What happens while the next body runs."""

BIG: Final = "x" * 9000
"""Too large for a row."""


@task("exercise.echo")
def echo(_ctx: Context, inputs: Inputs) -> Json:
    return {"params": inputs.get("params"), "from": sorted(inputs["nodes"])}


@task("exercise.big")
def big(_ctx: Context, inputs: Inputs) -> Json:
    return {"text": BIG, "ok": True, "seen": len(str(inputs))}


@task("exercise.progress")
def progress(ctx: Context, _inputs: Inputs) -> Json:
    ctx.progress(0.5, "half")
    return "done"


@task("exercise.slow")
def slow(_ctx: Context, _inputs: Inputs) -> Json:
    """Let the lease come to its renewal, and see that it is renewed."""
    RENEWED.clear()
    for _ in range(100):
        CLOCK.turn(20)
        if RENEWED.wait(0.1):
            return "done"
    raise Permanent("NOT_RENEWED")


@task("exercise.shaky")
def shaky(ctx: Context, _inputs: Inputs) -> Json:
    if ctx.attempt == 1:
        raise Transient("SHAKY")
    return ctx.attempt


@task("exercise.overtaken")
def overtaken(_ctx: Context, _inputs: Inputs) -> Json:
    while DURING:
        DURING.pop()()
    return "too late"


@task("exercise.broken")
def broken(_ctx: Context, _inputs: Inputs) -> Json:
    raise Permanent("BROKEN")
