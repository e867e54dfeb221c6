"""Does the invoice add up? The calculation rules of EN 16931, by their names there.

Amounts are rounded half up to cents where the standard rounds (line net amounts, tax per category)
and compared exactly everywhere else. Unlike the standard's own validation files, which let a tax
amount be off by almost one unit, the tolerance here is the caller's and zero by default.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal

from examples.invoices.findings import Finding
from examples.invoices.record import CENT, Invoice, Line, TaxCategory

_RULE_PREFIX: dict[TaxCategory, str] = {
    "S": "S",
    "Z": "Z",
    "E": "E",
    "AE": "AE",
    "K": "IC",
    "G": "G",
    "O": "O",
    "L": "AF",
    "M": "AG",
}
_TAXED: tuple[TaxCategory, ...] = ("S", "L", "M")
_ZERO = Decimal(0)


def cents(value: Decimal) -> Decimal:
    """Round half up to two decimals, away from zero on a tie."""
    return value.quantize(CENT, rounding=ROUND_HALF_UP)


def line_net(line: Line) -> Decimal:
    """What the line's net amount has to be."""
    return cents(line.quantity * line.price / line.price_base + line.adjustment)


def check_totals(invoice: Invoice, tolerance: Decimal = _ZERO) -> list[Finding]:
    """Return every calculation rule that `invoice` breaks, in reading order.

    `tolerance` is in the invoice's currency and holds where the standard rounds.
    """
    return [
        *_decimals(invoice),
        *_lines(invoice, tolerance),
        *_taxes(invoice, tolerance),
        *_totals(invoice),
    ]


def _differs(
    rule: str, where: str, expected: Decimal, stated: Decimal, tolerance: Decimal = _ZERO
) -> Iterator[Finding]:
    if abs(expected - stated) > tolerance:
        yield Finding(rule=rule, where=where, expected=str(expected), stated=str(stated))


def _decimals(invoice: Invoice) -> Iterator[Finding]:
    """BR-DEC: amounts have at most two decimals."""
    totals = invoice.totals
    stated = [
        ("BR-DEC-09", "totals.lines", totals.lines),
        ("BR-DEC-10", "totals.allowances", totals.allowances),
        ("BR-DEC-11", "totals.charges", totals.charges),
        ("BR-DEC-12", "totals.tax_exclusive", totals.tax_exclusive),
        ("BR-DEC-13", "totals.tax", totals.tax),
        ("BR-DEC-14", "totals.tax_inclusive", totals.tax_inclusive),
        ("BR-DEC-16", "totals.prepaid", totals.prepaid),
        ("BR-DEC-17", "totals.rounding", totals.rounding),
        ("BR-DEC-18", "totals.payable", totals.payable),
        *(("BR-DEC-23", f"lines.{i}.net", line.net) for i, line in enumerate(invoice.lines)),
        *(
            ("BR-DEC-05" if entry.amount > 0 else "BR-DEC-01", f"adjustments.{i}", entry.amount)
            for i, entry in enumerate(invoice.adjustments)
        ),
    ]
    for i, row in enumerate(invoice.taxes):
        stated.append(("BR-DEC-19", f"taxes.{i}.taxable", row.taxable))
        stated.append(("BR-DEC-20", f"taxes.{i}.tax", row.tax))
    for rule, where, amount in stated:
        if amount != cents(amount):
            yield Finding(rule=rule, where=where, stated=str(amount))


def _lines(invoice: Invoice, tolerance: Decimal) -> Iterator[Finding]:
    for i, line in enumerate(invoice.lines):
        where = f"lines.{i}"
        expected = line_net(line)
        yield from _differs("PEPPOL-EN16931-R120", f"{where}.net", expected, line.net, tolerance)
        if not _rate_fits(line.category, line.rate):
            rule = f"BR-{_RULE_PREFIX[line.category]}-05"
            yield Finding(rule=rule, where=f"{where}.rate", stated=str(line.rate))


def _rate_fits(category: TaxCategory, rate: Decimal) -> bool:
    """A standard rate is above zero, the Canary Islands' and Ceuta's is anything, others zero."""
    match category:
        case "S":
            return rate > 0
        case "L" | "M":
            return True
        case _:
            return rate == 0


def _group(category: TaxCategory, rate: Decimal) -> tuple[TaxCategory, Decimal]:
    """What the breakdown has one row for: only taxed categories are split by rate."""
    return category, rate if category in _TAXED else _ZERO


def _taxes(invoice: Invoice, tolerance: Decimal) -> Iterator[Finding]:
    due: dict[tuple[TaxCategory, Decimal], Decimal] = {}
    for line in invoice.lines:
        group = _group(line.category, line.rate)
        due[group] = due.get(group, _ZERO) + line.net
    for entry in invoice.adjustments:
        group = _group(entry.category, entry.rate)
        due[group] = due.get(group, _ZERO) + entry.amount
    for i, row in enumerate(invoice.taxes):
        rule = f"BR-{_RULE_PREFIX[row.category]}-08"
        taxable = due.pop(_group(row.category, row.rate), _ZERO)
        tax = cents(row.taxable * row.rate / 100)
        yield from _differs(rule, f"taxes.{i}.taxable", taxable, row.taxable)
        yield from _differs("BR-CO-17", f"taxes.{i}.tax", tax, row.tax, tolerance)
    listed = {row.category for row in invoice.taxes}
    for (category, _), taxable in due.items():
        number = "08" if category in listed else "01"
        rule = f"BR-{_RULE_PREFIX[category]}-{number}"
        yield Finding(rule=rule, where="taxes", expected=str(taxable))


def _totals(invoice: Invoice) -> Iterator[Finding]:
    totals = invoice.totals
    amounts = [entry.amount for entry in invoice.adjustments]
    tax = sum((row.tax for row in invoice.taxes), _ZERO)
    for rule, where, expected, stated in (
        ("BR-CO-10", "totals.lines", sum((x.net for x in invoice.lines), _ZERO), totals.lines),
        (
            "BR-CO-11",
            "totals.allowances",
            -sum((x for x in amounts if x < 0), _ZERO),
            totals.allowances,
        ),
        ("BR-CO-12", "totals.charges", sum((x for x in amounts if x > 0), _ZERO), totals.charges),
        (
            "BR-CO-13",
            "totals.tax_exclusive",
            totals.lines - totals.allowances + totals.charges,
            totals.tax_exclusive,
        ),
        ("BR-CO-14", "totals.tax", tax, totals.tax),
        (
            "BR-CO-15",
            "totals.tax_inclusive",
            totals.tax_exclusive + totals.tax,
            totals.tax_inclusive,
        ),
        (
            "BR-CO-16",
            "totals.payable",
            totals.tax_inclusive - totals.prepaid + totals.rounding,
            totals.payable,
        ),
    ):
        yield from _differs(rule, where, expected, stated)
