"""May the invoice be paid? Supplier, earlier bookings, and the buyer's policy.

Each check is a pure function of the record and the reference data and returns what it found, in
reading order; no finding means that all is well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from stdnum import iban
from stdnum.eu import vat

from examples.invoices.findings import Finding, Rule
from examples.invoices.intake import Booked, Policy, Supplier
from examples.invoices.record import Invoice


def check_supplier(invoice: Invoice, suppliers: Iterable[Supplier]) -> list[Finding]:
    """Is the supplier on file, with valid check digits and the account that it is paid on?

    An account that is not on file is a finding even if it is valid: a changed account is how
    forged invoices get paid.
    """
    return [*_vat_id(invoice), *_on_file(invoice, {entry.vat_id: entry for entry in suppliers})]


def _vat_id(invoice: Invoice) -> Iterator[Finding]:
    vat_id = invoice.supplier.vat_id
    if vat_id is None:
        yield Finding(rule=Rule.VAT_ID_MISSING, where="supplier.vat_id")
    elif not vat.is_valid(vat_id):
        yield Finding(rule=Rule.VAT_ID_INVALID, where="supplier.vat_id", stated=vat_id)
    account = invoice.payee_iban
    if account is None:
        yield Finding(rule=Rule.IBAN_MISSING, where="payee_iban")
    elif not iban.is_valid(account):
        yield Finding(rule=Rule.IBAN_INVALID, where="payee_iban", stated=account)


def _on_file(invoice: Invoice, suppliers: dict[str, Supplier]) -> Iterator[Finding]:
    supplier = suppliers.get(invoice.supplier.vat_id or "")
    if supplier is None:
        yield Finding(rule=Rule.SUPPLIER_UNKNOWN, where="supplier", stated=invoice.supplier.vat_id)
        return
    if supplier.blocked:
        yield Finding(rule=Rule.SUPPLIER_BLOCKED, where="supplier", stated=supplier.vat_id)
    if invoice.payee_iban is not None and invoice.payee_iban not in supplier.ibans:
        yield Finding(rule=Rule.IBAN_NOT_ON_FILE, where="payee_iban", stated=invoice.payee_iban)


def check_duplicate(invoice: Invoice, ledger: Iterable[Booked]) -> list[Finding]:
    """Was the same number of the same supplier booked before, however it is spelled?"""
    mine = _same_number(invoice.number)
    return [
        Finding(rule=Rule.DUPLICATE_NUMBER, where="number", stated=entry.number)
        for entry in ledger
        if entry.supplier_vat == invoice.supplier.vat_id and _same_number(entry.number) == mine
    ]


def _same_number(number: str) -> str:
    """Letters and digits only: blanks, dashes and case change between two copies."""
    return re.sub(r"[\W_]", "", number).casefold()


def check_policy(invoice: Invoice, policy: Policy) -> list[Finding]:
    """Is the invoice ours, of a kind, currency, size and term that may be paid unseen?"""
    return [*_kind(invoice, policy), *_amount(invoice, policy), *_term(invoice, policy)]


def _kind(invoice: Invoice, policy: Policy) -> Iterator[Finding]:
    if invoice.buyer.vat_id not in policy.buyer_vat_ids:
        yield Finding(rule=Rule.BUYER_UNKNOWN, where="buyer.vat_id", stated=invoice.buyer.vat_id)
    if invoice.type_code not in policy.type_codes:
        yield Finding(rule=Rule.TYPE_NOT_ALLOWED, where="type_code", stated=invoice.type_code)


def _amount(invoice: Invoice, policy: Policy) -> Iterator[Finding]:
    total = invoice.totals.tax_inclusive
    limit = policy.limits.get(invoice.currency)
    if limit is None:
        yield Finding(
            rule=Rule.CURRENCY_NOT_ALLOWED,
            where="currency",
            expected=", ".join(sorted(policy.limits)),
            stated=invoice.currency,
        )
    elif total > limit:
        yield Finding(
            rule=Rule.AMOUNT_OVER_LIMIT,
            where="totals.tax_inclusive",
            expected=str(limit),
            stated=str(total),
        )
    if total <= 0:
        yield Finding(
            rule=Rule.AMOUNT_NOT_POSITIVE, where="totals.tax_inclusive", stated=str(total)
        )


def _term(invoice: Invoice, policy: Policy) -> Iterator[Finding]:
    if invoice.due_date is None:
        return
    days = (invoice.due_date - invoice.issue_date).days
    if days < 0:
        yield Finding(
            rule=Rule.DUE_BEFORE_ISSUE,
            where="due_date",
            expected=invoice.issue_date.isoformat(),
            stated=invoice.due_date.isoformat(),
        )
    elif days > policy.max_payment_days:
        yield Finding(
            rule=Rule.TERM_TOO_LONG,
            where="due_date",
            expected=f"{policy.max_payment_days} days",
            stated=f"{days} days",
        )
