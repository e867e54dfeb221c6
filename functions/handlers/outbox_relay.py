"""Change stream of the executions table: sends what committed changes let out."""

from __future__ import annotations

from functools import cache
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.runtime import flushing, make_logger
from piton import bootstrap
from piton.services.relay import Change
from piton.storage.attributes import decode_item

logger = make_logger()
services = cache(bootstrap.build_outbox)


def handler(event: dict[str, Any], _context: LambdaContext) -> None:
    """Relay one batch of the stream. Raises when anything was not accepted; it then repeats."""
    outbox = services()
    changes = [
        Change(decode_item(old) if (old := images.get("OldImage")) else None, decode_item(new))
        for record in event["Records"]
        if (images := record["dynamodb"]) and (new := images.get("NewImage"))
    ]
    with flushing(outbox.metrics):
        outbox.relay.relay(changes)
