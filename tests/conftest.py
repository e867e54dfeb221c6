"""Fixtures that every test may ask for."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

pytest_plugins = ["tests.support.emulator", "tests.support.profiles"]


@pytest.fixture(autouse=True)
def _logging_stays_on() -> Iterator[None]:
    """Commands that run many worlds switch logging off for their process, which is this one."""
    yield
    logging.disable(logging.NOTSET)
