"""What the whole-engine tests need: readable failures and a silent log."""

import logging

import pytest

pytest.register_assert_rewrite("tests.support.chaos")

# Bodies fail by the thousand here, as planned.
logging.getLogger("piton").setLevel(logging.CRITICAL)
