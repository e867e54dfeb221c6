"""The totals check: silent on every invoice that adds up, and loud on every one that does not."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.invoices.arithmetic import cents, check_totals, line_net
from examples.invoices.record import (
    Adjustment,
    Invoice,
    Line,
    Model,
    Party,
    TaxCategory,
    TaxSubtotal,
    Totals,
)

CENT = Decimal("0.01")
M = TypeVar("M", bound=Model)
_GROUPS: tuple[tuple[TaxCategory, Decimal], ...] = (
    ("S", Decimal(19)),
    ("S", Decimal(7)),
    ("S", Decimal("5.5")),
    ("AE", Decimal(0)),
    ("K", Decimal(0)),
    ("E", Decimal(0)),
    ("L", Decimal(3)),
)


def _line(number: int, quantity: Decimal, price: Decimal, group: int, base: int = 1) -> Line:
    category, rate = _GROUPS[group]
    net = _round(quantity * price / base)
    return Line(
        id=str(number),
        description="Something",
        quantity=quantity,
        unit="C62",
        price=price,
        price_base=Decimal(base),
        net=net,
        category=category,
        rate=rate,
    )


def _round(value: Decimal) -> Decimal:
    """Half up by whole numbers: an oracle that shares nothing with `quantize`."""
    sign = -1 if value < 0 else 1
    numerator, denominator = abs(value).as_integer_ratio()
    whole, rest = divmod(numerator * 100, denominator)
    return sign * Decimal(whole + (1 if 2 * rest >= denominator else 0)) / 100


def _invoice(lines: list[Line], adjustments: list[Adjustment], prepaid: Decimal) -> Invoice:
    bases: dict[tuple[TaxCategory, Decimal], Decimal] = {}
    for line in lines:
        bases[line.category, line.rate] = bases.get((line.category, line.rate), CENT * 0) + line.net
    for entry in adjustments:
        key = (entry.category, entry.rate)
        bases[key] = bases.get(key, CENT * 0) + entry.amount
    taxes = [
        TaxSubtotal(category=category, rate=rate, taxable=base, tax=_round(base * rate / 100))
        for (category, rate), base in bases.items()
    ]
    net = sum((line.net for line in lines), CENT * 0)
    charges = sum((x.amount for x in adjustments if x.amount > 0), CENT * 0)
    allowances = -sum((x.amount for x in adjustments if x.amount < 0), CENT * 0)
    tax = sum((row.tax for row in taxes), CENT * 0)
    gross = net - allowances + charges + tax
    return Invoice(
        number="A-1",
        issue_date=date(2025, 3, 1),
        currency="EUR",
        supplier=Party(name="Seller"),
        buyer=Party(name="Buyer"),
        lines=tuple(lines),
        adjustments=tuple(adjustments),
        taxes=tuple(taxes),
        totals=Totals(
            lines=net,
            allowances=allowances,
            charges=charges,
            tax_exclusive=net - allowances + charges,
            tax=tax,
            tax_inclusive=gross,
            prepaid=prepaid,
            payable=gross - prepaid,
        ),
    )


def _decimals(low: str, high: str, places: int) -> st.SearchStrategy[Decimal]:
    return st.decimals(Decimal(low), Decimal(high), places=places)


@st.composite
def invoices(draw: st.DrawFn) -> Invoice:
    """Invoices that add up: quantities and prices of up to four decimals, returns included."""
    lines = draw(
        st.lists(
            st.builds(
                _line,
                number=st.integers(1, 999),
                quantity=_decimals("-50", "5000", 3),
                price=_decimals("0", "900", 4),
                group=st.integers(0, len(_GROUPS) - 1),
                base=st.sampled_from([1, 10, 100, 1000, 3]),
            ),
            min_size=1,
            max_size=8,
        )
    )
    adjustments = [
        Adjustment(reason="Reason", amount=amount, category=category, rate=rate)
        for amount, (category, rate) in draw(
            st.lists(st.tuples(_decimals("-99", "99", 2), st.sampled_from(_GROUPS)), max_size=3)
        )
    ]
    return _invoice(lines, adjustments, draw(_decimals("0", "100", 2)))


@given(invoice=invoices())
def test_an_invoice_that_adds_up_has_no_findings(invoice: Invoice) -> None:
    assert check_totals(invoice) == []


_RULES_OF_TOTALS = {
    "lines": {"BR-CO-10", "BR-CO-13"},
    "allowances": {"BR-CO-11", "BR-CO-13"},
    "charges": {"BR-CO-12", "BR-CO-13"},
    "tax_exclusive": {"BR-CO-13", "BR-CO-15"},
    "tax": {"BR-CO-14", "BR-CO-15"},
    "tax_inclusive": {"BR-CO-15", "BR-CO-16"},
    "prepaid": {"BR-CO-16"},
    "rounding": {"BR-CO-16"},
    "payable": {"BR-CO-16"},
}


@given(
    invoice=invoices(),
    field=st.sampled_from(sorted(_RULES_OF_TOTALS)),
    error=_decimals("0.01", "500", 2),
    sign=st.sampled_from([-1, 1]),
)
def test_one_wrong_total_breaks_exactly_the_rules_it_stands_in(
    invoice: Invoice, field: str, error: Decimal, sign: int
) -> None:
    wrong = getattr(invoice.totals, field) + sign * error
    altered = _with(invoice, totals=_with(invoice.totals, **{field: wrong}))
    assert {finding.rule for finding in check_totals(altered)} == _RULES_OF_TOTALS[field]


@given(invoice=invoices(), index=st.integers(0, 7), error=_decimals("0.01", "500", 2))
def test_one_wrong_line_is_found_at_its_place(invoice: Invoice, index: int, error: Decimal) -> None:
    index %= len(invoice.lines)
    lines = list(invoice.lines)
    lines[index] = _with(lines[index], net=lines[index].net + error)
    found = check_totals(_with(invoice, lines=tuple(lines)))
    assert ("PEPPOL-EN16931-R120", f"lines.{index}.net") in {(f.rule, f.where) for f in found}
    assert "BR-CO-10" in {f.rule for f in found}


@given(invoice=invoices(), index=st.integers(0, 7), error=_decimals("0.01", "500", 2))
def test_one_wrong_tax_row_is_found_and_the_tolerance_excuses_no_more_than_itself(
    invoice: Invoice, index: int, error: Decimal
) -> None:
    index %= len(invoice.taxes)
    taxes = list(invoice.taxes)
    taxes[index] = _with(taxes[index], tax=taxes[index].tax + error)
    altered = _with(invoice, taxes=tuple(taxes))
    assert {f.rule for f in check_totals(altered)} == {"BR-CO-17", "BR-CO-14"}
    assert {f.rule for f in check_totals(altered, error)} == {"BR-CO-14"}
    assert {f.rule for f in check_totals(altered, error - CENT)} == {"BR-CO-17", "BR-CO-14"}


@given(value=_decimals("-99999", "99999", 5))
def test_rounding_is_half_up_away_from_zero(value: Decimal) -> None:
    assert cents(value) == _round(value)


def _with(record: M, **changes: object) -> M:
    return record.model_copy(update=changes)


def _simple(**line: object) -> Invoice:
    return _invoice([_with(_line(1, Decimal(4), Decimal("2.50"), 0), **line)], [], CENT * 0)


@pytest.mark.parametrize(
    ("category", "rate", "rules"),
    [
        ("S", "19", set()),
        ("S", "0", {"BR-S-05"}),
        ("Z", "0", set()),
        ("Z", "7", {"BR-Z-05"}),
        ("E", "7", {"BR-E-05"}),
        ("AE", "19", {"BR-AE-05"}),
        ("K", "0.5", {"BR-IC-05"}),
        ("G", "1", {"BR-G-05"}),
        ("O", "1", {"BR-O-05"}),
        ("L", "0", set()),
        ("M", "4", set()),
    ],
)
def test_rate_has_to_fit_its_category(category: str, rate: str, rules: set[str]) -> None:
    invoice = _simple(category=category, rate=Decimal(rate))
    assert {finding.rule for finding in check_totals(invoice)} == rules


def test_category_without_a_row_in_the_breakdown() -> None:
    invoice = _with(_simple(), taxes=(), totals=_with(_simple().totals, tax=CENT * 0))
    found = {finding.rule: finding for finding in check_totals(invoice)}
    assert set(found) == {"BR-S-01", "BR-CO-15"}
    assert (found["BR-S-01"].where, found["BR-S-01"].expected) == ("taxes", "10.00")


def test_rate_without_a_row_in_the_breakdown_of_its_category() -> None:
    invoice = _simple()
    other = [_with(row, rate=Decimal(7), tax=Decimal("0.70")) for row in invoice.taxes]
    found = check_totals(_with(invoice, taxes=tuple(other)))
    assert [(f.rule, f.where, f.expected) for f in found] == [
        ("BR-S-08", "taxes.0.taxable", "0"),
        ("BR-S-08", "taxes", "10.00"),
        ("BR-CO-14", "totals.tax", "0.70"),
    ]


def test_row_in_the_breakdown_for_a_category_that_no_line_has() -> None:
    row = TaxSubtotal(category="AE", rate=Decimal(0), taxable=Decimal("5.00"), tax=Decimal("0.00"))
    invoice = _simple()
    found = check_totals(_with(invoice, taxes=(*invoice.taxes, row)))
    assert [(f.rule, f.where, f.expected, f.stated) for f in found] == [
        ("BR-AE-08", "taxes.1.taxable", "0", "5.00")
    ]


@pytest.mark.parametrize(
    ("field", "rule"),
    [
        ("lines", "BR-DEC-09"),
        ("allowances", "BR-DEC-10"),
        ("charges", "BR-DEC-11"),
        ("tax_exclusive", "BR-DEC-12"),
        ("tax", "BR-DEC-13"),
        ("tax_inclusive", "BR-DEC-14"),
        ("prepaid", "BR-DEC-16"),
        ("rounding", "BR-DEC-17"),
        ("payable", "BR-DEC-18"),
    ],
)
def test_amount_with_more_than_two_decimals(field: str, rule: str) -> None:
    invoice = _simple()
    finer = getattr(invoice.totals, field) + Decimal("0.001")
    found = check_totals(_with(invoice, totals=_with(invoice.totals, **{field: finer})))
    assert rule in {finding.rule for finding in found}


@pytest.mark.parametrize(
    ("quantity", "price", "base", "adjustment", "net"),
    [
        ("4", "37.125", "1", "0", "148.50"),
        ("1200", "612.50", "100", "0", "7350.00"),
        ("1", "0.005", "1", "0", "0.01"),
        ("-1", "0.005", "1", "0", "-0.01"),
        ("1", "0.0049", "1", "0", "0.00"),
        ("2", "10.00", "3", "-0.50", "6.17"),
    ],
)
def test_line_net(quantity: str, price: str, base: str, adjustment: str, net: str) -> None:
    line = Line(
        id="1",
        description="Something",
        quantity=Decimal(quantity),
        unit="C62",
        price=Decimal(price),
        price_base=Decimal(base),
        adjustment=Decimal(adjustment),
        net=Decimal(0),
        category="S",
        rate=Decimal(19),
    )
    assert line_net(line) == Decimal(net)
