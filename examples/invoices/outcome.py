"""What follows from a decision: a journal entry and a payment, or an answer to the supplier."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from examples.invoices.arithmetic import cents
from examples.invoices.findings import Decision, Finding, Rule
from examples.invoices.intake import Policy
from examples.invoices.record import Invoice
from piton.tasks import Json

_SELF_ASSESSED = ("AE", "K")
_RESPONSE_REJECTED = "RE"
_OTHER = "OTH"
_REASONS: dict[str, str] = {
    Rule.SUPPLIER_UNKNOWN: "UNR",
    Rule.VAT_ID_MISSING: "LEG",
    Rule.VAT_ID_INVALID: "LEG",
    Rule.IBAN_MISSING: "PAY",
    Rule.IBAN_INVALID: "PAY",
    Rule.IBAN_NOT_ON_FILE: "PAY",
    Rule.BUYER_UNKNOWN: "REC",
    Rule.DUE_BEFORE_ISSUE: "PAY",
    Rule.TERM_TOO_LONG: "PAY",
}
"""Rule to status clarification code of Peppol BIS Invoice Response 3; all others are `OTH`."""


class Unbalanced(Exception):
    """Debits and credits differ: the invoice does not add up, and no check has stopped it."""


def journal_entry(invoice: Invoice, policy: Policy) -> list[dict[str, Json]]:
    """The lines of a balanced double entry, amounts as decimal strings, zero lines left out.

    On reverse charge and intra-community supplies the buyer owes the tax and deducts it again, so
    it stands on both sides. Raises `Unbalanced`.
    """
    accounts, totals = policy.accounts, invoice.totals
    own_tax = sum(
        (
            cents(row.taxable * policy.home_rate / 100)
            for row in invoice.taxes
            if row.category in _SELF_ASSESSED
        ),
        Decimal(0),
    )
    # Debits are positive.
    postings = [
        *((accounts.expense, row.taxable) for row in invoice.taxes),
        (accounts.input_tax, totals.tax + own_tax),
        (accounts.rounding, totals.rounding),
        (accounts.tax_due, -own_tax),
        (accounts.prepayments, -totals.prepaid),
        (accounts.payables, -totals.payable),
    ]
    if sum(amount for _, amount in postings) != 0:
        raise Unbalanced
    return [
        {
            "account": account,
            "side": "debit" if amount > 0 else "credit",
            "amount": str(abs(amount)),
        }
        for account, amount in postings
        if amount != 0
    ]


def payment(invoice: Invoice) -> dict[str, Json]:
    """The transfer that settles the invoice."""
    due = invoice.due_date or invoice.issue_date
    return {
        "iban": invoice.payee_iban,
        "amount": str(invoice.totals.payable),
        "currency": invoice.currency,
        "due": due.isoformat(),
        "reference": invoice.number,
    }


def response(decision: Decision) -> dict[str, Json]:
    """An answer to the supplier in the terms of a Peppol Invoice Response."""
    findings: Iterable[Finding] = (f for each in decision.findings.values() for f in each)
    reasons: list[Json] = [
        {
            "code": _REASONS.get(finding.rule, _OTHER),
            "rule": finding.rule,
            "where": finding.where,
            "expected": finding.expected,
            "stated": finding.stated,
        }
        for finding in findings
    ]
    return {
        "status": _RESPONSE_REJECTED,
        "number": decision.invoice.number,
        "supplier_vat": decision.invoice.supplier.vat_id,
        "reasons": reasons,
    }
