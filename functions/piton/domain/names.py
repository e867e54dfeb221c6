"""Names from outside that become parts of keys. None of them can hold a key's separator."""

from __future__ import annotations

import re
from typing import Final, Self

TENANT_PATTERN: Final = r"[a-z][a-z0-9-]{1,32}"
DOCUMENT_PATTERN: Final = r"[A-Za-z0-9][A-Za-z0-9_.:/@+=,-]{0,255}"
EXECUTION_ID_PATTERN: Final = r"[0-7][0-9A-HJKMNP-TV-Z]{25}"
"""A ULID, as https://github.com/ulid/spec writes it."""

_TENANT: Final = re.compile(TENANT_PATTERN)
_DOCUMENT: Final = re.compile(DOCUMENT_PATTERN)
_EXECUTION_ID: Final = re.compile(EXECUTION_ID_PATTERN)


class Tenant(str):
    """A valid tenant. Keys are built with this type, so there is none without a tenant.

    Raises `ValueError` on any other text.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        if isinstance(text, cls):
            return text
        if not _TENANT.fullmatch(text):
            raise ValueError(f"a tenant matches {TENANT_PATTERN}")
        return super().__new__(cls, text)


def is_document(text: str) -> bool:
    """Tell whether `text` can name the document of an idempotency key."""
    return _DOCUMENT.fullmatch(text) is not None


def is_execution_id(text: str) -> bool:
    """Tell whether `text` has the form of an execution id."""
    return _EXECUTION_ID.fullmatch(text) is not None
