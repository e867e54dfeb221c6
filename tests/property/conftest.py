"""How long to look: the same runs every time, or `--hypothesis-profile=explore` for new ones."""

import logging

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("tests.support.chaos")

_UNTIMED = settings(
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("repeatable", _UNTIMED, derandomize=True, max_examples=150)
settings.register_profile("explore", _UNTIMED, max_examples=5000)
settings.load_profile("repeatable")

# Bodies fail by the thousand here, as planned.
logging.getLogger("piton").setLevel(logging.CRITICAL)
