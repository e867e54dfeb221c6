"""From a document's bytes to the invoice record."""

from __future__ import annotations

from enum import StrEnum

from examples.invoices import cii, pdf, printed, ubl
from examples.invoices.intake import MediaType
from examples.invoices.record import Invoice
from examples.invoices.safe_xml import root_of
from examples.invoices.unreadable import Reason, Unreadable


class Format(StrEnum):
    UBL = "ubl-2.1"
    CII = "cii-d16b"
    PDF_TEXT = "pdf-text"
    PDF_WITH_XML = "pdf-with-xml"


def read(document: bytes, media_type: MediaType) -> tuple[Format, Invoice]:
    """Read an invoice of any supported format.

    Raises `Unreadable` with the reason and the place of the fault.
    """
    match media_type:
        case MediaType.XML:
            return _read_xml(document)
        case MediaType.PDF:
            found = pdf.contents(document)
            if isinstance(found, bytes):
                return Format.PDF_WITH_XML, _read_xml(found)[1]
            return Format.PDF_TEXT, printed.read(found)


def _read_xml(document: bytes) -> tuple[Format, Invoice]:
    root = root_of(document)
    match root.tag:
        case ubl.ROOT:
            return Format.UBL, ubl.read(root)
        case cii.ROOT:
            return Format.CII, cii.read(root)
        case _:
            raise Unreadable(Reason.NOT_AN_INVOICE)
