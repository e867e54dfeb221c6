"""Write the sample PDFs: `python -m examples.invoices.make_samples [DIRECTORY]`.

The XML samples are written by hand. Output is the same to the byte on every run of one version of
fpdf2. Nothing here uses the parsers or the checks.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

from fpdf import FPDF
from fpdf.enums import EncryptionMethod

from examples.invoices.sample_sheets import FACTUR_X, SHEETS, Sheet

SAMPLES = Path(__file__).parent / "samples"
_CREATED = datetime(2025, 3, 1, 9, 0, tzinfo=UTC)
_COLUMNS = ((10, "L"), (76, "L"), (26, "R"), (28, "R"), (18, "R"), (27, "R"))
"""Width in millimetres and alignment of the table's columns."""


class _Paper(FPDF):
    def __init__(self, sheet: Sheet) -> None:
        super().__init__()
        self._sheet = sheet
        self.set_creation_date(_CREATED)
        self.set_title(sheet.title)
        self.set_auto_page_break(auto=True, margin=25)
        self.add_page()
        self.set_font("Helvetica", size=9)

    def footer(self) -> None:
        self.set_y(-15)
        self.set_font("Helvetica", size=8)
        self.cell(0, 5, f"{self.page_no()} / {{nb}}", align="C")


def _print_head(paper: _Paper, sheet: Sheet) -> None:
    paper.set_font("Helvetica", "B", 14)
    paper.cell(0, 8, sheet.letterhead[0], new_x="LMARGIN", new_y="NEXT")
    paper.set_font("Helvetica", size=9)
    for row in sheet.letterhead[1:]:
        paper.cell(0, 4.5, row, new_x="LMARGIN", new_y="NEXT")
    paper.ln(8)
    for index in range(max(len(sheet.address), len(sheet.facts))):
        paper.cell(100, 5, sheet.address[index] if index < len(sheet.address) else "")
        label, value = sheet.facts[index] if index < len(sheet.facts) else ("", "")
        paper.cell(40, 5, label)
        paper.cell(45, 5, value, new_x="LMARGIN", new_y="NEXT")
    paper.ln(6)
    paper.set_font("Helvetica", "B", 12)
    paper.cell(0, 8, sheet.title, new_x="LMARGIN", new_y="NEXT")
    paper.set_font("Helvetica", size=9)


def _print_row(paper: _Paper, cells: tuple[str, ...], style: str = "") -> None:
    paper.set_font("Helvetica", style, 9)
    for cell, (width, align) in zip(cells, _COLUMNS, strict=True):
        paper.cell(width, 5.5, cell, align=align)
    paper.ln(5.5)


def _print_table(paper: _Paper, sheet: Sheet) -> None:
    header = sheet.table[0]
    _print_row(paper, header, "B")
    for index, row in enumerate(sheet.table[1:], start=1):
        if paper.will_page_break(12):
            paper.add_page()
            _print_row(paper, header, "B")
        _print_row(paper, row)
        if index in sheet.details:
            paper.cell(_COLUMNS[0][0], 4.5, "")
            paper.cell(_COLUMNS[1][0], 4.5, sheet.details[index])
            paper.ln(4.5)


def render(sheet: Sheet) -> FPDF:
    """Lay `sheet` out as a PDF."""
    paper = _Paper(sheet)
    _print_head(paper, sheet)
    _print_table(paper, sheet)
    paper.ln(4)
    for label, amount in sheet.totals:
        paper.cell(60, 5, "")
        paper.cell(95, 5, label)
        paper.cell(30, 5, amount, align="R", new_x="LMARGIN", new_y="NEXT")
    paper.ln(6)
    for note in sheet.notes:
        paper.multi_cell(0, 4.5, note, new_x="LMARGIN", new_y="NEXT")
    return paper


def _letter() -> FPDF:
    pdf = FPDF()
    pdf.set_creation_date(_CREATED)
    pdf.add_page()
    pdf.set_font("Helvetica", size=11)
    pdf.multi_cell(0, 6, "Dear customer,\n\nour new price list is valid from 1 April 2025.")
    return pdf


def _blank() -> FPDF:
    """A page without text, as a scanner makes it."""
    pdf = FPDF()
    pdf.set_creation_date(_CREATED)
    pdf.add_page()
    pdf.rect(20, 20, 170, 250)
    return pdf


def _locked() -> FPDF:
    pdf = render(SHEETS["quickprint-5512.pdf"])
    pdf.set_encryption("owner", "user", encryption_method=EncryptionMethod.RC4)
    return pdf


def documents() -> dict[str, bytes]:
    """Every PDF of the samples by its path below the samples' directory."""
    factur_x = render(FACTUR_X)
    factur_x.embed_file(
        bytes=(SAMPLES / "atelier-F2025-118.xml").read_bytes(),
        basename="factur-x.xml",
        desc="Factur-X invoice",
        mime_type="text/xml",
    )
    files = {name: bytes(render(sheet).output()) for name, sheet in SHEETS.items()}
    files["atelier-F2025-118.pdf"] = bytes(factur_x.output())
    files["malformed/letter.pdf"] = bytes(_letter().output())
    files["malformed/without-text.pdf"] = bytes(_blank().output())
    files["malformed/encrypted.pdf"] = bytes(_locked().output())
    files["malformed/truncated.pdf"] = files["quickprint-5512.pdf"][:900]
    return files


def main(arguments: list[str]) -> None:
    directory = Path(arguments[0]) if arguments else SAMPLES
    for name, document in documents().items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(document)


if __name__ == "__main__":
    main(sys.argv[1:])
