"""Applies the rules of this project to every synthesis, and writes down who is exempt and why."""

from __future__ import annotations

import json
from pathlib import Path

import jsii
from aws_cdk import (
    CfnResource,
    IPolicyValidationContext,
    IPolicyValidationPlugin,
    PolicyValidationPluginReport,
    PolicyViolatingResource,
    PolicyViolation,
)
from constructs import IConstruct

from infra.rules import EXEMPT, Rule, check


@jsii.implements(IPolicyValidationPlugin)
class Rulebook:
    """A plugin of CDK's validation: a synthesis with a fault in it fails."""

    @property
    def name(self) -> str:
        """Name of the plugin in reports."""
        return "Piton"

    @property
    def version(self) -> str:
        """Version of the plugin in reports."""
        return "1"

    @property
    def rule_ids(self) -> list[str]:
        """Ids of all rules."""
        return [_id(rule) for rule in Rule]

    def validate(self, context: IPolicyValidationContext) -> PolicyValidationPluginReport:
        """Judge all templates together."""
        paths = {
            Path(path).name.removesuffix(".template.json"): path for path in context.template_paths
        }
        templates = {stack: json.loads(Path(path).read_text()) for stack, path in paths.items()}
        faults = check(templates)
        return PolicyValidationPluginReport(
            success=not faults,
            violations=[
                PolicyViolation(
                    rule_name=_id(fault.rule),
                    description=f"{fault.resource.id} {fault.message}",
                    fix="Change it, or call infra.rulebook.exempt with a reason.",
                    violating_resources=[
                        PolicyViolatingResource(
                            resource_logical_id=fault.resource.id,
                            template_path=paths[fault.resource.stack],
                            locations=["Properties"],
                        )
                    ],
                )
                for fault in faults
            ],
        )


def _id(rule: Rule) -> str:
    return f"Piton-{rule.value}"


def exempt(construct: IConstruct, rule: Rule, reason: str) -> None:
    """Excuse the resources of a construct from a rule; the reason stands in the template."""
    if not reason.strip():
        raise ValueError(f"an exemption from {rule} needs a reason")
    for node in construct.node.find_all():
        if isinstance(node, CfnResource):
            known = node.get_metadata(EXEMPT) or {}
            node.add_metadata(EXEMPT, {**known, rule.value: reason})
