"""The invoice record that every document format is read into.

Terms and field names follow the semantic model of EN 16931 (BT and BG numbers in the comments).
Money and quantities are `Decimal` here and decimal strings in JSON; binary floats never occur.
"""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from piton.domain.canonical import Json

CENT = Decimal("0.01")

_LONGEST_DECIMAL = 40
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def is_decimal(text: str) -> bool:
    """Whether `text` is an `xs:decimal`: Python's own syntax also takes `1_000`, `1e9`, `NaN`."""
    return len(text) <= _LONGEST_DECIMAL and _DECIMAL.fullmatch(text) is not None


def _lexical_decimal(value: object) -> object:
    if isinstance(value, float) or (isinstance(value, str) and not is_decimal(value)):
        raise ValueError("not a decimal number")
    return value


def _lexical_date(value: object) -> object:
    """Hold text to `YYYY-MM-DD`: pydantic alone would take a number as a Unix time."""
    if isinstance(value, str) and not _DATE.fullmatch(value):
        raise ValueError("not a date")
    return value


def _in_cents(value: Decimal) -> Decimal:
    """Write an amount with two decimals; one that has more keeps them, so that it can be found."""
    rounded = value.quantize(CENT)
    return rounded if rounded == value else value.normalize()


def _plain(value: Decimal) -> Decimal:
    """Drop trailing zeros and exponents, so that `2`, `2.000` and `2E0` are one quantity."""
    whole = value.to_integral_value()
    return whole if whole == value else value.normalize()


_Bounded = Annotated[
    Decimal, BeforeValidator(_lexical_decimal), Field(max_digits=18, allow_inf_nan=False)
]
Amount = Annotated[_Bounded, AfterValidator(_in_cents)]
Number = Annotated[_Bounded, AfterValidator(_plain)]
Day = Annotated[date, BeforeValidator(_lexical_date)]
Text = Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]+$")]

TaxCategory = Literal["S", "Z", "E", "AE", "K", "G", "O", "L", "M"]
"""VAT category codes that EN 16931 takes from UNCL 5305."""


class Model(BaseModel):
    """Immutable, closed, and silent about the offending text when validation fails."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Party(Model):
    name: Text
    vat_id: Annotated[str, Field(pattern=r"^[A-Z]{2}[A-Z0-9+*]{2,13}$")] | None = None


class Line(Model):
    """One invoice line (BG-25). `adjustment` is its own charges less its own allowances."""

    id: Text
    description: Text
    quantity: Number
    unit: Annotated[str, Field(pattern=r"^[A-Z0-9]{2,3}$")]
    price: Number
    price_base: Annotated[Number, Field(gt=0)] = Decimal(1)
    adjustment: Amount = Decimal("0.00")
    net: Amount
    category: TaxCategory
    rate: Annotated[Number, Field(ge=0, le=100)]


class Adjustment(Model):
    """A charge (positive) or an allowance (negative) on the whole document (BG-20, BG-21)."""

    reason: Text
    amount: Amount
    category: TaxCategory
    rate: Annotated[Number, Field(ge=0, le=100)]


class TaxSubtotal(Model):
    """One row of the VAT breakdown (BG-23)."""

    category: TaxCategory
    rate: Annotated[Number, Field(ge=0, le=100)]
    taxable: Amount
    tax: Amount


class Totals(Model):
    """Document totals (BG-22) as the supplier states them."""

    lines: Amount
    allowances: Amount = Decimal("0.00")
    charges: Amount = Decimal("0.00")
    tax_exclusive: Amount
    tax: Amount
    tax_inclusive: Amount
    prepaid: Amount = Decimal("0.00")
    rounding: Amount = Decimal("0.00")
    payable: Amount


class Invoice(Model):
    number: Annotated[Text, Field(max_length=60)]
    type_code: Annotated[str, Field(pattern=r"^\d{2,3}$")] = "380"
    issue_date: Day
    due_date: Day | None = None
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
    order_reference: Text | None = None
    supplier: Party
    buyer: Party
    payee_iban: Annotated[str, Field(pattern=r"^[A-Z]{2}\d{2}[A-Z0-9]{1,30}$")] | None = None
    lines: Annotated[tuple[Line, ...], Field(min_length=1, max_length=1000)]
    adjustments: Annotated[tuple[Adjustment, ...], Field(max_length=100)] = ()
    taxes: Annotated[tuple[TaxSubtotal, ...], Field(max_length=20)]
    totals: Totals

    def to_json(self) -> dict[str, Json]:
        """The record as JSON data: dates in ISO form, decimals as strings."""
        data: dict[str, Json] = self.model_dump(mode="json")
        return data
