"""Times and limits of the engine. All durations are milliseconds, all sizes bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SECOND: Final = 1000
MINUTE: Final = 60 * SECOND
DAY: Final = 24 * 60 * MINUTE

MAX_LIFE_MS: Final = 366 * DAY
"""The longest that an execution may be given."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One immutable set of limits, the same for every handler of a deployment."""

    lease_ms: int = 30 * SECOND
    node_timeout_ms: int = 900 * SECOND
    stall_factor: int = 2
    default_life_ms: int = 30 * DAY
    retention_ms: int = 30 * DAY
    idempotency_retention_ms: int = 90 * DAY
    inline_bytes: int = 8 * 1024
    result_limit_bytes: int = 5 * 1024 * 1024
    input_limit_bytes: int = 900 * 1024

    sweep_soonest_ms: int = 30 * SECOND
    # A little less than the schedule's minute: a sweep that starts early must still find it due.
    sweep_latest_ms: int = 55 * SECOND
    sweep_slowest_ms: int = 15 * MINUTE
    first_resend_ms: int = 60 * SECOND
    resends_before_parking: int = 6

    handler_timeout_ms: int = 60 * SECOND
    # How far the clock of any process may be from the true time, to either side.
    clock_skew_ms: int = 5 * MINUTE

    @property
    def heartbeat_ms(self) -> int:
        """Time between two renewals of a lease: two may fail before it ends."""
        return self.lease_ms // 3

    @property
    def drain_ms(self) -> int:
        """How long after an execution's end a straggling write may still create a row.

        Two runs of the slowest handler (one that read before the end and one retry), and the
        difference of two clocks of which one is behind and the other ahead.
        """
        return 2 * self.handler_timeout_ms + 2 * self.clock_skew_ms

    def resend_after_ms(self, sends: int) -> int:
        """Wait after dispatch number `sends` (from 0) before it counts as lost."""
        return min(self.first_resend_ms << min(sends, 16), self.sweep_slowest_ms)
