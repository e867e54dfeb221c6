"""UN/CEFACT Cross Industry Invoice (D16B), the XML of Factur-X, ZUGFeRD 2 and XRechnung."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import Element

from examples.invoices.record import Invoice
from examples.invoices.safe_xml import Node
from examples.invoices.unreadable import Reason, Unreadable, invoice_of

_RSM = "urn:un:unece:uncefact:data:standard:CrossIndustryInvoice:100"
ROOT = f"{{{_RSM}}}CrossIndustryInvoice"
_PREFIXES = {
    "rsm": _RSM,
    "ram": "urn:un:unece:uncefact:data:standard:ReusableAggregateBusinessInformationEntity:100",
    "udt": "urn:un:unece:uncefact:data:standard:UnqualifiedDataType:100",
}
_YYYYMMDD = "102"
"""UNCL 2379, the only date format that EN 16931 allows."""


def read(root: Element) -> Invoice:
    """Read a `CrossIndustryInvoice`. Raises `Unreadable` if a field is missing or invalid."""
    invoice = Node(root, _PREFIXES)
    document = invoice.required("rsm:ExchangedDocument")
    trade = invoice.required("rsm:SupplyChainTradeTransaction")
    agreement = trade.required("ram:ApplicableHeaderTradeAgreement")
    settlement = trade.required("ram:ApplicableHeaderTradeSettlement")
    totals = settlement.required("ram:SpecifiedTradeSettlementHeaderMonetarySummation")
    currency = settlement.text("ram:InvoiceCurrencyCode")
    return invoice_of(
        {
            "number": document.text("ram:ID"),
            "type_code": document.text("ram:TypeCode"),
            "issue_date": _date(document, "ram:IssueDateTime"),
            "due_date": _date(settlement, "ram:SpecifiedTradePaymentTerms/ram:DueDateDateTime"),
            "currency": currency,
            "order_reference": agreement.text(
                "ram:BuyerOrderReferencedDocument/ram:IssuerAssignedID"
            ),
            "supplier": _party(agreement.required("ram:SellerTradeParty")),
            "buyer": _party(agreement.required("ram:BuyerTradeParty")),
            "payee_iban": _iban(settlement),
            "lines": [_line(line) for line in trade.all("ram:IncludedSupplyChainTradeLineItem")],
            "adjustments": list(_adjustments(settlement)),
            "taxes": list(_taxes(settlement)),
            "totals": {
                "lines": totals.text("ram:LineTotalAmount"),
                "allowances": totals.text("ram:AllowanceTotalAmount") or "0",
                "charges": totals.text("ram:ChargeTotalAmount") or "0",
                "tax_exclusive": totals.text("ram:TaxBasisTotalAmount"),
                "tax": _tax_total(totals, currency),
                "tax_inclusive": totals.text("ram:GrandTotalAmount"),
                "prepaid": totals.text("ram:TotalPrepaidAmount") or "0",
                "rounding": totals.text("ram:RoundingAmount") or "0",
                "payable": totals.text("ram:DuePayableAmount"),
            },
        }
    )


def _date(node: Node, path: str) -> str | None:
    found = node.first(f"{path}/udt:DateTimeString")
    if found is None:
        return None
    parts = re.fullmatch(r"([0-9]{4})([0-9]{2})([0-9]{2})", found.text(".") or "")
    if found.attribute("format") != _YYYYMMDD or parts is None:
        raise Unreadable(Reason.FIELD_INVALID, path)
    return "-".join(parts.groups())


def _iban(settlement: Node) -> str | None:
    text = settlement.text(
        "ram:SpecifiedTradeSettlementPaymentMeans/ram:PayeePartyCreditorFinancialAccount/ram:IBANID"
    )
    return text.replace(" ", "") if text else None


def _party(party: Node) -> dict[str, Any]:
    vat_id = None
    for registration in party.all("ram:SpecifiedTaxRegistration/ram:ID"):
        if registration.attribute("schemeID") == "VA":
            vat_id = registration.text(".")
    return {"name": party.text("ram:Name"), "vat_id": vat_id}


def _is_charge(adjustment: Node) -> bool:
    return adjustment.text("ram:ChargeIndicator/udt:Indicator") in ("true", "1")


def _line(line: Node) -> dict[str, Any]:
    quantity = line.required("ram:SpecifiedLineTradeDelivery/ram:BilledQuantity")
    settlement = line.required("ram:SpecifiedLineTradeSettlement")
    price = line.required("ram:SpecifiedLineTradeAgreement/ram:NetPriceProductTradePrice")
    adjustment = sum(
        entry.amount("ram:ActualAmount") if _is_charge(entry) else -entry.amount("ram:ActualAmount")
        for entry in settlement.all("ram:SpecifiedTradeAllowanceCharge")
    )
    return {
        "id": line.text("ram:AssociatedDocumentLineDocument/ram:LineID"),
        "description": line.text("ram:SpecifiedTradeProduct/ram:Name"),
        "quantity": quantity.text("."),
        "unit": quantity.attribute("unitCode"),
        "price": price.text("ram:ChargeAmount"),
        "price_base": price.text("ram:BasisQuantity") or "1",
        "adjustment": adjustment,
        "net": settlement.text(
            "ram:SpecifiedTradeSettlementLineMonetarySummation/ram:LineTotalAmount"
        ),
        "category": settlement.text("ram:ApplicableTradeTax/ram:CategoryCode"),
        "rate": settlement.text("ram:ApplicableTradeTax/ram:RateApplicablePercent") or "0",
    }


def _adjustments(settlement: Node) -> Iterator[dict[str, Any]]:
    for entry in settlement.all("ram:SpecifiedTradeAllowanceCharge"):
        amount = entry.amount("ram:ActualAmount")
        yield {
            "reason": entry.text("ram:Reason") or entry.text("ram:ReasonCode"),
            "amount": amount if _is_charge(entry) else -amount,
            "category": entry.text("ram:CategoryTradeTax/ram:CategoryCode"),
            "rate": entry.text("ram:CategoryTradeTax/ram:RateApplicablePercent") or "0",
        }


def _taxes(settlement: Node) -> Iterator[dict[str, Any]]:
    for row in settlement.all("ram:ApplicableTradeTax"):
        yield {
            "category": row.text("ram:CategoryCode"),
            "rate": row.text("ram:RateApplicablePercent") or "0",
            "taxable": row.text("ram:BasisAmount"),
            "tax": row.text("ram:CalculatedAmount"),
        }


def _tax_total(totals: Node, currency: str | None) -> str | None:
    """The total in the invoice's currency; another one may repeat it in the accounting currency."""
    for total in totals.all("ram:TaxTotalAmount"):
        if total.attribute("currencyID") == currency:
            return total.text(".")
    return totals.text("ram:TaxTotalAmount")
