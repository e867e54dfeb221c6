"""Inputs of executions from files: the samples, or a caller's own documents and reference data."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from examples.invoices.intake import MediaType
from piton.tasks import Json

SAMPLES = Path(__file__).parent / "samples"
WORKFLOW = Path(__file__).parent / "workflow.yaml"
_MEDIA_TYPES = {".xml": MediaType.XML, ".pdf": MediaType.PDF}


@dataclass(frozen=True)
class Expected:
    """What has to become of a sample.

    A readable one has its `format` and the broken rules by check, and is accepted if there are
    none; an unreadable one has the `node` that fails and its `code`.
    """

    format: str | None = None
    findings: Mapping[str, tuple[str, ...]] | None = None
    node: str | None = None
    code: str | None = None

    @property
    def last_node(self) -> str:
        """The node that the execution ends with."""
        if self.node is not None:
            return self.node
        return "reject" if self.findings else "post"


def execution_input(
    document: Path,
    reference: Mapping[str, Json] | None = None,
    pace_s: float | Mapping[str, float] = 0,
) -> dict[str, Json]:
    """The input of an execution for one document.

    `reference` holds `suppliers`, `ledger` and `policy` and is that of the samples by default.
    Raises `KeyError` for a file that is neither `.xml` nor `.pdf`.
    """
    pace: Json = dict(pace_s) if isinstance(pace_s, Mapping) else pace_s
    return {
        **(sample_reference() if reference is None else reference),
        "document": {
            "name": document.name,
            "media_type": _MEDIA_TYPES[document.suffix.lower()],
            "content_base64": base64.b64encode(document.read_bytes()).decode("ascii"),
        },
        "pace_s": pace,
    }


def sample_reference() -> dict[str, Json]:
    """Suppliers, ledger and policy of the sample company."""
    data: dict[str, Json] = json.loads((SAMPLES / "reference.json").read_text("utf-8"))
    return data


def samples() -> dict[Path, Expected]:
    """Every sample document with what has to become of it, readable ones first."""
    table = json.loads((SAMPLES / "expected.json").read_text("utf-8"))
    return {
        SAMPLES / name: Expected(
            format=entry.get("format"),
            findings={check: tuple(rules) for check, rules in entry.get("findings", {}).items()},
            node=entry.get("node"),
            code=entry.get("code"),
        )
        for name, entry in table.items()
    }
