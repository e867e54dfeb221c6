"""What the whole-engine tests need: readable failures and a silent log."""

from collections.abc import Iterator

import pytest

from local.simulator.strands import Strands
from tests.support.logs import silent_engine

pytest.register_assert_rewrite("tests.support.chaos")


@pytest.fixture(autouse=True)
def _silent() -> Iterator[None]:
    with silent_engine():
        yield


@pytest.fixture
def strands() -> Iterator[Strands]:
    """Threads for simulated calls."""
    made = Strands()
    yield made
    made.close()
