"""Time and randomness of the machine."""

import itertools

import pytest

from piton.adapters.clock import SystemClock
from piton.adapters.randomness import SystemRandom
from piton.domain.names import is_execution_id

KNOWN_MS = 1_469_918_176_385
LAST_MS = (1 << 48) - 1


def test_a_ulid_starts_with_its_time() -> None:
    # The time of the example in the specification.
    assert SystemRandom().ulid(KNOWN_MS)[:10] == "01ARYZ6S41"
    assert SystemRandom().ulid(0)[:10] == "0000000000"
    assert SystemRandom().ulid(LAST_MS)[:10] == "7ZZZZZZZZZ"


def test_ulids_sort_by_millisecond_and_differ() -> None:
    names = SystemRandom()
    by_time = [names.ulid(KNOWN_MS + step) for step in range(200)]
    assert by_time == sorted(by_time)
    assert all(map(is_execution_id, by_time))
    assert len({names.ulid(KNOWN_MS) for _ in range(2000)}) == 2000


@pytest.mark.parametrize("now_ms", [-1, LAST_MS + 1])
def test_a_time_that_no_ulid_holds_is_refused(now_ms: int) -> None:
    with pytest.raises(ValueError, match="1970"):
        SystemRandom().ulid(now_ms)


def test_nonces_are_short_and_differ() -> None:
    nonces = [SystemRandom().nonce() for _ in range(2000)]
    assert len(set(nonces)) == 2000
    assert {len(nonce) for nonce in nonces} == {12}


def test_uniform_numbers_lie_between_zero_and_one() -> None:
    numbers = [SystemRandom().uniform() for _ in range(1000)]
    assert all(0 <= number < 1 for number in numbers)
    assert len(set(numbers)) > 990


def test_the_monotonic_clock_never_steps_back() -> None:
    clock = SystemClock()
    readings = [clock.monotonic_ms() for _ in range(1000)]
    assert all(earlier <= later for earlier, later in itertools.pairwise(readings))
    assert clock.now_ms() > KNOWN_MS
