"""Opaque tokens that mark where the next page of a list begins.

A token carries the last position and a digest over the list, its owner and its filters. The
digest has no secret: it tells an honest mistake, such as a token of another list or tenant, from
a real one. A forged token only moves its bearer inside the own list, because a position never
names the tenant; whoever reads the next page puts the caller's tenant into the key.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Final

from piton.domain import canonical
from piton.domain.errors import ErrorCode, Rejected

_MAX_LENGTH: Final = 1024
_DIGEST_LENGTH: Final = 16


def issue(scope: Sequence[str | None], position: Sequence[str]) -> str:
    """Return a token for `position` in the list that `scope` names: kind, tenant, filters."""
    document = canonical.dumps([_digest(scope, position), *position])
    return base64.urlsafe_b64encode(document.encode()).decode().rstrip("=")


def position(scope: Sequence[str | None], token: str, parts: int = 1) -> tuple[str, ...]:
    """Return the position in `token`, which has `parts` texts, none of them empty.

    Raises `Rejected` when the token is not of the list that `scope` names.
    """
    try:
        found = _read(scope, token)
    except ValueError:
        found = ()
    if len(found) != parts or not all(found):
        raise Rejected(
            ErrorCode.INVALID_INPUT,
            "the page token is not one of this list; start again without it",
        )
    return found


def _read(scope: Sequence[str | None], token: str) -> tuple[str, ...]:
    if len(token) > _MAX_LENGTH:
        raise ValueError("longer than any issued token")
    padded = token + "=" * (-len(token) % 4)
    document = base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    match canonical.loads(document):
        case [str(digest), *texts]:
            found = tuple(str(text) for text in texts)
            if digest == _digest(scope, found):
                return found
        case _:
            pass
    raise ValueError("not a token of this list")


def _digest(scope: Sequence[str | None], position: Sequence[str]) -> str:
    return canonical.digest(canonical.dumps([list(scope), list(position)]))[:_DIGEST_LENGTH]
