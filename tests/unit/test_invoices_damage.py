"""Damaged documents are read or refused; they never crash a task."""

from __future__ import annotations

from io import BytesIO

from hypothesis import event, given, settings
from hypothesis import strategies as st

from examples.invoices.batch import SAMPLES
from examples.invoices.intake import MediaType
from examples.invoices.reading import read
from examples.invoices.record import Invoice
from examples.invoices.unreadable import Unreadable


def _damaged(document: bytes) -> st.SearchStrategy[bytes]:
    """`document` with a few bytes overwritten, or cut short."""

    def overwrite(edits: list[tuple[int, bytes]]) -> bytes:
        damaged = BytesIO(document)
        for offset, data in edits:
            damaged.seek(offset)
            damaged.write(data)
        return damaged.getvalue()

    offsets = st.integers(0, len(document) - 1)
    edits = st.lists(st.tuples(offsets, st.binary(min_size=1, max_size=6)), min_size=1, max_size=4)
    return edits.map(overwrite) | offsets.map(lambda end: document[:end])


@settings(max_examples=60, deadline=None)
@given(document=_damaged((SAMPLES / "quickprint-5512.pdf").read_bytes()))
def test_damaged_pdf_is_read_or_refused_and_nothing_else(document: bytes) -> None:
    _only_refusals(document, MediaType.PDF)


@settings(max_examples=60, deadline=None)
@given(document=_damaged((SAMPLES / "atelier-F2025-118.xml").read_bytes()))
def test_damaged_xml_is_read_or_refused_and_nothing_else(document: bytes) -> None:
    _only_refusals(document, MediaType.XML)


def _only_refusals(document: bytes, media_type: MediaType) -> None:
    try:
        _, invoice = read(document, media_type)
    except Unreadable as refused:
        event(refused.reason)
    else:
        assert Invoice.model_validate(invoice.to_json()) == invoice
