"""Every sample, readable or not, and what intake refuses before any parser."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from examples.invoices.batch import SAMPLES, samples
from examples.invoices.intake import MAX_DOCUMENT_BYTES, Document, MediaType
from examples.invoices.reading import Format, read
from examples.invoices.record import Invoice
from examples.invoices.unreadable import Reason, Unreadable

_MEDIA = {".xml": MediaType.XML, ".pdf": MediaType.PDF}
_TABLE = samples()
READABLE = {path: expected for path, expected in _TABLE.items() if expected.code is None}
UNREADABLE = {path: expected for path, expected in _TABLE.items() if expected.code is not None}


def _read(path: Path) -> tuple[Format, Invoice]:
    return read(path.read_bytes(), _MEDIA[path.suffix])


def _sample(name: str) -> Invoice:
    return _read(SAMPLES / name)[1]


def _refusal(document: bytes, media_type: MediaType) -> Unreadable:
    with pytest.raises(Unreadable) as refused:
        read(document, media_type)
    return refused.value


def test_every_sample_is_in_the_table_of_expectations() -> None:
    documents = {path for path in SAMPLES.rglob("*") if path.suffix in _MEDIA}
    assert documents == set(_TABLE)


@pytest.mark.parametrize("path", READABLE, ids=lambda path: path.name)
def test_sample_is_read_and_its_record_survives_json(path: Path) -> None:
    found, invoice = _read(path)
    assert found == READABLE[path].format
    # Files are named supplier-number.
    assert path.stem.split("-", 1)[1].removeprefix("koffie-") == invoice.number
    assert Invoice.model_validate(invoice.to_json()) == invoice


@pytest.mark.parametrize(
    "pair", ["nordlicht-RE-2025-0417", "delta-koffie-20250093", "kessel-KR-88120"]
)
def test_pdf_and_xml_of_one_invoice_give_one_record(pair: str) -> None:
    assert _sample(f"{pair}.pdf") == _sample(f"{pair}.xml")


def test_pdf_with_an_embedded_invoice_gives_the_record_of_its_xml() -> None:
    assert _sample("atelier-F2025-118.pdf") == _sample("atelier-F2025-118.xml")


def test_ubl_record_in_full() -> None:
    invoice = _sample("kessel-KR-88120.xml")
    assert invoice.to_json() == {
        "number": "KR-88120",
        "type_code": "380",
        "issue_date": "2025-03-14",
        "due_date": "2025-03-28",
        "currency": "EUR",
        "order_reference": "PO-4715",
        "supplier": {"name": "Kessel & Ritter Maschinenbau GmbH", "vat_id": "DE300876544"},
        "buyer": {"name": "Fernhill Coffee Roasters GmbH", "vat_id": "DE300112238"},
        "payee_iban": "DE65830654080004711815",
        "lines": [
            _line("1", "Inspection of drum roaster", "6.75", "HUR", "96", "648.00"),
            _line("2", "Gasket set", "4", "C62", "37.125", "148.50"),
            _line("3", "Travel allowance", "1", "C62", "40", "40.00"),
        ],
        "adjustments": [
            {
                "reason": "Maintenance contract discount",
                "amount": "-83.65",
                "category": "S",
                "rate": "19",
            }
        ],
        "taxes": [{"category": "S", "rate": "19", "taxable": "752.85", "tax": "143.04"}],
        "totals": {
            "lines": "836.50",
            "allowances": "83.65",
            "charges": "0.00",
            "tax_exclusive": "752.85",
            "tax": "143.04",
            "tax_inclusive": "895.89",
            "prepaid": "200.00",
            "rounding": "0.00",
            "payable": "695.89",
        },
    }


def _line(
    number: str, description: str, quantity: str, unit: str, price: str, net: str
) -> dict[str, str]:
    return {
        "id": number,
        "description": description,
        "quantity": quantity,
        "unit": unit,
        "price": price,
        "price_base": "1",
        "adjustment": "0.00",
        "net": net,
        "category": "S",
        "rate": "19",
    }


def test_cii_fields_that_no_other_sample_has() -> None:
    invoice = _sample("atelier-F2025-118.xml")
    assert invoice.issue_date == date(2025, 3, 17)
    assert invoice.due_date == date(2025, 4, 16)
    assert invoice.supplier.vat_id == "FR85900001009"
    assert invoice.order_reference == "PO-4698"
    assert invoice.lines[1].adjustment == Decimal("-35.00")
    assert [(x.reason, x.amount, x.category) for x in invoice.adjustments] == [
        ("Courier", Decimal("25.00"), "AE")
    ]
    assert invoice.totals.charges == Decimal("25.00")


@pytest.mark.parametrize("path", UNREADABLE, ids=lambda path: path.name)
def test_malformed_document_is_refused_with_its_code(path: Path) -> None:
    expected = UNREADABLE[path]
    if expected.node == "extract":
        assert _refusal(path.read_bytes(), _MEDIA[path.suffix]).reason == expected.code


@pytest.mark.parametrize(
    ("name", "where"),
    [("without-date.xml", "issue_date"), ("words-for-numbers.xml", "totals.payable")],
)
def test_refusal_names_the_place_and_never_the_text(name: str, where: str) -> None:
    refused = _refusal((SAMPLES / "malformed" / name).read_bytes(), MediaType.XML)
    assert refused.where == where
    assert "hundred" not in str(refused)
    assert refused.__context__ is None


def _documents() -> Iterator[tuple[str, Document, Reason]]:
    xml, pdf_ = "PGEvPg==", "JVBERi0xLjcK"
    yield "empty", _document(MediaType.XML, ""), Reason.DOCUMENT_EMPTY
    yield "blank", _document(MediaType.XML, "ICAK"), Reason.DOCUMENT_EMPTY
    yield "not base64", _document(MediaType.XML, "<a/>"), Reason.FIELD_INVALID
    yield "not ASCII", _document(MediaType.XML, "ÄÖÜ="), Reason.FIELD_INVALID
    yield "XML as PDF", _document(MediaType.PDF, xml), Reason.MEDIA_TYPE_MISMATCH
    yield "PDF as XML", _document(MediaType.XML, pdf_), Reason.MEDIA_TYPE_MISMATCH
    large = "QUFB" * (MAX_DOCUMENT_BYTES // 3 + 2)
    yield "too large", _document(MediaType.XML, large), Reason.DOCUMENT_TOO_LARGE


def _document(media_type: MediaType, content: str) -> Document:
    return Document(name="x", media_type=media_type, content_base64=content)


@pytest.mark.parametrize(
    ("document", "reason"),
    [pytest.param(document, reason, id=name) for name, document, reason in _documents()],
)
def test_intake_refuses(document: Document, reason: Reason) -> None:
    with pytest.raises(Unreadable) as refused:
        document.content()
    assert refused.value.reason is reason
