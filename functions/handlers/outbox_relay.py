"""Change stream of the executions table: sends what committed changes let out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.runtime import flushing, make_logger
from piton import bootstrap
from piton.domain.errors import Bug
from piton.services.relay import Change, Relay
from piton.storage.attributes import decode_item

logger = make_logger()
services = cache(bootstrap.build_outbox)


def handler(event: dict[str, Any], _context: LambdaContext) -> None:
    """Relay one batch of the stream. Raises when anything was not accepted; it then repeats."""
    outbox = services()
    with flushing(outbox.metrics):
        outbox.relay.relay(_changes(event["Records"], outbox.relay))


def _changes(records: Iterable[dict[str, Any]], relay: Relay) -> Iterator[Change]:
    for record in records:
        images = record["dynamodb"]
        old, new = images.get("OldImage"), images.get("NewImage")
        if new:
            try:
                yield Change(decode_item(old) if old else None, decode_item(new))
            except Bug:
                relay.leave_out(record["dynamodb"].get("Keys"))
