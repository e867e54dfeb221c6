"""Requests to AWS in the words of the engine: which executions they are about, and what they do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, combinations
from typing import Any, Final

from piton.domain.names import EXECUTION_ID_PATTERN
from piton.storage.algebra import Arg, Increment, Operation, Remove
from piton.storage.expressions import expressions
from piton.storage.keys import PAYLOAD_PREFIX
from piton.storage.operations import OPERATIONS

Document = Mapping[str, Any]
Texts = tuple[str, str, frozenset[tuple[str, str]]]

_EXECUTION: Final = "EX#"
_IDEMPOTENCY: Final = "IDEM#"
_CONSTANT: Final = ":c"
_BLOB: Final = re.compile(rf"/{PAYLOAD_PREFIX}[^/]+/({EXECUTION_ID_PATTERN})/")
_INVOKE: Final = re.compile(r"/2015-03-31/functions/[^/]+/invocations")


@dataclass(frozen=True, order=True, slots=True)
class Touch:
    """What a request does to one execution: `owner` is its id, or the document it is for."""

    owner: str
    what: str


@dataclass(frozen=True, slots=True)
class Request:
    """A request as far as it is about executions. `creates` maps documents to new executions."""

    touches: tuple[Touch, ...] = ()
    writes: bool = False
    creates: Mapping[str, str] = field(default_factory=dict)


def read(method: str, path: str, target: str, body: bytes) -> Request:
    """Read a request of one of the functions. `target` is its `X-Amz-Target`, empty if none.

    Requests about no execution in particular have no touches: those for definitions, for the due
    list, and for how long a message stays hidden. Raises `ValueError` on what no function sends.
    """
    action = target.rpartition(".")[2]
    if not action:
        return _untargeted(method, path, body)
    document: Document = json.loads(body)
    return _READERS[action](document) if action in _READERS else Request()


@cache
def operations() -> Mapping[Texts, str]:
    """Names of the declared writes by what they look like on the wire.

    Writes that look the same, because they do the same, go by the names of all.
    """
    found: dict[Texts, list[str]] = {}
    for operation in OPERATIONS:
        optional = _optional(operation)
        for left_out in chain.from_iterable(
            combinations(optional, count) for count in range(len(optional) + 1)
        ):
            args = dict.fromkeys({*operation.arguments, *optional} - {*left_out}, 0)
            texts = expressions(operation, args)
            constants = _frozen(texts.constants)
            names = found.setdefault((texts.update, texts.condition, constants), [])
            names.append(operation.name)
    return {texts: " or ".join(names) for texts, names in found.items()}


def _update_item(update: Document) -> Request:
    owner = _owner(update["Key"])
    return Request((Touch(owner, _write(update)),) if owner else (), writes=True)


def _transact_write_items(document: Document) -> Request:
    updates = [item["Update"] for item in document["TransactItems"]]
    executions = {id_ for update in updates if (id_ := _execution(update["Key"]))}
    documents = {name for update in updates if (name := _document(update["Key"]))}
    # One write of one execution, whatever it is made up of.
    return Request(
        tuple(Touch(id_, _write(updates[0])) for id_ in sorted(executions)),
        writes=True,
        creates={name: id_ for name in documents for id_ in executions},
    )


def _get_item(document: Document) -> Request:
    return _gets([document["Key"]])


def _batch_get_item(document: Document) -> Request:
    return _gets(key for table in document["RequestItems"].values() for key in table["Keys"])


def _gets(keys: Iterable[Document]) -> Request:
    found = {Touch(owner, f"read {key['sk']['S']}") for key in keys if (owner := _owner(key))}
    return Request(tuple(sorted(found)))


def _query(document: Document) -> Request:
    values = document.get("ExpressionAttributeValues", {})
    partition: str = values.get(":pk", {}).get("S", "")
    if not partition.startswith(_EXECUTION):
        return Request()
    return Request((Touch(partition.rpartition("#")[2], "read all nodes"),))


def _send_message_batch(document: Document) -> Request:
    bodies = [json.loads(entry["MessageBody"]) for entry in document["Entries"]]
    return _messages((f"queue.send {body['node_id']}", body) for body in bodies)


def _put_events(document: Document) -> Request:
    events = [(entry["DetailType"], json.loads(entry["Detail"])) for entry in document["Entries"]]
    return _messages((_event(kind, detail), detail) for kind, detail in events)


_READERS: Final[Mapping[str, Callable[[Document], Request]]] = {
    "UpdateItem": _update_item,
    "TransactWriteItems": _transact_write_items,
    "GetItem": _get_item,
    "BatchGetItem": _batch_get_item,
    "Query": _query,
    "SendMessageBatch": _send_message_batch,
    "PutEvents": _put_events,
}


def _untargeted(method: str, path: str, body: bytes) -> Request:
    if blob := _BLOB.search(path):
        return Request((Touch(blob[1], f"blobs.{method.lower()}"),), writes=method == "PUT")
    if _INVOKE.match(path):
        context = json.loads(body).get("context", {})
        return _messages([("lambda.invoke", context)] if "execution_id" in context else [])
    return Request()


def _messages(messages: Iterable[tuple[str, Document]]) -> Request:
    touches = {Touch(about["execution_id"], what) for what, about in messages}
    return Request(tuple(sorted(touches)), writes=True)


def _event(kind: str, detail: Document) -> str:
    node = detail.get("node_id")
    return f"bus.put {kind} {node}" if node else f"bus.put {kind}"


def _write(update: Document) -> str:
    values = update.get("ExpressionAttributeValues", {})
    constants = {name: value for name, value in values.items() if name.startswith(_CONSTANT)}
    texts = (update["UpdateExpression"], update["ConditionExpression"], _frozen(constants))
    name = operations().get(texts)
    if name is None:
        raise ValueError(f"no declared operation writes {texts[0]!r} if {texts[1]!r}")
    return f"{name} {update['Key']['sk']['S']}"


def _optional(operation: Operation) -> list[str]:
    return sorted(
        change.operand.name
        for change in operation.changes
        if not isinstance(change, Remove | Increment)
        and isinstance(change.operand, Arg)
        and change.operand.optional
    )


def _frozen(constants: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    return frozenset((name, json.dumps(value)) for name, value in constants.items())


def _owner(key: Document) -> str | None:
    return _execution(key) or _document(key)


def _execution(key: Document) -> str | None:
    pk: str = key["pk"]["S"]
    return pk.rpartition("#")[2] if pk.startswith(_EXECUTION) else None


def _document(key: Document) -> str | None:
    pk: str = key["pk"]["S"]
    return pk.split("#", 2)[2] if pk.startswith(_IDEMPOTENCY) else None
