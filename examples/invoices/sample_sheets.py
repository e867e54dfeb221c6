"""The sample invoices as their suppliers' programs print them, errors included."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal


@dataclass(frozen=True)
class Sheet:
    """One printed invoice. `table` starts with its header row; cells hold text as printed."""

    letterhead: tuple[str, ...]
    title: str
    address: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    table: tuple[tuple[str, ...], ...]
    totals: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = ()
    details: dict[int, str] = field(default_factory=dict)
    """Second lines of descriptions, by the number of the row in the table."""


_FERNHILL = ("Fernhill Coffee Roasters GmbH", "Speicherstraße 14", "10997 Berlin", "Deutschland")
_NORDLICHT = (
    "Nordlicht Bürobedarf GmbH",
    "Am Sandtorkai 7, 20457 Hamburg  |  Telefon 040 5550 1203",
    "USt-IdNr.: DE300987656  |  IBAN: DE34 2005 0550 1234 5678 90",
)
_DELTA = (
    "Delta Koffie Logistiek B.V.",
    "Waalhaven Zuidzijde 21, 3089 JH Rotterdam, The Netherlands",
    "VAT ID: NL800000006B01  |  IBAN: NL91 ABNA 0417 1643 00",
)
_KESSEL = (
    "Kessel & Ritter Maschinenbau GmbH",
    "Industriestraße 3, 70565 Stuttgart",
    "VAT ID: DE300876544  |  IBAN: DE65 8306 5408 0004 7118 15",
)
_GERMAN_HEADER = ("Pos", "Bezeichnung", "Menge", "Einzelpreis", "USt", "Betrag")
_ENGLISH_HEADER = ("No", "Description", "Quantity", "Unit price", "VAT", "Amount")


def _nordlicht(
    number: str,
    dates: tuple[str, str],
    order: str,
    table: tuple[tuple[str, ...], ...],
    totals: tuple[tuple[str, str], ...],
    details: dict[int, str] | None = None,
) -> Sheet:
    return Sheet(
        letterhead=_NORDLICHT,
        title="Rechnung",
        address=("Rechnung an", *_FERNHILL),
        facts=(
            ("Rechnungsnummer", number),
            ("Rechnungsdatum", dates[0]),
            ("Zahlbar bis", dates[1]),
            ("Ihre Bestellung", order),
            ("Währung", "EUR"),
            ("Ihre USt-IdNr.", "DE300112238"),
        ),
        table=(_GERMAN_HEADER, *table),
        totals=totals,
        notes=("Lieferdatum entspricht dem Rechnungsdatum.", "Vielen Dank für Ihren Auftrag!"),
        details=details or {},
    )


def _parts_list(count: int) -> tuple[tuple[tuple[str, ...], ...], Decimal]:
    """A long table of spare parts and the sum of its amounts."""
    names = ("Gasket", "Bearing", "Thermocouple", "Drum paddle", "Drive belt", "Valve seat")
    rows: list[tuple[str, ...]] = []
    total = Decimal(0)
    for index in range(1, count + 1):
        quantity, price = Decimal(1 + index % 4), Decimal("3.95") + Decimal("2.35") * index
        amount = quantity * price
        total += amount
        name = f"{names[index % len(names)]} KR-{2000 + 7 * index}"
        rows.append((str(index), name, f"{quantity} pcs", f"{price:,}", "19 %", f"{amount:,}"))
    return tuple(rows), total


def _long_invoice() -> Sheet:
    rows, net = _parts_list(48)
    tax = (net * Decimal("0.19")).quantize(Decimal("0.01"), rounding=ROUND_HALF_UP)
    return Sheet(
        letterhead=_KESSEL,
        title="Invoice",
        address=("Bill to", *_FERNHILL),
        facts=(
            ("Invoice number", "KR-88140"),
            ("Invoice date", "18 March 2025"),
            ("Due date", "17 April 2025"),
            ("Your order", "PO-4733"),
            ("Currency", "EUR"),
            ("Your VAT ID", "DE300112238"),
        ),
        table=(_ENGLISH_HEADER, *rows),
        totals=(
            ("Subtotal", f"{net:,}"),
            ("Net total", f"{net:,}"),
            (f"VAT 19 % on {net:,}", f"{tax:,}"),
            ("Total VAT", f"{tax:,}"),
            ("Invoice total EUR", f"{net + tax:,}"),
            ("Amount due EUR", f"{net + tax:,}"),
        ),
        notes=("Delivered on 17 March 2025. Goods remain our property until paid in full.",),
    )


SHEETS: dict[str, Sheet] = {
    # The same invoice as nordlicht-RE-2025-0417.xml.
    "nordlicht-RE-2025-0417.pdf": _nordlicht(
        "RE-2025-0417",
        ("07.03.2025", "06.04.2025"),
        "PO-4711",
        (
            ("1", "Kopierpapier A4 80 g, Karton", "12 Stk", "27,90", "19 %", "334,80"),
            ("2", "Ordner breit, schwarz", "40 Stk", "2,35", "19 %", "94,00"),
            ("3", "Fachbuch Kaffee rösten", "3 Stk", "46,73", "7 %", "140,19"),
            ("4", "Montage Regalsystem", "2,5 Std", "58,00", "19 %", "145,00"),
        ),
        (
            ("Zwischensumme", "713,99"),
            ("zzgl. Versandkosten, 19 % USt", "9,90"),
            ("Summe netto", "723,89"),
            ("USt 19 % auf 583,70", "110,90"),
            ("USt 7 % auf 140,19", "9,81"),
            ("USt gesamt", "120,71"),
            ("Rechnungsbetrag EUR", "844,60"),
            ("Zahlbetrag EUR", "844,60"),
        ),
        {4: "inkl. Entsorgung der Verpackung"},
    ),
    # Its number stands in the ledger already.
    "nordlicht-RE-2025-0398.pdf": _nordlicht(
        "RE-2025-0398",
        ("28.02.2025", "30.03.2025"),
        "PO-4688",
        (("1", "Whiteboard emailliert 120 x 90 cm", "2 Stk", "118,00", "19 %", "236,00"),),
        (
            ("Zwischensumme", "236,00"),
            ("Summe netto", "236,00"),
            ("USt 19 % auf 236,00", "44,84"),
            ("USt gesamt", "44,84"),
            ("Rechnungsbetrag EUR", "280,84"),
            ("Zahlbetrag EUR", "280,84"),
        ),
    ),
    # 6 x 189,00 is 1.134,00, and 19 % of the net amount is 253,46.
    "nordlicht-RE-2025-0431.pdf": _nordlicht(
        "RE-2025-0431",
        ("12.03.2025", "11.04.2025"),
        "PO-4720",
        (
            ("1", "Bürodrehstuhl Modell Brise", "6 Stk", "189,00", "19 %", "1.143,00"),
            ("2", "Schreibtischlampe LED", "5 Stk", "40,00", "19 %", "200,00"),
        ),
        (
            ("Zwischensumme", "1.334,00"),
            ("Summe netto", "1.334,00"),
            ("USt 19 % auf 1.334,00", "235,46"),
            ("USt gesamt", "235,46"),
            ("Rechnungsbetrag EUR", "1.569,46"),
            ("Zahlbetrag EUR", "1.569,46"),
        ),
    ),
    # The same invoice as delta-koffie-20250093.xml.
    "delta-koffie-20250093.pdf": Sheet(
        letterhead=_DELTA,
        title="Invoice",
        address=("Bill to", *_FERNHILL),
        facts=(
            ("Invoice no.", "20250093"),
            ("Invoice date", "11 March 2025"),
            ("Due date", "10 April 2025"),
            ("Order reference", "PO-4702"),
            ("Currency", "EUR"),
            ("Your VAT ID", "DE300112238"),
        ),
        table=(
            _ENGLISH_HEADER,
            ("1", "Green coffee Ethiopia Sidamo", "1,200 kg", "612.50 / 100", "0 %", "7,350.00"),
            ("2", "Green coffee Colombia Huila", "900 kg", "548.40 / 100", "0 %", "4,935.60"),
        ),
        totals=(
            ("Subtotal", "12,285.60"),
            ("plus Freight Rotterdam to Berlin, 0 % VAT", "185.00"),
            ("Net total", "12,470.60"),
            ("VAT 0 % on 12,470.60", "0.00"),
            ("Total VAT", "0.00"),
            ("Invoice total EUR", "12,470.60"),
            ("Amount due EUR", "12,470.60"),
        ),
        notes=("Intra-Community supply, exempt from VAT (Article 138 Directive 2006/112/EC).",),
    ),
    # The same invoice as kessel-KR-88120.xml.
    "kessel-KR-88120.pdf": Sheet(
        letterhead=_KESSEL,
        title="Invoice",
        address=("Bill to", *_FERNHILL),
        facts=(
            ("Invoice number", "KR-88120"),
            ("Invoice date", "14 March 2025"),
            ("Due date", "28 March 2025"),
            ("Your order", "PO-4715"),
            ("Currency", "EUR"),
            ("Your VAT ID", "DE300112238"),
        ),
        table=(
            _ENGLISH_HEADER,
            ("1", "Inspection of drum roaster", "6.75 h", "96.00", "19 %", "648.00"),
            ("2", "Gasket set", "4 pcs", "37.125", "19 %", "148.50"),
            ("3", "Travel allowance", "1 pc", "40.00", "19 %", "40.00"),
        ),
        totals=(
            ("Subtotal", "836.50"),
            ("less Maintenance contract discount, 19 % VAT", "-83.65"),
            ("Net total", "752.85"),
            ("VAT 19 % on 752.85", "143.04"),
            ("Total VAT", "143.04"),
            ("Invoice total EUR", "895.89"),
            ("Already paid", "-200.00"),
            ("Amount due EUR", "695.89"),
        ),
    ),
    # Nobody has ever bought from this supplier.
    "quickprint-5512.pdf": Sheet(
        letterhead=(
            "Quickprint Copyshop UG",
            "Kottbusser Damm 90, 10967 Berlin",
            "VAT ID: DE300456788  |  IBAN: DE29 1001 0010 0987 6543 21",
        ),
        title="Invoice",
        address=("Bill to", *_FERNHILL),
        facts=(
            ("Invoice number", "5512"),
            ("Invoice date", "10 March 2025"),
            ("Due date", "24 March 2025"),
            ("Currency", "EUR"),
            ("Your VAT ID", "DE300112238"),
        ),
        table=(
            _ENGLISH_HEADER,
            ("1", "Flyers A6, printed on both sides", "2,500 pcs", "0.084", "19 %", "210.00"),
        ),
        totals=(
            ("Subtotal", "210.00"),
            ("Net total", "210.00"),
            ("VAT 19 % on 210.00", "39.90"),
            ("Total VAT", "39.90"),
            ("Invoice total EUR", "249.90"),
            ("Amount due EUR", "249.90"),
        ),
    ),
    "kessel-KR-88140.pdf": _long_invoice(),
}

FACTUR_X = Sheet(
    letterhead=(
        "Atelier Lumière SARL",
        "12 rue des Capucins, 69001 Lyon, France",
        "VAT ID: FR85900001009  |  IBAN: FR14 2004 1010 0505 0001 3M02 606",
    ),
    title="Invoice",
    address=("Bill to", *_FERNHILL),
    facts=(
        ("Invoice number", "F2025-118"),
        ("Invoice date", "17 March 2025"),
        ("Due date", "16 April 2025"),
        ("Currency", "EUR"),
        ("Your VAT ID", "DE300112238"),
    ),
    table=(
        _ENGLISH_HEADER,
        ("1", "Product photography, spring range", "2 days", "640.00", "0 %", "1,280.00"),
        ("2", "Image rights, two years", "1 pc", "315.00", "0 %", "315.00"),
    ),
    totals=(
        ("Subtotal", "1,595.00"),
        ("plus Courier, 0 % VAT", "25.00"),
        ("Net total", "1,620.00"),
        ("VAT 0 % on 1,620.00", "0.00"),
        ("Total VAT", "0.00"),
        ("Invoice total EUR", "1,620.00"),
        ("Amount due EUR", "1,620.00"),
    ),
    notes=("Reverse charge: VAT is due from the recipient.",),
)
"""The printed side of the PDF that carries `atelier-F2025-118.xml` inside."""
