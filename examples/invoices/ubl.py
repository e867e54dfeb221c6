"""OASIS UBL 2.1 invoices, as EN 16931 and Peppol BIS Billing 3.0 use them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import Element

from examples.invoices.record import Invoice
from examples.invoices.safe_xml import Node
from examples.invoices.unreadable import invoice_of

ROOT = "{urn:oasis:names:specification:ubl:schema:xsd:Invoice-2}Invoice"
_PREFIXES = {
    "cac": "urn:oasis:names:specification:ubl:schema:xsd:CommonAggregateComponents-2",
    "cbc": "urn:oasis:names:specification:ubl:schema:xsd:CommonBasicComponents-2",
}


def read(root: Element) -> Invoice:
    """Read an `Invoice` element. Raises `Unreadable` if a required field is missing or invalid."""
    invoice = Node(root, _PREFIXES)
    totals = invoice.required("cac:LegalMonetaryTotal")
    return invoice_of(
        {
            "number": invoice.text("cbc:ID"),
            "type_code": invoice.text("cbc:InvoiceTypeCode"),
            "issue_date": _date(invoice.text("cbc:IssueDate")),
            "due_date": _date(invoice.text("cbc:DueDate")),
            "currency": invoice.text("cbc:DocumentCurrencyCode"),
            "order_reference": invoice.text("cac:OrderReference/cbc:ID"),
            "supplier": _party(invoice.required("cac:AccountingSupplierParty/cac:Party")),
            "buyer": _party(invoice.required("cac:AccountingCustomerParty/cac:Party")),
            "payee_iban": _iban(invoice.text("cac:PaymentMeans/cac:PayeeFinancialAccount/cbc:ID")),
            "lines": [_line(line) for line in invoice.all("cac:InvoiceLine")],
            "adjustments": list(_adjustments(invoice)),
            "taxes": list(_taxes(invoice)),
            "totals": {
                "lines": totals.text("cbc:LineExtensionAmount"),
                "allowances": totals.text("cbc:AllowanceTotalAmount") or "0",
                "charges": totals.text("cbc:ChargeTotalAmount") or "0",
                "tax_exclusive": totals.text("cbc:TaxExclusiveAmount"),
                "tax": _document_tax(invoice),
                "tax_inclusive": totals.text("cbc:TaxInclusiveAmount"),
                "prepaid": totals.text("cbc:PrepaidAmount") or "0",
                "rounding": totals.text("cbc:PayableRoundingAmount") or "0",
                "payable": totals.text("cbc:PayableAmount"),
            },
        }
    )


def _date(text: str | None) -> str | None:
    """Cut the time zone that `xs:date` allows; EN 16931 dates have none."""
    return text[:10] if text else None


def _iban(text: str | None) -> str | None:
    return text.replace(" ", "") if text else None


def _party(party: Node) -> dict[str, Any]:
    vat_id = None
    for scheme in party.all("cac:PartyTaxScheme"):
        if scheme.text("cac:TaxScheme/cbc:ID") == "VAT":
            vat_id = scheme.text("cbc:CompanyID")
    name = party.text("cac:PartyLegalEntity/cbc:RegistrationName")
    return {"name": name or party.text("cac:PartyName/cbc:Name"), "vat_id": vat_id}


def _is_charge(adjustment: Node) -> bool:
    return adjustment.text("cbc:ChargeIndicator") in ("true", "1")


def _line(line: Node) -> dict[str, Any]:
    quantity = line.required("cbc:InvoicedQuantity")
    adjustment = sum(
        entry.amount("cbc:Amount") if _is_charge(entry) else -entry.amount("cbc:Amount")
        for entry in line.all("cac:AllowanceCharge")
    )
    return {
        "id": line.text("cbc:ID"),
        "description": line.text("cac:Item/cbc:Name"),
        "quantity": quantity.text("."),
        "unit": quantity.attribute("unitCode"),
        "price": line.text("cac:Price/cbc:PriceAmount"),
        "price_base": line.text("cac:Price/cbc:BaseQuantity") or "1",
        "adjustment": adjustment,
        "net": line.text("cbc:LineExtensionAmount"),
        "category": line.text("cac:Item/cac:ClassifiedTaxCategory/cbc:ID"),
        "rate": line.text("cac:Item/cac:ClassifiedTaxCategory/cbc:Percent") or "0",
    }


def _adjustments(invoice: Node) -> Iterator[dict[str, Any]]:
    for entry in invoice.all("cac:AllowanceCharge"):
        amount = entry.amount("cbc:Amount")
        yield {
            "reason": entry.text("cbc:AllowanceChargeReason")
            or entry.text("cbc:AllowanceChargeReasonCode"),
            "amount": amount if _is_charge(entry) else -amount,
            "category": entry.text("cac:TaxCategory/cbc:ID"),
            "rate": entry.text("cac:TaxCategory/cbc:Percent") or "0",
        }


def _taxes(invoice: Node) -> Iterator[dict[str, Any]]:
    for row in invoice.all("cac:TaxTotal/cac:TaxSubtotal"):
        yield {
            "category": row.text("cac:TaxCategory/cbc:ID"),
            "rate": row.text("cac:TaxCategory/cbc:Percent") or "0",
            "taxable": row.text("cbc:TaxableAmount"),
            "tax": row.text("cbc:TaxAmount"),
        }


def _document_tax(invoice: Node) -> str | None:
    """The total with a breakdown; a second TaxTotal only repeats it in the accounting currency."""
    for total in invoice.all("cac:TaxTotal"):
        if total.first("cac:TaxSubtotal") is not None:
            return total.text("cbc:TaxAmount")
    return invoice.text("cac:TaxTotal/cbc:TaxAmount")
