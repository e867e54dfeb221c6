"""One body for every node of an imported DAG: it takes the time that the node took back then.

Parameters of the node: `runtime_s`, the recorded seconds. Fields of the execution's input: `scale`
multiplies it (1 by default), `longest_s` caps what comes out (no cap by default).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from examples.pacing import wait
from piton.tasks import Context, Inputs, Json, Permanent, task

PARAMETER_INVALID = "PARAMETER_INVALID"


def _seconds(source: Json, name: str, default: float) -> float:
    value = source.get(name, default) if isinstance(source, Mapping) else default
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise Permanent(PARAMETER_INVALID, f"{name} has to be a number from zero up")
    return float(value)


@task("dag.run")
def run(ctx: Context, inputs: Inputs) -> Json:
    """Wait `runtime_s * scale` seconds and tell how long that was and for how many parents."""
    execution, nodes = inputs["execution"], inputs["nodes"]
    runtime_s = _seconds(inputs.get("params"), "runtime_s", 0.0)
    scale = _seconds(execution, "scale", 1.0)
    longest_s = _seconds(execution, "longest_s", math.inf)
    waited_s = min(runtime_s * scale, longest_s)
    if not math.isfinite(waited_s):
        raise Permanent(PARAMETER_INVALID, "runtime_s * scale has to be finite")
    wait(ctx, waited_s)
    return {"waited_s": waited_s, "parents": len(nodes) if isinstance(nodes, Mapping) else 0}
