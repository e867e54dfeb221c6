"""Truth tables of the supplier, duplicate and policy checks, and what a decision leads to."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal

import pytest

from examples.invoices import outcome
from examples.invoices.batch import SAMPLES, sample_reference
from examples.invoices.checks import check_duplicate, check_policy, check_supplier
from examples.invoices.findings import Decision, Finding
from examples.invoices.intake import Booked, MediaType, Policy, Supplier
from examples.invoices.reading import read
from examples.invoices.record import Invoice, Totals

Change = Callable[[Invoice], Invoice]


def _sample(name: str) -> Invoice:
    return read((SAMPLES / name).read_bytes(), MediaType.XML)[1]


INVOICE = _sample("kessel-KR-88120.xml")
POLICY = Policy.model_validate(sample_reference()["policy"])
SUPPLIER = Supplier(vat_id="DE300876544", name="Kessel & Ritter", ibans=("DE65830654080004711815",))


def _from(vat_id: str | None) -> Change:
    return lambda invoice: invoice.model_copy(
        update={"supplier": invoice.supplier.model_copy(update={"vat_id": vat_id})}
    )


def _set(**changes: object) -> Change:
    return lambda invoice: invoice.model_copy(update=changes)


def _gross(amount: str) -> Change:
    def change(invoice: Invoice) -> Invoice:
        totals: Totals = invoice.totals.model_copy(update={"tax_inclusive": Decimal(amount)})
        return invoice.model_copy(update={"totals": totals})

    return change


def _rules(findings: list[Finding]) -> list[str]:
    return [finding.rule for finding in findings]


@pytest.mark.parametrize(
    ("change", "supplier", "rules"),
    [
        (_set(), SUPPLIER, []),
        (_from(None), SUPPLIER, ["VAT_ID_MISSING", "SUPPLIER_UNKNOWN"]),
        (_from("DE300876543"), SUPPLIER, ["VAT_ID_INVALID", "SUPPLIER_UNKNOWN"]),
        (_from("US123456789"), SUPPLIER, ["VAT_ID_INVALID", "SUPPLIER_UNKNOWN"]),
        (_from("DE300456788"), SUPPLIER, ["SUPPLIER_UNKNOWN"]),
        (_set(payee_iban=None), SUPPLIER, ["IBAN_MISSING"]),
        (
            _set(payee_iban="DE65830654080004711816"),
            SUPPLIER,
            ["IBAN_INVALID", "IBAN_NOT_ON_FILE"],
        ),
        (_set(payee_iban="DE29100100100987654321"), SUPPLIER, ["IBAN_NOT_ON_FILE"]),
        (_set(), SUPPLIER.model_copy(update={"blocked": True}), ["SUPPLIER_BLOCKED"]),
        (
            _set(),
            SUPPLIER.model_copy(update={"ibans": ("DE29100100100987654321", INVOICE.payee_iban)}),
            [],
        ),
    ],
)
def test_supplier(change: Change, supplier: Supplier, rules: list[str]) -> None:
    assert _rules(check_supplier(change(INVOICE), [supplier])) == rules


@pytest.mark.parametrize(
    ("vat_id", "mistyped"),
    [
        ("DE300876544", "DE300876554"),
        ("NL800000006B01", "NL800000016B01"),
        ("FR85900001009", "FR58900001009"),
        ("ATU57194903", "ATU57194904"),
        ("IE6433435F", "IE6433435G"),
        ("ESB58378431", "ESB58378413"),
    ],
)
def test_check_digits_of_several_countries(vat_id: str, mistyped: str) -> None:
    known = SUPPLIER.model_copy(update={"vat_id": vat_id})
    assert check_supplier(_from(vat_id)(INVOICE), [known]) == []
    assert "VAT_ID_INVALID" in _rules(check_supplier(_from(mistyped)(INVOICE), [known]))


@pytest.mark.parametrize(
    ("number", "supplier_vat", "found"),
    [
        ("KR-88120", "DE300876544", True),
        ("kr 88120", "DE300876544", True),
        ("KR/88_120", "DE300876544", True),
        ("KR-881200", "DE300876544", False),
        ("R-88120", "DE300876544", False),
        ("KR-88120", "DE300987656", False),
    ],
)
def test_duplicate(number: str, supplier_vat: str, *, found: bool) -> None:
    ledger = [
        Booked(supplier_vat="DE300876544", number="KR-1"),
        Booked(supplier_vat=supplier_vat, number=number),
    ]
    assert _rules(check_duplicate(INVOICE, ledger)) == ["DUPLICATE_NUMBER"] * found


@pytest.mark.parametrize(
    ("change", "rules"),
    [
        (_set(), []),
        (_set(buyer=INVOICE.buyer.model_copy(update={"vat_id": None})), ["BUYER_UNKNOWN"]),
        (_set(buyer=INVOICE.supplier), ["BUYER_UNKNOWN"]),
        (_set(type_code="384"), ["TYPE_NOT_ALLOWED"]),
        (_set(currency="CHF"), []),
        (_set(currency="USD"), ["CURRENCY_NOT_ALLOWED"]),
        (_gross("15000.00"), []),
        (_gross("15000.01"), ["AMOUNT_OVER_LIMIT"]),
        (_gross("0.01"), []),
        (_gross("0.00"), ["AMOUNT_NOT_POSITIVE"]),
        (_gross("-5.00"), ["AMOUNT_NOT_POSITIVE"]),
        (_set(due_date=None), []),
        (_set(due_date=date(2025, 3, 14)), []),
        (_set(due_date=date(2025, 3, 13)), ["DUE_BEFORE_ISSUE"]),
        (_set(due_date=date(2025, 5, 13)), []),
        (_set(due_date=date(2025, 5, 14)), ["TERM_TOO_LONG"]),
        (
            lambda invoice: _gross("15000.01")(_set(type_code="384")(invoice)),
            ["TYPE_NOT_ALLOWED", "AMOUNT_OVER_LIMIT"],
        ),
    ],
)
def test_policy(change: Change, rules: list[str]) -> None:
    assert _rules(check_policy(change(INVOICE), POLICY)) == rules


def _sides(invoice: Invoice) -> dict[tuple[object, object], list[object]]:
    sides: dict[tuple[object, object], list[object]] = {}
    for line in outcome.journal_entry(invoice, POLICY):
        sides.setdefault((line["side"], line["account"]), []).append(line["amount"])
    return sides


def test_entry_of_a_domestic_invoice_with_two_rates() -> None:
    assert _sides(_sample("nordlicht-RE-2025-0417.xml")) == {
        ("debit", "5400"): ["583.70", "140.19"],
        ("debit", "1400"): ["120.71"],
        ("credit", "3300"): ["844.60"],
    }


def test_entry_with_a_payment_in_advance() -> None:
    assert _sides(INVOICE) == {
        ("debit", "5400"): ["752.85"],
        ("debit", "1400"): ["143.04"],
        ("credit", "1180"): ["200.00"],
        ("credit", "3300"): ["695.89"],
    }


@pytest.mark.parametrize(
    ("name", "taxable", "tax"),
    [
        ("delta-koffie-20250093.xml", "12470.60", "2369.41"),
        ("atelier-F2025-118.xml", "1620.00", "307.80"),
    ],
)
def test_entry_of_a_foreign_invoice_has_the_buyers_tax_on_both_sides(
    name: str, taxable: str, tax: str
) -> None:
    assert _sides(_sample(name)) == {
        ("debit", "5400"): [taxable],
        ("debit", "1400"): [tax],
        ("credit", "3800"): [tax],
        ("credit", "3300"): [taxable],
    }


def test_entry_that_does_not_balance_is_refused() -> None:
    with pytest.raises(outcome.Unbalanced):
        outcome.journal_entry(_sample("kessel-KR-88131.xml"), POLICY)


@pytest.mark.parametrize("due", [date(2025, 3, 28), None])
def test_payment(due: date | None) -> None:
    assert outcome.payment(_set(due_date=due)(INVOICE)) == {
        "iban": "DE65830654080004711815",
        "amount": "695.89",
        "currency": "EUR",
        "due": "2025-03-28" if due else "2025-03-14",
        "reference": "KR-88120",
    }


def test_response_tells_the_supplier_every_reason() -> None:
    broken: dict[str, tuple[Finding, ...]] = {
        "check_policy": (Finding(rule="TERM_TOO_LONG", where="due_date", stated="90 days"),),
        "check_supplier": (Finding(rule="SUPPLIER_UNKNOWN", where="supplier"),),
        "check_totals": (Finding(rule="BR-CO-15", where="totals.tax_inclusive", expected="1"),),
    }
    response = outcome.response(Decision(accepted=False, invoice=INVOICE, findings=broken))
    assert (response["status"], response["number"]) == ("RE", "KR-88120")
    reasons = response["reasons"]
    assert isinstance(reasons, list)
    assert [(r["code"], r["rule"]) for r in reasons if isinstance(r, dict)] == [
        ("PAY", "TERM_TOO_LONG"),
        ("UNR", "SUPPLIER_UNKNOWN"),
        ("OTH", "BR-CO-15"),
    ]
