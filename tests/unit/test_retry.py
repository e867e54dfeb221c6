"""When a failed attempt is tried again."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piton.domain.retry import MAX_ATTEMPTS_LIMIT, MAX_CAP_S, RetryPolicy

ALMOST_ONE = math.nextafter(1.0, 0.0)
POLICIES = st.builds(
    lambda attempts, cap, share: RetryPolicy(attempts, cap * share, cap),
    st.integers(1, MAX_ATTEMPTS_LIMIT),
    st.floats(0, MAX_CAP_S),
    st.floats(0, 1),
)


@given(POLICIES, st.integers(1, 1000), st.floats(0, 1, exclude_max=True))
def test_the_wait_stays_below_the_capped_exponential(
    policy: RetryPolicy, attempt: int, uniform: float
) -> None:
    ceiling_s = min(policy.cap_s, policy.base_s * 2.0 ** min(attempt - 1, 60))
    assert 0 <= policy.delay_ms(attempt, lambda: uniform) <= ceiling_s * 1000


def test_the_jitter_is_full_and_doubles_up_to_the_cap() -> None:
    policy = RetryPolicy(10, base_s=1.0, cap_s=5.0)
    assert [policy.delay_ms(attempt, lambda: 0.0) for attempt in range(1, 6)] == [0] * 5
    longest = [policy.delay_ms(attempt, lambda: ALMOST_ONE) for attempt in range(1, 6)]
    assert longest == [999, 1999, 3999, 4999, 4999]
    assert policy.delay_ms(3, lambda: 0.5) == 2000


def test_attempts_count_the_first_one() -> None:
    assert not RetryPolicy(1).attempts_left(1)
    assert RetryPolicy(3).attempts_left(2)
    assert not RetryPolicy(3).attempts_left(3)


@pytest.mark.parametrize(
    ("attempts", "base_s", "cap_s"),
    [
        (0, 1, 1),
        (MAX_ATTEMPTS_LIMIT + 1, 1, 1),
        (1, -1, 1),
        (1, 2, 1),
        (1, 1, MAX_CAP_S + 1),
        (1, math.nan, 1),
        (1, 1, math.nan),
        (1, 1, math.inf),
    ],
)
def test_a_policy_out_of_range_cannot_be_made(attempts: int, base_s: float, cap_s: float) -> None:
    with pytest.raises(ValueError, match=r"max_attempts|back-off"):
        RetryPolicy(attempts, base_s, cap_s)
