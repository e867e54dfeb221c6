"""What DynamoDB charges, added up by what it was spent on."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from piton.domain.rows import Attributes, Value

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import ConsumedCapacityTypeDef

WRITE_UNIT_BYTES: Final = 1024
READ_UNIT_BYTES: Final = 4096
_WRITES: Final = frozenset({"UpdateItem", "TransactWriteItems"})
_ELSEWHERE: Final = "reads"


@dataclass
class Ledger:
    """Units by purpose: the operation that wrote, or the action that read.

    Refused writes are charged but their answers do not say how much, and the emulator does not
    tell what BatchGetItem costs. Both are counted here: one unit for each refusal and for each
    key, which is what they cost while no row outgrows a unit; `largest_row` shows whether one did.
    """

    writes: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    reads: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    refused: int = 0
    largest_row: int = 0
    _purpose: str = _ELSEWHERE

    @property
    def write_units(self) -> float:
        return sum(self.writes.values())

    @property
    def read_units(self) -> float:
        return sum(self.reads.values())

    def reset(self) -> None:
        """Begin a new page."""
        self.writes.clear()
        self.reads.clear()
        self.refused = self.largest_row = 0

    @contextmanager
    def purpose(self, name: str) -> Iterator[None]:
        """Book writes under `name`."""
        before, self._purpose = self._purpose, name
        try:
            yield
        finally:
            self._purpose = before

    def charge(self, action: str, charge: ConsumedCapacityTypeDef) -> None:
        """Book what one table charged."""
        units = charge.get("CapacityUnits", 0.0)
        if action in _WRITES:
            self.writes[self._purpose] += units
        else:
            self.reads[action] += units

    def watch(self, client: DynamoDBClient) -> None:
        """Book what answers do not tell."""
        events = client.meta.events
        events.register("after-call.dynamodb.UpdateItem", self._after_update)
        events.register("provide-client-params.dynamodb.BatchGetItem", self._before_batch)

    def see(self, row: Attributes) -> None:
        """Take note of a row's size."""
        self.largest_row = max(self.largest_row, item_size(row))

    def _after_update(self, parsed: Mapping[str, Any], **_: object) -> None:
        if parsed.get("Error", {}).get("Code") == "ConditionalCheckFailedException":
            self.refused += 1
            self.writes[f"{self._purpose} (refused)"] += 1

    def _before_batch(self, params: Mapping[str, Any], **_: object) -> None:
        for request in params["RequestItems"].values():
            self.reads["BatchGetItem"] += len(request["Keys"])


def item_size(item: Attributes) -> int:
    """Return what DynamoDB takes for the size of an item, in bytes.

    As documented under "DynamoDB item sizes and formats" in its developer guide.
    """
    return sum(len(name.encode()) + _value_size(value) for name, value in item.items())


def _value_size(value: Value) -> int:
    match value:
        case None | bool():
            return 1
        case int():
            return math.ceil(len(str(abs(value)).rstrip("0")) / 2) + 1 + (value < 0)
        case str():
            return len(value.encode())
        case bytes():
            return len(value)
        case frozenset():
            return sum(map(_value_size, value))
        case list():
            return 3 + sum(1 + _value_size(element) for element in value)
        case dict():
            return 3 + sum(
                1 + len(name.encode()) + _value_size(member) for name, member in value.items()
            )
