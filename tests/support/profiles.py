"""How Hypothesis looks: the same runs every time, or new ones, and many of them.

pytest tests/property --hypothesis-profile=explore
"""

from hypothesis import HealthCheck, settings

_UNTIMED = settings(
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("repeatable", _UNTIMED, derandomize=True)
settings.register_profile("explore", _UNTIMED, max_examples=5000)
settings.load_profile("repeatable")
