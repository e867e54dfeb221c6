"""How invoices on paper are worded: labels, dates and numbers per language."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
UNITS: Mapping[str, str] = {
    **dict.fromkeys(("pc", "pcs", "stk", "st"), "C62"),
    **dict.fromkeys(("h", "hrs", "std"), "HUR"),
    **dict.fromkeys(("day", "days", "tag", "tage"), "DAY"),
    **dict.fromkeys(("kg",), "KGM"),
    **dict.fromkeys(("l",), "LTR"),
}
"""Printed unit to its UN/ECE Recommendation 20 code."""


@dataclass(frozen=True)
class Language:
    """Each label is a regular expression, matched without regard to case."""

    number: str
    issue_date: str
    due_date: str
    currency: str
    order_reference: str
    supplier_vat: str
    buyer_vat: str
    buyer: str
    lines: str
    tax: str
    plus: str
    less: str
    on: str
    line_total: str
    tax_exclusive: str
    tax_total: str
    tax_inclusive: str
    prepaid: str
    payable: str
    decimal_comma: bool

    def number_text(self, printed: str) -> str:
        """`1.234,50` or `1,234.50` as `1234.50`; anything else comes back as it is."""
        group, point = (".", ",") if self.decimal_comma else (",", ".")
        grouped = rf"-?\d{{1,3}}(?:{re.escape(group)}\d{{3}})*(?:{re.escape(point)}\d+)?"
        plain = rf"-?\d+(?:{re.escape(point)}\d+)?"
        if re.fullmatch(f"{grouped}|{plain}", printed):
            return printed.replace(group, "").replace(point, ".")
        return printed

    def date_text(self, printed: str) -> str:
        """`07.03.2025` or `7 March 2025` as `2025-03-07`; anything else comes back as it is."""
        if dotted := re.fullmatch(r"(\d{1,2})\.(\d{1,2})\.(\d{4})", printed):
            day, month, year = (int(part) for part in dotted.groups())
        elif (worded := re.fullmatch(r"(\d{1,2}) ([A-Za-z]+) (\d{4})", printed)) and (
            worded[2].lower() in MONTHS
        ):
            day, month, year = int(worded[1]), MONTHS.index(worded[2].lower()) + 1, int(worded[3])
        else:
            return printed
        try:
            return date(year, month, day).isoformat()
        except ValueError:
            return printed


ENGLISH = Language(
    number=r"invoice (?:number|no\.?)",
    issue_date=r"(?:invoice|issue) date",
    due_date=r"(?:due date|payment due)",
    currency=r"currency",
    order_reference=r"(?:your order|order (?:reference|no\.?))",
    supplier_vat=r"(?:our )?VAT (?:ID|no\.?)",
    buyer_vat=r"your VAT (?:ID|no\.?)",
    buyer=r"(?:bill to|invoice to)",
    lines=r"description",
    tax=r"VAT",
    plus=r"plus",
    less=r"less",
    on=r"on",
    line_total=r"subtotal",
    tax_exclusive=r"net total",
    tax_total=r"total VAT",
    tax_inclusive=r"(?:invoice total|total)",
    prepaid=r"already paid",
    payable=r"amount due",
    decimal_comma=False,
)
GERMAN = Language(
    number=r"rechnungs(?:nummer|-?nr\.?)",
    issue_date=r"rechnungsdatum",
    due_date=r"(?:zahlbar bis|fällig am)",
    currency=r"währung",
    order_reference=r"(?:ihre bestellung|bestell-?nr\.?)",
    supplier_vat=r"(?:unsere )?USt-Id(?:Nr)?\.?",
    buyer_vat=r"ihre USt-Id(?:Nr)?\.?",
    buyer=r"(?:rechnung an|rechnungsempfänger)",
    lines=r"bezeichnung",
    tax=r"(?:USt|MwSt)\.?",
    plus=r"zzgl\.",
    less=r"abzgl\.",
    on=r"auf",
    line_total=r"zwischensumme",
    tax_exclusive=r"(?:summe netto|nettobetrag)",
    tax_total=r"(?:USt|MwSt)\.? gesamt",
    tax_inclusive=r"(?:rechnungsbetrag|summe brutto|bruttobetrag)",
    prepaid=r"bereits gezahlt",
    payable=r"zahlbetrag",
    decimal_comma=True,
)
LANGUAGES = (ENGLISH, GERMAN)
ZERO_RATED: tuple[tuple[str, str], ...] = (
    (r"intra-community supply|innergemeinschaftliche lieferung", "K"),
    (r"reverse charge|steuerschuldnerschaft des leistungsempfängers", "AE"),
)
"""Notes that the law asks for where no VAT is charged, and the category each stands for."""
