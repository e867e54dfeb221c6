"""Pages of long answers, and the opaque tokens that lead from one to the next."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Final

from piton.domain.canonical import Json
from piton.domain.errors import ErrorCode, Rejected

START: Final = (0, 0)


def page(items: Sequence[Json], next_token: str | None) -> dict[str, Json]:
    """Return the form that all pages of the API share."""
    return {"items": list(items), "nextToken": next_token}


def page_size(asked: int, most: int) -> int:
    """Return the checked size of a page. Raises `Rejected` outside 1 to `most`."""
    if not 1 <= asked <= most:
        raise Rejected(ErrorCode.INVALID_INPUT, f"limit must be between 1 and {most}")
    return asked


def encode_token(execution_id: str, position: tuple[int, int]) -> str:
    """Return a token for a position within the rows of one execution."""
    text = json.dumps([execution_id, *position], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_token(token: str, execution_id: str) -> tuple[int, int]:
    """Return the position of a token. Raises `Rejected` unless it is one of this execution."""
    try:
        padded = token + "=" * (-len(token) % 4)
        content = json.loads(base64.b64decode(padded.encode("ascii"), b"-_", validate=True))
    except (binascii.Error, UnicodeError, ValueError, RecursionError):
        content = None
    match content:
        case [str(named), int(first), int(second)] if named == execution_id:
            if first >= -1 and second >= 0:
                return first, second
    raise Rejected(
        ErrorCode.INVALID_INPUT,
        "nextToken must come from the page before it, of the same list",
    )
