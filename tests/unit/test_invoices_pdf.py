"""PDF invoices beyond the samples: pages, locks, bombs, and how print is read."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
from fpdf import FPDF
from fpdf.enums import EncryptionMethod
from pypdf import PdfReader

from examples.invoices import make_samples, pdf, printed
from examples.invoices.batch import SAMPLES
from examples.invoices.intake import MAX_DOCUMENT_BYTES, MediaType
from examples.invoices.languages import ENGLISH, GERMAN, Language
from examples.invoices.reading import read
from examples.invoices.record import Invoice, Line
from examples.invoices.sample_sheets import SHEETS
from examples.invoices.unreadable import Reason, Unreadable


def _read(document: bytes) -> Invoice:
    return read(document, MediaType.PDF)[1]


def _sample(name: str) -> Invoice:
    return _read((SAMPLES / name).read_bytes())


def _refusal(document: bytes) -> Unreadable:
    with pytest.raises(Unreadable) as refused:
        read(document, MediaType.PDF)
    return refused.value


def test_table_of_two_pages_is_read_to_its_end() -> None:
    reader = PdfReader(SAMPLES / "kessel-KR-88140.pdf")
    assert len(reader.pages) == 2
    lines = _sample("kessel-KR-88140.pdf").lines
    assert [line.id for line in lines] == [str(number) for number in range(1, 49)]
    assert all(re.fullmatch(r"[A-Z][a-z ]+ KR-\d{4}", line.description) for line in lines)
    assert lines[47] == Line(
        id="48",
        description="Gasket KR-2336",
        quantity=Decimal(1),
        unit="C62",
        price=Decimal("116.75"),
        net=Decimal("116.75"),
        category="S",
        rate=Decimal(19),
    )


def test_generator_is_deterministic_and_the_samples_are_its_output() -> None:
    first, second = make_samples.documents(), make_samples.documents()
    assert first == second
    for name in SHEETS:
        # Compression differs between builds of zlib, so files are compared by what they say.
        assert pdf.contents(first[name]) == pdf.contents((SAMPLES / name).read_bytes())


def test_pdf_that_only_restricts_copying_is_read() -> None:
    sheet = make_samples.render(SHEETS["quickprint-5512.pdf"])
    sheet.set_encryption("owner", encryption_method=EncryptionMethod.RC4)
    document = bytes(sheet.output())
    assert b"/Encrypt" in document
    assert _read(document) == _sample("quickprint-5512.pdf")


def test_pdf_of_too_many_pages_is_refused() -> None:
    book = FPDF()
    book.set_font("Helvetica")
    for _ in range(pdf.MAX_PAGES + 1):
        book.add_page()
        book.cell(text="Invoice number 1")
    assert _refusal(bytes(book.output())).reason is Reason.PDF_TOO_LONG


def test_pdf_that_unpacks_to_a_multiple_of_its_size_is_refused() -> None:
    bomb = FPDF()
    bomb.set_font("Helvetica")
    bomb.add_page()
    bomb.cell(text=" " * (pdf.MAX_STREAM_BYTES + 1))
    document = bytes(bomb.output())
    assert len(document) < MAX_DOCUMENT_BYTES
    assert _refusal(document).reason is Reason.PDF_MALFORMED


@pytest.mark.parametrize(
    ("language", "text", "number"),
    [
        (ENGLISH, "1,234,567.89", "1234567.89"),
        (ENGLISH, "12", "12"),
        (ENGLISH, "-83.65", "-83.65"),
        (ENGLISH, "1.234,50", "1.234,50"),
        (ENGLISH, "12,34", "12,34"),
        (GERMAN, "1.234,50", "1234.50"),
        (GERMAN, "2,5", "2.5"),
        (GERMAN, "1234,5", "1234.5"),
        (GERMAN, "1.23", "1.23"),
    ],
)
def test_printed_number(language: Language, text: str, number: str) -> None:
    assert language.number_text(text) == number


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("07.03.2025", "2025-03-07"),
        ("7 March 2025", "2025-03-07"),
        ("2025-03-07", "2025-03-07"),
        ("31.02.2025", "31.02.2025"),
        ("7 Brumaire 233", "7 Brumaire 233"),
    ],
)
def test_printed_date(text: str, day: str) -> None:
    assert ENGLISH.date_text(text) == day


def _untaxed_page(note: str) -> str:
    return f"""Somebody Ltd
        VAT ID: IE6433435F  |  IBAN: IE29 AIBK 9311 5212 3456 78
        Bill to                      Invoice number    A-1
        Fernhill Coffee Roasters     Invoice date      1 March 2025
                                     Currency          EUR
        No   Description      Quantity   Unit price   VAT    Amount
        1    Consulting       2 h        50.00        0 %    100.00
        Subtotal                                            100.00
        Net total                                           100.00
        VAT 0 % on 100.00                                     0.00
        Total VAT                                             0.00
        Invoice total EUR                                   100.00
        Amount due EUR                                      100.00
        {note}"""


@pytest.mark.parametrize(
    ("note", "category"),
    [
        ("Reverse charge: the recipient owes the tax.", "AE"),
        ("Steuerschuldnerschaft des Leistungsempfängers", "AE"),
        ("VAT-exempt intra-community supply.", "K"),
        ("Thank you.", "Z"),
    ],
)
def test_category_of_an_untaxed_printed_invoice_is_in_its_note(note: str, category: str) -> None:
    invoice = printed.read(_untaxed_page(note))
    assert {invoice.lines[0].category, invoice.taxes[0].category} == {category}
    assert invoice.due_date is None
    assert invoice.buyer.vat_id is None


def test_row_that_only_looks_like_a_line_is_no_line() -> None:
    page = _untaxed_page("").replace("2 h        50.00", "two        50.00")
    with pytest.raises(Unreadable) as refused:
        printed.read(page)
    assert (refused.value.reason, refused.value.where) == (Reason.FIELD_MISSING, "lines")
