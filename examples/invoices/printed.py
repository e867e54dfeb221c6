"""Invoices from the text of a page, read by its layout.

Expected, as suppliers' programs print it: the supplier's name in the first line; facts as
`label  value`; a table of lines; discounts and charges; the tax per rate; the totals. Columns are
at least two blanks apart. What is not found is missing: nothing is guessed, and nothing computed
but the sums of discounts and of charges, which no page prints.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from examples.invoices.languages import LANGUAGES, UNITS, ZERO_RATED, Language
from examples.invoices.record import Invoice, is_decimal
from examples.invoices.unreadable import Reason, Unreadable, invoice_of

_GAP = r"[ \t]{2,}"
_NUMBER = r"-?[0-9][0-9.,]*"
_PAGE_NUMBER = re.compile(r"\s*(?:(?:page|seite)\s+)?\d+(?:\s*(?:/|of|von)\s*\d+)?", re.IGNORECASE)
_MAX_ROW = 300
"""Wider rows are no invoice's; the bound keeps matching linear in the length of the text."""


def read(text: str) -> Invoice:
    """Read an invoice's text. Raises `Unreadable` if it is none or lacks a required field."""
    rows = [row.rstrip() for row in text.splitlines() if row.strip() and len(row) <= _MAX_ROW]
    return _Page(rows, _language_of(rows)).invoice()


def _language_of(rows: Iterable[str]) -> Language:
    text = "\n".join(rows)
    for language in LANGUAGES:
        if re.search(rf"(?i)\b{language.number}:?\s", text):
            return language
    raise Unreadable(Reason.NOT_AN_INVOICE)


class _Page:
    def __init__(self, rows: list[str], language: Language) -> None:
        self._rows = [row for row in rows if not _PAGE_NUMBER.fullmatch(row)]
        self._language = language
        text = "\n".join(rows)
        self._untaxed = next(
            (code for note, code in ZERO_RATED if re.search(note, text, re.IGNORECASE)), "Z"
        )

    def invoice(self) -> Invoice:
        words = self._language
        adjustments = self._adjustments()
        return invoice_of(
            {
                "number": self._fact(words.number),
                "issue_date": self._date(words.issue_date),
                "due_date": self._date(words.due_date),
                "currency": self._fact(words.currency),
                "order_reference": self._fact(words.order_reference),
                "supplier": {
                    "name": re.split(_GAP, self._rows[0].strip())[0],
                    "vat_id": self._compact(words.supplier_vat),
                },
                "buyer": {
                    "name": self._below(words.buyer),
                    "vat_id": self._compact(words.buyer_vat),
                },
                "payee_iban": self._compact("IBAN"),
                "lines": self._lines(),
                "adjustments": adjustments,
                "taxes": self._taxes(),
                "totals": {**self._totals(), **_sums(adjustments)},
            }
        )

    def _fact(self, label: str) -> str | None:
        """The value right of `label`, which starts a column; up to the next gap."""
        pattern = re.compile(rf"(?i)(?:^|{_GAP}|\|)\s*{label}(?::[ \t]*|{_GAP})(\S+(?: \S+)*)")
        return next((hit[1].strip() for row in self._rows if (hit := pattern.search(row))), None)

    def _date(self, label: str) -> str | None:
        printed = self._fact(label)
        return self._language.date_text(printed) if printed else None

    def _compact(self, label: str) -> str | None:
        """An identifier without the blanks it is printed with."""
        printed = self._fact(label)
        return re.sub(r"[ .]", "", printed) if printed else None

    def _below(self, label: str) -> str | None:
        """The first column of the row after the one that starts with `label`."""
        for row, following in zip(self._rows, self._rows[1:], strict=False):
            if re.match(rf"(?i)\s*{label}\b", row):
                return re.split(_GAP, following.strip())[0]
        return None

    def _number(self, printed: str) -> str:
        return self._language.number_text(printed)

    def _category(self, rate: str) -> str:
        return self._untaxed if re.fullmatch(r"0(?:\.0*)?", rate) else "S"

    def _lines(self) -> list[dict[str, Any]]:
        """Rows of the table; a row with text only goes on with the description above it."""
        line_row = re.compile(
            rf"\s*(?P<id>\d+){_GAP}(?P<description>\S.*?){_GAP}(?P<quantity>{_NUMBER})\s+"
            rf"(?P<unit>[A-Za-z]+)\.?{_GAP}(?P<price>{_NUMBER})(?:\s*/\s*(?P<base>{_NUMBER}))?"
            rf"{_GAP}(?P<rate>{_NUMBER}) ?%{_GAP}(?P<net>{_NUMBER})"
        )
        lines: list[dict[str, Any]] = []
        in_table = False
        for row in self._rows:
            if re.search(rf"(?i){_GAP}{self._language.lines}{_GAP}", row):
                in_table = True
            elif not in_table:
                continue
            elif hit := line_row.fullmatch(row):
                lines.append(self._line(hit))
            elif lines and re.fullmatch(r"\s{4,}\S+(?: \S+)*", row):
                lines[-1]["description"] += " " + row.strip()
            else:
                in_table = False
        return lines

    def _line(self, hit: re.Match[str]) -> dict[str, Any]:
        rate = self._number(hit["rate"])
        return {
            "id": hit["id"],
            "description": " ".join(hit["description"].split()),
            "quantity": self._number(hit["quantity"]),
            "unit": UNITS.get(hit["unit"].lower(), hit["unit"]),
            "price": self._number(hit["price"]),
            "price_base": self._number(hit["base"] or "1"),
            "net": self._number(hit["net"]),
            "category": self._category(rate),
            "rate": rate,
        }

    def _matches(self, pattern: str) -> Iterable[re.Match[str]]:
        compiled = re.compile(pattern, re.IGNORECASE)
        return (hit for row in self._rows if (hit := compiled.fullmatch(row)))

    def _adjustments(self) -> list[dict[str, Any]]:
        words = self._language
        found = []
        for hit in self._matches(
            rf"\s*({words.plus}|{words.less})\s+(\S.*?), ({_NUMBER}) ?% {words.tax}"
            rf"{_GAP}({_NUMBER})"
        ):
            rate = self._number(hit[3])
            amount = self._number(hit[4]).lstrip("-")
            less = re.fullmatch(words.less, hit[1], re.IGNORECASE) is not None
            found.append(
                {
                    "reason": hit[2],
                    "amount": f"-{amount}" if less else amount,
                    "category": self._category(rate),
                    "rate": rate,
                }
            )
        return found

    def _taxes(self) -> list[dict[str, Any]]:
        words = self._language
        found = []
        for hit in self._matches(
            rf"\s*{words.tax} ({_NUMBER}) ?% {words.on} ({_NUMBER}){_GAP}({_NUMBER})"
        ):
            rate = self._number(hit[1])
            found.append(
                {
                    "category": self._category(rate),
                    "rate": rate,
                    "taxable": self._number(hit[2]),
                    "tax": self._number(hit[3]),
                }
            )
        return found

    def _totals(self) -> dict[str, str | None]:
        words = self._language
        totals = {
            "lines": self._total(words.line_total),
            "tax_exclusive": self._total(words.tax_exclusive),
            "tax": self._total(words.tax_total),
            "tax_inclusive": self._total(words.tax_inclusive),
            "payable": self._total(words.payable),
        }
        if prepaid := self._total(words.prepaid):
            totals["prepaid"] = prepaid.lstrip("-")
        return totals

    def _total(self, label: str) -> str | None:
        currency = re.escape(self._fact(self._language.currency) or "")
        pattern = rf"\s*{label}(?: {currency}| \({currency}\))?{_GAP}({_NUMBER})"
        return next((self._number(hit[1]) for hit in self._matches(pattern)), None)


def _sums(adjustments: Iterable[dict[str, Any]]) -> dict[str, Decimal]:
    amounts = [Decimal(entry["amount"]) for entry in adjustments if is_decimal(entry["amount"])]
    return {
        "allowances": -sum((amount for amount in amounts if amount < 0), Decimal(0)),
        "charges": sum((amount for amount in amounts if amount > 0), Decimal(0)),
    }
