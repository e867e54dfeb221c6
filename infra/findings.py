"""Acknowledged findings of the AwsSolutions rules, each with its reason."""

from __future__ import annotations

from aws_cdk import Acknowledgment, Validations
from constructs import IConstruct


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """Accept `rule` on this construct and on what is inside it.

    `rule` is the rule's id without the pack's name; rules that report several findings need the
    finding, as in `IAM5[Resource::*]`.
    """
    Validations.of(construct).acknowledge(Acknowledgment(id=f"AwsSolutions-{rule}", reason=reason))
