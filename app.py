"""The CDK application: `cdk deploy --all -c stage=dev`."""

from __future__ import annotations

import sys

from aws_cdk import App, Validations
from cdk_nag import AwsSolutionsChecks

from infra.bundle import BundleError
from infra.contract import StageName
from infra.rulebook import Rulebook
from infra.schema import SchemaError
from infra.stacks import build
from infra.stage import ContextError


def main() -> None:
    """Synthesize the stacks; exit with a message when the input does not allow it."""
    app = App()
    try:
        stage = build(app)
    except (BundleError, ContextError, SchemaError) as error:
        sys.exit(f"error: {error}")
    # Nothing is at stake on the embedded AWS; the tests hold that stage to the same rules.
    if stage.name is not StageName.LOCAL:
        Validations.of(app).add_plugins(AwsSolutionsChecks(app), Rulebook())
    app.synth()


if __name__ == "__main__":
    main()
