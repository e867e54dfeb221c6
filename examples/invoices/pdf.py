"""What a PDF says: the invoice XML inside it where there is one (Factur-X), else its text."""

from __future__ import annotations

import logging
import re
from io import BytesIO

from pypdf import PageObject, PasswordType, PdfReader, apply_configuration

from examples.invoices.unreadable import Reason, Unreadable

MAX_PAGES = 40
MAX_TEXT = 400_000
MAX_STREAM_BYTES = 4_000_000
_ATTACHMENTS = ("factur-x.xml", "zugferd-invoice.xml", "xrechnung.xml")

# Its warnings on damaged files quote the file.
logging.getLogger("pypdf").setLevel(logging.CRITICAL)


def contents(document: bytes) -> bytes | str:
    """The embedded invoice XML as bytes, or the text of all pages with columns kept apart.

    Raises `Unreadable` (a `PDF_` reason) for a file that is damaged, locked, too long or only
    pictures. A crash inside the library on a stranger's file is taken as damage to the file: pypdf
    raises whatever its object model runs into.
    """
    limits = apply_configuration(
        maximum_declared_stream_length=MAX_STREAM_BYTES,
        zlib_maximum_output_length=MAX_STREAM_BYTES,
        lzw_maximum_output_length=MAX_STREAM_BYTES,
        run_length_maximum_output_length=MAX_STREAM_BYTES,
        stream_decoding_work_maximum_length=4 * MAX_STREAM_BYTES,
        stream_parsing_work_maximum_count=200_000,
    )
    try:
        with limits:
            reader = PdfReader(BytesIO(document))
            if reader.is_encrypted:
                _unlock(reader)
            return _embedded_invoice(reader) or _text(reader)
    except (Unreadable, MemoryError):
        raise
    except Exception:  # noqa: BLE001
        damaged = Unreadable(Reason.PDF_MALFORMED)
    raise damaged


def _unlock(reader: PdfReader) -> None:
    """Open a file that only restricts printing or copying: its user password is empty."""
    try:
        opened = reader.decrypt("")
    except Exception:  # noqa: BLE001
        # AES needs a native library, which is not worth its size in the bundle.
        opened = PasswordType.NOT_DECRYPTED
    if opened is PasswordType.NOT_DECRYPTED:
        raise Unreadable(Reason.PDF_ENCRYPTED)


def _embedded_invoice(reader: PdfReader) -> bytes | None:
    attachments = reader.attachments
    for name in _ATTACHMENTS:
        if name in attachments:
            return attachments[name][0]
    return None


def _text(reader: PdfReader) -> str:
    if len(reader.pages) > MAX_PAGES:
        raise Unreadable(Reason.PDF_TOO_LONG)
    text = ""
    for page in reader.pages:
        text += _page_text(page) + "\n"
        if len(text) > MAX_TEXT:
            raise Unreadable(Reason.PDF_TOO_LONG)
    if not re.search(r"\w", text):
        raise Unreadable(Reason.PDF_WITHOUT_TEXT)
    return text


def _page_text(page: PageObject) -> str:
    return page.extract_text(extraction_mode="layout", layout_mode_space_vertically=False)
