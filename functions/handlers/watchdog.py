"""Schedule, once a minute: gives every stuck execution a definite disposition."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.runtime import flushing, make_logger
from piton import bootstrap
from piton.ports import Counter

logger = make_logger()
services = cache(bootstrap.build_watchdog)

SWEEP_LIMIT: Final = 1000
SHOWN: Final = (
    Counter.SWEPT,
    Counter.FRONTIER_RECOVERED,
    Counter.DISPATCH_RESENT,
    Counter.STALL_RECOVERED,
    Counter.FINALISE_RECOVERED,
    Counter.DEADLINE_PASSED,
    Counter.TIMED_OUT,
    Counter.PARKED,
    Counter.RETIRED,
    Counter.SWEEP_ERROR,
)
"""Written by every sweep that found work, zeros included: graphs of a busy stage are unbroken,
and an idle one pays for no metric."""


def handler(_event: dict[str, Any], context: LambdaContext) -> dict[str, int]:
    """Run one sweep and answer how many executions it took and how many had a fault."""
    watchdog = services()
    with flushing(watchdog.metrics):
        report = watchdog.sweep.run(SWEEP_LIMIT, context.get_remaining_time_in_millis)
        if report.swept:
            watchdog.metrics.show(SHOWN)
    logger.info("sweep done", swept=report.swept, failed=report.failed)
    return {"swept": report.swept, "failed": report.failed}
