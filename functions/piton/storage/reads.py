"""Reads of DynamoDB tables: projected, paged to the end, and their cost counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal

from piton.adapters.aws_errors import translated
from piton.domain.errors import Retry
from piton.domain.rows import Attributes, Value
from piton.storage.algebra import Table
from piton.storage.attributes import decode_item, encode
from piton.storage.keys import Index, Key
from piton.storage.views import KEY_ATTRIBUTES

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import (
        AttributeValueTypeDef,
        ConsumedCapacityTypeDef,
        KeysAndAttributesTypeDef,
        QueryInputTypeDef,
    )

BATCH_GET_LIMIT: Final = 100
_FRUITLESS_ROUNDS: Final = 6
_FIRST_PAUSE_S: Final = 0.025

OnCapacity = Callable[[str, "ConsumedCapacityTypeDef"], None]
"""Told the API action and what one table charged for it."""


class Meter:
    """Asks for and passes on consumed capacity, when somebody listens."""

    def __init__(self, listener: OnCapacity | None) -> None:
        self._listener = listener

    @property
    def detail(self) -> Literal["INDEXES", "NONE"]:
        """What a request asks for."""
        return "INDEXES" if self._listener else "NONE"

    def add(self, action: str, *charges: ConsumedCapacityTypeDef | None) -> None:
        """Pass on what an answer says about its cost."""
        for charge in charges:
            if self._listener is not None and charge is not None:
                self._listener(action, charge)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A range of one partition, of a table or of one of its indexes."""

    table: Table
    condition: str
    values: Mapping[str, Value]
    attributes: Sequence[str]
    index: Index | None = None
    matching: str | None = None
    descending: bool = False
    start: Mapping[str, Value] | None = None
    page_size: int | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """What one request answered. `last` is where to go on, None at the end of the range."""

    items: list[Attributes] = field(default_factory=list)
    last: Attributes | None = None


class Reads:
    """Reads by key and by range. Base tables are read consistently, indexes cannot be."""

    def __init__(
        self,
        client: DynamoDBClient,
        tables: Mapping[Table, str],
        meter: Meter,
        pause: Callable[[float], None],
    ) -> None:
        self._client = client
        self._tables = tables
        self._meter = meter
        self._pause = pause

    def get(self, key: Key, attributes: Iterable[str]) -> Attributes | None:
        """Return the given attributes of one item, those of its key included."""
        with translated("GetItem"):
            answer = self._client.get_item(
                TableName=self._tables[key.table],
                Key=wire_key(key),
                ConsistentRead=True,
                ProjectionExpression=_projection(attributes),
                ReturnConsumedCapacity=self._meter.detail,
            )
        self._meter.add("GetItem", answer.get("ConsumedCapacity"))
        item = answer.get("Item")
        return None if item is None else decode_item(item)

    def get_many(
        self, table: Table, keys: Iterable[Key], attributes: Iterable[str]
    ) -> Iterator[Attributes]:
        """Return items of distinct keys in any order; missing ones are left out.

        Raises `Retry` when the table goes on leaving keys unprocessed.
        """
        remaining = iter(keys)
        projection = _projection(attributes)
        while chunk := list(islice(remaining, BATCH_GET_LIMIT)):
            request: KeysAndAttributesTypeDef = {
                "Keys": [wire_key(key) for key in chunk],
                "ConsistentRead": True,
                "ProjectionExpression": projection,
            }
            yield from self._get_all(self._tables[table], request)

    def _get_all(self, table: str, request: KeysAndAttributesTypeDef) -> Iterator[Attributes]:
        fruitless = 0
        while True:
            with translated("BatchGetItem"):
                answer = self._client.batch_get_item(
                    RequestItems={table: request}, ReturnConsumedCapacity=self._meter.detail
                )
            self._meter.add("BatchGetItem", *answer.get("ConsumedCapacity", ()))
            found = answer["Responses"].get(table, [])
            yield from map(decode_item, found)
            left = answer.get("UnprocessedKeys", {}).get(table)
            if not left:
                return
            fruitless = 0 if len(left["Keys"]) < len(request["Keys"]) else fruitless + 1
            request = {**request, "Keys": left["Keys"]}
            if fruitless >= _FRUITLESS_ROUNDS:
                raise Retry("BatchGetItem: keys stay unprocessed")
            self._pause(_FIRST_PAUSE_S * 2**fruitless)

    def pages(self, query: Query) -> Iterator[Page]:
        """Return the pages of a range, each read when it is asked for."""
        request = self._request(query)
        while True:
            with translated("Query"):
                answer = self._client.query(**request)
            self._meter.add("Query", answer.get("ConsumedCapacity"))
            last = answer.get("LastEvaluatedKey")
            yield Page(
                [decode_item(item) for item in answer["Items"]],
                decode_item(last) if last else None,
            )
            if not last:
                return
            request["ExclusiveStartKey"] = last

    def items(self, query: Query) -> Iterator[Attributes]:
        """Return the items of a range to its end."""
        for page in self.pages(query):
            yield from page.items

    def _request(self, query: Query) -> QueryInputTypeDef:
        request: QueryInputTypeDef = {
            "TableName": self._tables[query.table],
            "KeyConditionExpression": query.condition,
            "ExpressionAttributeValues": _wire(query.values),
            "Select": "SPECIFIC_ATTRIBUTES",
            "ProjectionExpression": _projection(query.attributes),
            "ConsistentRead": query.index is None,
            "ScanIndexForward": not query.descending,
            "ReturnConsumedCapacity": self._meter.detail,
        }
        if query.index is not None:
            request["IndexName"] = query.index.name
        if query.matching is not None:
            request["FilterExpression"] = query.matching
        if query.start is not None:
            request["ExclusiveStartKey"] = _wire(query.start)
        if query.page_size is not None:
            request["Limit"] = query.page_size
        return request


def wire_key(key: Key) -> dict[str, AttributeValueTypeDef]:
    """Return a primary key as requests carry it."""
    return _wire({"pk": key.pk, "sk": key.sk})


def _wire(values: Mapping[str, Value]) -> dict[str, AttributeValueTypeDef]:
    return {name: encode(value) for name, value in values.items()}


def _projection(attributes: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys((*KEY_ATTRIBUTES, *attributes)))
