"""Small numbers that stand for values: equal values have equal numbers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

H = TypeVar("H", bound=Hashable)


class Numbers(Generic[H]):
    """Gives out numbers, from 0 in the order of first sight."""

    def __init__(self) -> None:
        self._numbers: dict[H, int] = {}
        self._items: list[H] = []

    def number(self, item: H) -> int:
        """Return the number of a value."""
        number = self._numbers.get(item)
        if number is None:
            number = self._numbers[item] = len(self._items)
            self._items.append(item)
        return number

    def item(self, number: int) -> H:
        """Return the value of a number."""
        return self._items[number]


def with_one(numbers: tuple[int, ...], number: int) -> tuple[int, ...]:
    """Add a number to a sorted tuple."""
    return tuple(sorted((*numbers, number)))


def without_one(numbers: tuple[int, ...], number: int) -> tuple[int, ...]:
    """Take one occurrence of a number out of a tuple."""
    index = numbers.index(number)
    return (*numbers[:index], *numbers[index + 1 :])
