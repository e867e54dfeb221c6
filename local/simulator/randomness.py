"""Everything random comes from one seed."""

from __future__ import annotations

from random import Random


def seeded(name: str) -> Random:
    """Return a generator whose numbers follow from `name`, on every machine."""
    return Random(name)  # noqa: S311


def chance(random: Random, share: float) -> bool:
    """Return True in this share of calls."""
    return random.random() < share


class SeededRandom:
    """`ports.Random` from one seed. Names are counted, so none appears twice.

    `prefix` tells the names of one process apart from those of the others.
    """

    def __init__(self, random: Random, prefix: int) -> None:
        self._random = random
        self._prefix = prefix
        self._names = 0

    def uniform(self) -> float:
        """Return a number in [0, 1)."""
        return self._random.random()

    def ulid(self, now_ms: int) -> str:
        """Return a new execution id that sorts by time."""
        self._names += 1
        return f"0{now_ms:013d}{self._prefix:06d}{self._names:06d}"

    def nonce(self) -> str:
        """Return a text that no other claim has."""
        self._names += 1
        return f"{self._prefix}.{self._names}"
