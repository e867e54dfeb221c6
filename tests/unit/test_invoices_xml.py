"""XML invoices beyond the samples: encodings, lexical forms, and what is no invoice."""

from __future__ import annotations

from decimal import Decimal

import pytest

from examples.invoices.batch import SAMPLES
from examples.invoices.intake import MediaType
from examples.invoices.reading import read
from examples.invoices.record import Invoice
from examples.invoices.unreadable import Reason, Unreadable

_UBL = (SAMPLES / "nordlicht-RE-2025-0417.xml").read_text("utf-8")


def _read(document: bytes) -> Invoice:
    return read(document, MediaType.XML)[1]


def _refusal(document: bytes) -> Unreadable:
    with pytest.raises(Unreadable) as refused:
        read(document, MediaType.XML)
    return refused.value


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "iso-8859-1"])
def test_xml_of_any_declared_encoding_is_read(encoding: str) -> None:
    declared = "utf-8" if encoding == "utf-8-sig" else encoding
    document = _UBL.replace('encoding="UTF-8"', f'encoding="{declared}"', 1).encode(encoding)
    assert _read(document) == _read(_UBL.encode())


@pytest.mark.parametrize(
    "document",
    [b"<", b"<a><b></a>", b'<?xml version="1.0" encoding="klingon"?><a/>', b"\xff\xfe\x00", b"{}"],
)
def test_what_is_no_xml_is_malformed(document: bytes) -> None:
    assert _refusal(document).reason is Reason.XML_MALFORMED


@pytest.mark.parametrize("number", ["1_000.00", "1e3", "NaN", "Infinity", "٣", "1,5", "9" * 60])
def test_number_outside_xml_schema_is_refused(number: str) -> None:
    document = _UBL.replace(">844.60</cbc:PayableAmount>", f">{number}</cbc:PayableAmount>")
    refused = _refusal(document.encode())
    assert (refused.reason, refused.where) == (Reason.FIELD_INVALID, "totals.payable")


@pytest.mark.parametrize("day", ["20250307", "1741305600", "2025-02-30", "7 March 2025"])
def test_date_outside_xml_schema_is_refused(day: str) -> None:
    document = _UBL.replace("<cbc:IssueDate>2025-03-07", f"<cbc:IssueDate>{day}")
    refused = _refusal(document.encode())
    assert (refused.reason, refused.where) == (Reason.FIELD_INVALID, "issue_date")


def test_invoice_without_lines_is_refused() -> None:
    start, end = _UBL.index("  <cac:InvoiceLine>"), _UBL.index("</Invoice>")
    refused = _refusal((_UBL[:start] + _UBL[end:]).encode())
    assert (refused.reason, refused.where) == (Reason.FIELD_MISSING, "lines")


def test_tax_total_in_the_accounting_currency_is_not_taken_for_the_invoices_own() -> None:
    second = '<cac:TaxTotal><cbc:TaxAmount currencyID="CHF">115.04</cbc:TaxAmount></cac:TaxTotal>'
    document = _UBL.replace("  <cac:TaxTotal>", f"  {second}\n  <cac:TaxTotal>", 1)
    assert _read(document.encode()).totals.tax == Decimal("120.71")
