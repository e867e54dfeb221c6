"""The bodies of the invoice workflow's nodes. All of them are pure functions of their inputs.

A document that cannot be read fails its node for good, with one of the codes of `Reason`; an
invoice that is readable but wrong is no failure: it is rejected by the workflow's own decision.
"""

from __future__ import annotations

import hashlib
from typing import TypeVar

from pydantic import ValidationError

from examples.invoices import arithmetic, checks, outcome, reading
from examples.invoices.findings import Checked, Decision, Extracted, Finding, Ingested
from examples.invoices.intake import Case
from examples.invoices.record import Model
from examples.invoices.unreadable import Unreadable
from examples.pacing import wait, wait_async
from piton.tasks import Context, Inputs, Json, Permanent, RetryPolicy, task

INPUT_INVALID = "INPUT_INVALID"
UNBALANCED_ENTRY = "UNBALANCED_ENTRY"

M = TypeVar("M", bound=Model)


def _parsed(model: type[M], data: Json, place: str) -> M:
    """Validate `data`. Raises `Permanent` naming the place of the fault, never a value."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join([place, *(str(part) for part in first["loc"])])
        raise Permanent(INPUT_INVALID, f"{where}: {first['type']}") from None


def _case(inputs: Inputs) -> Case:
    return _parsed(Case, inputs["execution"], "execution")


def _result(inputs: Inputs, node: str, model: type[M]) -> M:
    nodes = inputs["nodes"]
    return _parsed(model, nodes.get(node) if isinstance(nodes, dict) else None, f"nodes.{node}")


def _json(result: Model) -> Json:
    data: dict[str, Json] = result.model_dump(mode="json")
    return data


def _checked(findings: list[Finding]) -> Json:
    return _json(Checked(findings=tuple(findings)))


@task("invoices.ingest", timeout_s=20)
def ingest(ctx: Context, inputs: Inputs) -> Json:
    """Take the document in: decode it and note what it is."""
    case = _case(inputs)
    wait(ctx, case.pace_of(ctx.node_id))
    document = case.document
    try:
        content = document.content()
    except Unreadable as error:
        raise Permanent(error.reason, error.where) from None
    return _json(
        Ingested(
            name=document.name,
            media_type=document.media_type,
            size=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
        )
    )


@task("invoices.extract", retry=RetryPolicy(max_attempts=3), timeout_s=20)
def extract(ctx: Context, inputs: Inputs) -> Json:
    """Read the document into the invoice record."""
    case, ingested = _case(inputs), _result(inputs, "ingest", Ingested)
    wait(ctx, case.pace_of(ctx.node_id))
    try:
        format_, invoice = reading.read(case.document.content(), ingested.media_type)
    except Unreadable as error:
        raise Permanent(error.reason, error.where) from None
    ctx.logger.info("read %s with %d lines", format_, len(invoice.lines))
    return _json(Extracted(format=format_, invoice=invoice))


@task("invoices.check_totals", timeout_s=20)
def check_totals(ctx: Context, inputs: Inputs) -> Json:
    """Check the arithmetic."""
    case, extracted = _case(inputs), _result(inputs, "extract", Extracted)
    wait(ctx, case.pace_of(ctx.node_id))
    tolerance = case.policy.rounding_tolerance
    return _checked(arithmetic.check_totals(extracted.invoice, tolerance))


@task("invoices.check_supplier", timeout_s=20)
def check_supplier(ctx: Context, inputs: Inputs) -> Json:
    """Check the supplier, its VAT id and its account."""
    case, extracted = _case(inputs), _result(inputs, "extract", Extracted)
    wait(ctx, case.pace_of(ctx.node_id))
    return _checked(checks.check_supplier(extracted.invoice, case.suppliers))


@task("invoices.check_duplicate", timeout_s=20)
async def check_duplicate(ctx: Context, inputs: Inputs) -> Json:
    """Check that the invoice was not booked before."""
    case, extracted = _case(inputs), _result(inputs, "extract", Extracted)
    await wait_async(ctx, case.pace_of(ctx.node_id))
    return _checked(checks.check_duplicate(extracted.invoice, case.ledger))


@task("invoices.check_policy", timeout_s=20)
def check_policy(ctx: Context, inputs: Inputs) -> Json:
    """Check the buyer's own rules."""
    case, extracted = _case(inputs), _result(inputs, "extract", Extracted)
    wait(ctx, case.pace_of(ctx.node_id))
    return _checked(checks.check_policy(extracted.invoice, case.policy))


@task("invoices.decide", timeout_s=20)
def decide(ctx: Context, inputs: Inputs) -> Json:
    """Join: accept the invoice if none of the checks before this node found anything."""
    case, extracted = _case(inputs), _result(inputs, "extract", Extracted)
    wait(ctx, case.pace_of(ctx.node_id))
    nodes = inputs["nodes"]
    names = sorted(nodes) if isinstance(nodes, dict) else []
    findings = {
        name: _result(inputs, name, Checked).findings for name in names if name != "extract"
    }
    accepted = not any(findings.values())
    return _json(Decision(accepted=accepted, invoice=extracted.invoice, findings=findings))


@task("invoices.post", timeout_s=20)
def post(ctx: Context, inputs: Inputs) -> Json:
    """Book an accepted invoice and propose its payment."""
    case, decision = _case(inputs), _result(inputs, "decide", Decision)
    wait(ctx, case.pace_of(ctx.node_id))
    invoice = decision.invoice
    try:
        entry = outcome.journal_entry(invoice, case.policy)
    except outcome.Unbalanced:
        raise Permanent(UNBALANCED_ENTRY) from None
    return {
        "number": invoice.number,
        "supplier_vat": invoice.supplier.vat_id,
        "entry": [*entry],
        "payment": outcome.payment(invoice),
    }


@task("invoices.reject", timeout_s=20)
def reject(ctx: Context, inputs: Inputs) -> Json:
    """Answer the supplier with everything that is wrong."""
    case, decision = _case(inputs), _result(inputs, "decide", Decision)
    wait(ctx, case.pace_of(ctx.node_id))
    return outcome.response(decision)
