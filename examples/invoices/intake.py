"""The input of an execution: one document and what the buyer's company knows and allows."""

from __future__ import annotations

import base64
import binascii
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from examples.invoices.record import Amount, Model, Number
from examples.invoices.unreadable import Reason, Unreadable

MAX_DOCUMENT_BYTES = 500_000
"""Base64 of this and the reference data stay below the 1 MB that AppSync takes."""


class MediaType(StrEnum):
    XML = "application/xml"
    PDF = "application/pdf"


class Document(Model):
    name: Annotated[str, Field(min_length=1, max_length=200)]
    media_type: MediaType
    content_base64: str

    def content(self) -> bytes:
        """The document's bytes.

        Raises `Unreadable` when they are too many or none, are not base64, or begin like another
        format than `media_type` says.
        """
        if len(self.content_base64) > MAX_DOCUMENT_BYTES * 4 // 3 + 4:
            raise Unreadable(Reason.DOCUMENT_TOO_LARGE)
        content = _decoded(self.content_base64)
        if not content.strip():
            raise Unreadable(Reason.DOCUMENT_EMPTY)
        if _is_pdf(content) != (self.media_type is MediaType.PDF):
            raise Unreadable(Reason.MEDIA_TYPE_MISMATCH)
        return content


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        pass
    raise Unreadable(Reason.FIELD_INVALID, "document.content_base64")


def _is_pdf(content: bytes) -> bool:
    """Readers accept the header anywhere in the first kilobyte (ISO 32000-1, annex H)."""
    return b"%PDF-" in content[:1024]


class Supplier(Model):
    """A supplier on file. `ibans` are the accounts that it may be paid on."""

    vat_id: str
    name: str
    ibans: tuple[str, ...]
    blocked: bool = False


class Booked(Model):
    """An invoice that was booked before."""

    supplier_vat: str
    number: str


class Accounts(Model):
    """Account numbers of the general ledger."""

    expense: str
    input_tax: str
    tax_due: str
    payables: str
    prepayments: str
    rounding: str


class Policy(Model):
    """What may be paid without a person looking at it.

    `limits` maps each accepted currency to the highest amount with tax. `rounding_tolerance` is how
    far a line's net amount and a tax amount may be off. `home_rate` is the VAT rate, in percent,
    that the buyer owes itself on reverse charge and intra-community supplies.
    """

    buyer_vat_ids: tuple[str, ...]
    limits: dict[str, Amount]
    max_payment_days: int = 60
    type_codes: tuple[str, ...] = ("380",)
    rounding_tolerance: Amount = Decimal("0.00")
    home_rate: Number
    accounts: Accounts


Seconds = Annotated[float, Field(ge=0, le=300)]


class Case(Model):
    """`pace_s` makes bodies wait: every node, or each by its id."""

    document: Document
    suppliers: tuple[Supplier, ...]
    ledger: tuple[Booked, ...] = ()
    policy: Policy
    pace_s: Seconds | dict[str, Seconds] = 0

    def pace_of(self, node_id: str) -> float:
        """Seconds that the body of `node_id` waits before it works."""
        if isinstance(self.pace_s, dict):
            return self.pace_s.get(node_id, 0)
        return self.pace_s
