"""When a failed attempt is tried again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

Uniform = Callable[[], float]
"""A source of randomness: each call gives a number in [0, 1)."""

MAX_ATTEMPTS_LIMIT: Final = 100
MAX_CAP_S: Final = 12 * 3600.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how soon an attempt is repeated.

    `max_attempts` counts the first one; `base_s` and `cap_s` are seconds of the exponential
    back-off. Raises `ValueError` on numbers outside their range.
    """

    max_attempts: int = 3
    base_s: float = 1.0
    cap_s: float = 60.0

    def __post_init__(self) -> None:
        if not 1 <= self.max_attempts <= MAX_ATTEMPTS_LIMIT:
            raise ValueError(f"max_attempts must be between 1 and {MAX_ATTEMPTS_LIMIT}")
        if not 0 <= self.base_s <= self.cap_s <= MAX_CAP_S:
            raise ValueError(f"back-off must keep 0 <= base_s <= cap_s <= {MAX_CAP_S:.0f}")

    def delay_ms(self, attempt: int, uniform: Uniform) -> int:
        """Return the wait after failed attempt number `attempt` (from 1), in milliseconds.

        Full jitter: uniform between zero and the capped exponential, which spreads retries best
        (AWS Architecture Blog, "Exponential Backoff and Jitter").
        """
        exponent = min(attempt - 1, 63)
        ceiling = min(self.cap_s, self.base_s * 2.0**exponent)
        return int(uniform() * ceiling * 1000)

    def attempts_left(self, attempt: int) -> bool:
        """True when an attempt after number `attempt` is allowed."""
        return attempt < self.max_attempts
