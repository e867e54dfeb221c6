"""Bodies fail here as planned: the log stays silent."""

import logging

import pytest

pytest.register_assert_rewrite("tests.support.chaos", "tests.support.cases")

logging.getLogger("piton").setLevel(logging.CRITICAL)
