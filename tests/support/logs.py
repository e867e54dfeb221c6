"""Silence where tests make the engine fail by the thousand."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def silent_engine() -> Iterator[None]:
    """Keep the engine from logging until the block ends."""
    logger = logging.getLogger("piton")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)
