"""What IAM is told of a DynamoDB request.

Sources, in the DynamoDB Developer Guide: "Using IAM policy conditions for fine-grained access
control" and "Using IAM with DynamoDB transactions". Where they are silent the reading that grants
less is taken for what a function needs: every key attribute of the table, or of the queried index,
counts as named. One parameter counts as invisible because no page says otherwise:
`ReturnValuesOnConditionCheckFailure` of a write outside a transaction.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from tests.iam.account import Account, TableKeys
from tests.iam.expressions import attributes, partition_value
from tests.iam.patterns import Context, Undecidable
from tests.iam.policy import Request

Params = Mapping[str, Any]

_EXPRESSIONS: Final = (
    "UpdateExpression",
    "ConditionExpression",
    "FilterExpression",
    "KeyConditionExpression",
    "ProjectionExpression",
)
_LEGACY: Final = ("AttributeUpdates", "Expected", "KeyConditions", "QueryFilter", "ScanFilter")
_WRITES: Final = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem"}
_TRANSACTED: Final = {**_WRITES, "ConditionCheck": "ConditionCheckItem", "Get": "GetItem"}


def requests(operation: str, params: Params, account: Account) -> Iterator[Request]:
    """Return what has to be allowed for a call: several things for batches and transactions."""
    build = _BUILDERS.get(operation)
    if build is None:
        raise Undecidable(f"DynamoDB's {operation} is not evaluated here")
    yield from build(operation, params, account)


def _single(operation: str, params: Params, account: Account) -> Iterator[Request]:
    arn, keys = account.table(params["TableName"])
    if operation == "GetItem":
        extra = _select(params)
    else:
        extra = _returns(params.get("ReturnValues", "NONE"))
    yield _request(operation, arn, _leading(keys, [_item(params)]), _names(params, keys), extra)


def _query(operation: str, params: Params, account: Account) -> Iterator[Request]:
    arn, keys = account.table(params["TableName"])
    if (index := params.get("IndexName")) is not None:
        if index not in keys.indexes:
            raise Undecidable(f"index {index!r} is not known here")
        arn, keys = f"{arn}/index/{index}", TableKeys(keys.indexes[index])
    names, partition = _names(params, keys), keys.table[0]
    leading = [] if operation == "Scan" else [_partition_of_query(params, partition)]
    yield _request(operation, arn, leading, names, _select(params, index))


def _batch_get(operation: str, params: Params, account: Account) -> Iterator[Request]:
    for table, wanted in params["RequestItems"].items():
        arn, keys = account.table(table)
        leading = _leading(keys, wanted["Keys"])
        yield _request(operation, arn, leading, _names(wanted, keys), _select(wanted))


def _batch_write(operation: str, params: Params, account: Account) -> Iterator[Request]:
    for table, writes in params["RequestItems"].items():
        arn, keys = account.table(table)
        items = [
            write["PutRequest"]["Item"] if "PutRequest" in write else write["DeleteRequest"]["Key"]
            for write in writes
        ]
        names = {name for item in items for name in item} | set(keys.table)
        yield _request(operation, arn, _leading(keys, items), names, {})


def _transaction(operation: str, params: Params, account: Account) -> Iterator[Request]:
    for entry in params["TransactItems"]:
        ((kind, inner),) = entry.items()
        arn, keys = account.table(inner["TableName"])
        extra: Context = {}
        if kind == "Get":
            extra = _select(inner)
        elif (returns := inner.get("ReturnValuesOnConditionCheckFailure")) is not None:
            extra = _returns(returns)
        extra = {**extra, "dynamodb:EnclosingOperation": (operation,)}
        leading = _leading(keys, [_item(inner)])
        yield _request(_TRANSACTED[kind], arn, leading, _names(inner, keys), extra)


_BUILDERS: Final[Mapping[str, Callable[[str, Params, Account], Iterator[Request]]]] = {
    "GetItem": _single,
    "PutItem": _single,
    "UpdateItem": _single,
    "DeleteItem": _single,
    "Query": _query,
    "Scan": _query,
    "BatchGetItem": _batch_get,
    "BatchWriteItem": _batch_write,
    "TransactGetItems": _transaction,
    "TransactWriteItems": _transaction,
}


def _request(
    operation: str,
    arn: str,
    leading: Iterable[str],
    names: Iterable[str],
    extra: Context,
) -> Request:
    context = {
        "dynamodb:LeadingKeys": tuple(dict.fromkeys(leading)),
        "dynamodb:Attributes": tuple(sorted(names)),
        **extra,
    }
    return Request(
        action=f"dynamodb:{operation}",
        resource=arn,
        context={key.lower(): values for key, values in context.items() if values},
    )


def _item(params: Params) -> Params:
    item: Params = params["Item"] if "Item" in params else params["Key"]
    return item


def _names(params: Params, keys: TableKeys) -> set[str]:
    aliases = params.get("ExpressionAttributeNames", {})
    names = set(keys.table) | set(params.get("Item", ())) | set(params.get("Key", ()))
    names |= set(aliases.values()) | set(params.get("AttributesToGet", ()))
    for part in _EXPRESSIONS:
        if (expression := params.get(part)) is not None:
            names |= attributes(expression, aliases)
    for part in _LEGACY:
        names |= set(params.get(part, ()))
    return names


def _leading(keys: TableKeys, items: Iterable[Params]) -> list[str]:
    return [_plain(item[keys.table[0]]) for item in items]


def _partition_of_query(params: Params, partition: str) -> str:
    if (legacy := params.get("KeyConditions")) is not None:
        return _plain(legacy[partition]["AttributeValueList"][0])
    placeholder = partition_value(
        params["KeyConditionExpression"], params.get("ExpressionAttributeNames", {}), partition
    )
    return _plain(params["ExpressionAttributeValues"][placeholder])


def _select(params: Params, index: str | None = None) -> Context:
    """`Select` always has a value for reads: the request's own, or what it amounts to."""
    if (select := params.get("Select")) is not None:
        return {"dynamodb:Select": (select,)}
    if "ProjectionExpression" in params or "AttributesToGet" in params:
        return {"dynamodb:Select": ("SPECIFIC_ATTRIBUTES",)}
    return {"dynamodb:Select": ("ALL_PROJECTED_ATTRIBUTES" if index else "ALL_ATTRIBUTES",)}


def _returns(value: str) -> Context:
    return {"dynamodb:ReturnValues": (value,)}


def _plain(value: Mapping[str, Any]) -> str:
    ((kind, inner),) = value.items()
    if kind not in {"S", "N"}:
        raise Undecidable(f"a partition key of type {kind} is not evaluated here")
    return str(inner)
