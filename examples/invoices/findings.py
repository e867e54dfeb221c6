"""What the checks find, and what the nodes hand on to each other."""

from __future__ import annotations

from enum import StrEnum

from examples.invoices.intake import MediaType
from examples.invoices.reading import Format
from examples.invoices.record import Invoice, Model


class Rule(StrEnum):
    """Rules of this pipeline; arithmetic ones carry their EN 16931 or Peppol names instead."""

    SUPPLIER_UNKNOWN = "SUPPLIER_UNKNOWN"
    SUPPLIER_BLOCKED = "SUPPLIER_BLOCKED"
    VAT_ID_MISSING = "VAT_ID_MISSING"
    VAT_ID_INVALID = "VAT_ID_INVALID"
    IBAN_MISSING = "IBAN_MISSING"
    IBAN_INVALID = "IBAN_INVALID"
    IBAN_NOT_ON_FILE = "IBAN_NOT_ON_FILE"
    DUPLICATE_NUMBER = "DUPLICATE_NUMBER"
    BUYER_UNKNOWN = "BUYER_UNKNOWN"
    TYPE_NOT_ALLOWED = "TYPE_NOT_ALLOWED"
    CURRENCY_NOT_ALLOWED = "CURRENCY_NOT_ALLOWED"
    AMOUNT_OVER_LIMIT = "AMOUNT_OVER_LIMIT"
    AMOUNT_NOT_POSITIVE = "AMOUNT_NOT_POSITIVE"
    DUE_BEFORE_ISSUE = "DUE_BEFORE_ISSUE"
    TERM_TOO_LONG = "TERM_TOO_LONG"


class Finding(Model):
    """One broken rule. `where` is a place in the record; `expected` and `stated` are values."""

    rule: str
    where: str
    expected: str | None = None
    stated: str | None = None


class Ingested(Model):
    """Result of `ingest`. `size` is in bytes."""

    name: str
    media_type: MediaType
    size: int
    sha256: str


class Extracted(Model):
    """Result of `extract`."""

    format: Format
    invoice: Invoice


class Checked(Model):
    """Result of each check."""

    findings: tuple[Finding, ...]


class Decision(Model):
    """Result of `decide`; the workflow's conditions read `accepted`."""

    accepted: bool
    invoice: Invoice
    findings: dict[str, tuple[Finding, ...]]
