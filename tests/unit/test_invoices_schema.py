"""The XML samples are what they claim to be: valid under the formats' own schemas."""

from __future__ import annotations

from pathlib import Path

import pytest
from facturx import xml_check_xsd  # type: ignore[import-untyped]

from examples.invoices.batch import SAMPLES, samples
from examples.invoices.reading import Format

XML_SAMPLES = [
    pytest.param(path, expected.format, id=path.name)
    for path, expected in samples().items()
    if path.suffix == ".xml" and expected.code is None
]
_FLAVOR = {Format.UBL: "ubl-2.1-invoice", Format.CII: "factur-x"}


@pytest.mark.parametrize(("path", "format_"), XML_SAMPLES)
def test_sample_is_valid(path: Path, format_: str) -> None:
    assert xml_check_xsd(path.read_bytes(), flavor=_FLAVOR[Format(format_)]) is True


def test_schema_check_can_fail() -> None:
    document = (SAMPLES / "malformed" / "without-date.xml").read_bytes()
    with pytest.raises(Exception, match="IssueDate"):
        xml_check_xsd(document, flavor="ubl-2.1-invoice")
