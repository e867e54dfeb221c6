"""Why a document cannot be read. The codes are stored with the failed node, so they are stable."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from pydantic import ValidationError

from examples.invoices.record import Invoice


class Reason(StrEnum):
    DOCUMENT_EMPTY = "DOCUMENT_EMPTY"
    DOCUMENT_TOO_LARGE = "DOCUMENT_TOO_LARGE"
    MEDIA_TYPE_MISMATCH = "MEDIA_TYPE_MISMATCH"
    XML_MALFORMED = "XML_MALFORMED"
    XML_FORBIDDEN = "XML_FORBIDDEN"
    NOT_AN_INVOICE = "NOT_AN_INVOICE"
    PDF_MALFORMED = "PDF_MALFORMED"
    PDF_ENCRYPTED = "PDF_ENCRYPTED"
    PDF_TOO_LONG = "PDF_TOO_LONG"
    PDF_WITHOUT_TEXT = "PDF_WITHOUT_TEXT"
    FIELD_MISSING = "FIELD_MISSING"
    FIELD_INVALID = "FIELD_INVALID"


class Unreadable(Exception):
    """The document can never be read, however often it is tried.

    `where` names a place of the format or of the record (`cbc:IssueDate`, `lines.0.net`), never
    anything that stands in the document.
    """

    def __init__(self, reason: Reason, where: str = "") -> None:
        super().__init__(f"{reason}: {where}" if where else reason.value)
        self.reason = reason
        self.where = where


_MISSING = ("missing", "too_short", "string_too_short")


def invoice_of(fields: Mapping[str, Any]) -> Invoice:
    """Validate what a parser found. Raises `Unreadable`, naming the first field at fault."""
    try:
        return Invoice.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        missing = first["input"] is None or first["type"] in _MISSING
        reason = Reason.FIELD_MISSING if missing else Reason.FIELD_INVALID
    # Outside of the handler, so that no traceback carries the library's message.
    raise Unreadable(reason, where)
