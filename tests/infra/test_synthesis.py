"""The application synthesizes anywhere, follows the rules, and refuses what it cannot deploy."""

import subprocess
import sys
from pathlib import Path

import pytest
from cfnlint.api import lint_file
from cfnlint.config import ManualArgs

from infra.contract import Output
from tests.infra.conftest import Synthesize
from tests.infra.synthesis import ROOT, STACKS, Assembly, Variant, environment

DEPLOYABLE = [Variant.DEV, Variant.PROD, Variant.LOCAL, Variant.FULL]


def test_it_needs_neither_credentials_nor_look_ups(stage: Assembly) -> None:
    """The process that synthesized had no credentials; a look-up would be noted as missing."""
    assert "missing" not in stage.manifest
    assert set(STACKS) <= set(stage.manifest["artifacts"])


@pytest.mark.parametrize("variant", DEPLOYABLE)
def test_the_rules_of_awssolutions_hold(variant: Variant, assemblies: Synthesize) -> None:
    assembly = assemblies(variant)
    assert assembly.code == 0, assembly.output


def test_the_rules_are_really_applied(assemblies: Synthesize) -> None:
    careless = assemblies(Variant.CARELESS)
    assert careless.code != 0
    assert "AwsSolutions-SQS4" in careless.output


@pytest.mark.parametrize("name", STACKS)
@pytest.mark.parametrize("variant", DEPLOYABLE)
def test_cloudformation_would_take_the_template(
    variant: Variant, name: str, assemblies: Synthesize
) -> None:
    template = assemblies(variant).template_file(name)
    # W3005: CDK also writes down dependencies that follow from references.
    found = lint_file(template, ManualArgs(ignore_checks=["W3005"]))
    assert [str(match) for match in found] == []


def test_a_field_without_a_resolver_stops_the_synthesis(assemblies: Synthesize) -> None:
    unwired = assemblies(Variant.UNWIRED)
    assert unwired.code != 0
    assert "No function answers Query.getExecution" in unwired.output


def test_every_output_exists_under_its_own_name(stage: Assembly) -> None:
    published = {
        name
        for stack in STACKS
        for name, output in stage.template(stack)["Outputs"].items()
        if "Export" not in output
    }
    assert published == {output.value for output in Output}


def test_the_command_line_tells_in_one_line_what_is_wrong(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "app.py"],
        cwd=ROOT,
        env=environment(tmp_path, {"stage": "production"}, tmp_path / "cdk.out"),
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert (
        done.stderr.strip() == "error: Context value stage: 'production' is not a valid StageName"
    )
