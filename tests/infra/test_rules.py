"""The rules hold on every stage, each of them bites, and every exemption has a reason."""

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from infra.rules import EXEMPT, RULES, Rule, check
from tests.infra.conftest import Synthesize
from tests.infra.synthesis import STACKS, Assembly, Variant

Templates = dict[str, Any]
Break = Callable[[Templates], None]

EXPECTED = {
    Rule.DEAD_LETTERS: {"AWS::Events::Rule"},
    Rule.WILDCARD: {"AWS::IAM::Policy"},
}
"""What is exempt on every stage, by the type of what would be at fault."""


def templates(assembly: Assembly) -> Templates:
    return {stack: copy.deepcopy(assembly.template(stack)) for stack in STACKS}


def resources(found: Templates, type_: str) -> Iterator[dict[str, Any]]:
    for template in found.values():
        for body in template["Resources"].values():
            if body["Type"] == type_:
                yield body


def drop(type_: str, *path: str) -> Break:
    """Take a property away from every resource of a type."""

    def broken(found: Templates) -> None:
        for body in resources(found, type_):
            properties = body["Properties"]
            for name in path[:-1]:
                properties = properties.get(name, {})
            properties.pop(path[-1], None)

    return broken


def put(type_: str, name: str, value: Any) -> Break:
    """Give every resource of a type a property."""

    def broken(found: Templates) -> None:
        for body in resources(found, type_):
            body["Properties"][name] = value

    return broken


def without(type_: str) -> Break:
    """Take away every resource of a type."""

    def broken(found: Templates) -> None:
        for template in found.values():
            template["Resources"] = {
                id_: body for id_, body in template["Resources"].items() if body["Type"] != type_
            }

    return broken


def targets_without_dead_letters(found: Templates) -> None:
    for body in resources(found, "AWS::Events::Rule"):
        for target in body["Properties"]["Targets"]:
            target.pop("DeadLetterConfig", None)


def allow_plain_http(found: Templates) -> None:
    for type_ in ("AWS::SQS::QueuePolicy", "AWS::S3::BucketPolicy"):
        for body in resources(found, type_):
            for statement in body["Properties"]["PolicyDocument"]["Statement"]:
                statement.pop("Condition", None)


def allow_any(element: str, value: Any) -> Break:
    def broken(found: Templates) -> None:
        for body in resources(found, "AWS::IAM::Policy"):
            body.pop("Metadata", None)
            body["Properties"]["PolicyDocument"]["Statement"][0][element] = value

    return broken


def count_only(found: Templates) -> None:
    for body in resources(found, "AWS::WAFv2::WebACL"):
        for rule in body["Properties"]["Rules"]:
            rule["Action"] = {"Count": {}}


QUEUE = "AWS::SQS::Queue"
SOURCE = "AWS::Lambda::EventSourceMapping"
FUNCTION = "AWS::Lambda::Function"
API = "AWS::AppSync::GraphQLApi"
BREAKS: list[tuple[Rule, Break]] = [
    (Rule.VISIBILITY, put(QUEUE, "VisibilityTimeout", 59)),
    (Rule.VISIBILITY, drop(QUEUE, "VisibilityTimeout")),
    (Rule.VISIBILITY, put(FUNCTION, "Timeout", 900)),
    (Rule.DEAD_LETTERS, drop(QUEUE, "RedrivePolicy")),
    (Rule.DEAD_LETTERS, drop(SOURCE, "DestinationConfig")),
    (Rule.DEAD_LETTERS, targets_without_dead_letters),
    (Rule.CONCURRENCY, drop(SOURCE, "ScalingConfig")),
    (Rule.LOGS, drop("AWS::Logs::LogGroup", "RetentionInDays")),
    (Rule.LOGS, drop(FUNCTION, "LoggingConfig")),
    (Rule.ENCRYPTION, drop(QUEUE, "SqsManagedSseEnabled")),
    (Rule.ENCRYPTION, drop("AWS::S3::Bucket", "BucketEncryption")),
    (Rule.TLS, without("AWS::SQS::QueuePolicy")),
    (Rule.TLS, without("AWS::S3::BucketPolicy")),
    (Rule.TLS, allow_plain_http),
    (Rule.WILDCARD, allow_any("Action", "dynamodb:*")),
    (Rule.WILDCARD, allow_any("Resource", "*")),
    (Rule.RESERVED, drop(FUNCTION, "ReservedConcurrentExecutions")),
    (Rule.RESERVED, put(FUNCTION, "ReservedConcurrentExecutions", 2)),
    (Rule.API_LIMITS, drop(API, "QueryDepthLimit")),
    (Rule.API_LIMITS, put(API, "ResolverCountLimit", 0)),
    (Rule.API_RATE, without("AWS::WAFv2::WebACLAssociation")),
    (Rule.API_RATE, drop("AWS::WAFv2::WebACL", "Rules")),
    (Rule.API_RATE, count_only),
]


def test_the_rules_hold(stage: Assembly) -> None:
    assert [f"{fault.rule} {fault.resource.id}" for fault in check(templates(stage))] == []


@pytest.mark.parametrize(("rule", "broken"), BREAKS)
def test_a_rule_bites(rule: Rule, broken: Break, prod: Assembly) -> None:
    found = templates(prod)
    broken(found)
    assert rule in {fault.rule for fault in check(found)}


def test_every_rule_is_broken_once() -> None:
    assert {rule for rule, _ in BREAKS} == set(Rule) == RULES.keys()


def test_exemptions_are_few_and_have_reasons(prod: Assembly) -> None:
    found = templates(prod)
    for reasons in _reasons(found):
        assert all(len(reason) > 20 for reason in reasons.values())
        reasons.clear()
    at_fault: dict[Rule, set[str]] = {}
    for fault in check(found):
        at_fault.setdefault(fault.rule, set()).add(fault.resource.type)
    assert at_fault == EXPECTED


def test_a_fault_stops_the_synthesis(assemblies: Synthesize) -> None:
    careless = assemblies(Variant.CARELESS)
    assert careless.code != 0
    assert f"Piton-{Rule.TLS.value}" in careless.output


def test_only_prod_pays_for_a_web_acl(prod: Assembly, dev: Assembly) -> None:
    (acl,) = prod.of_type("AWS::WAFv2::WebACL")
    assert acl["Scope"] == "REGIONAL"
    (rule,) = acl["Rules"]
    assert rule["Statement"]["RateBasedStatement"]["AggregateKeyType"] == "IP"
    assert not dev.of_type("AWS::WAFv2::WebACL")


def _reasons(found: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    for template in found.values():
        for body in template["Resources"].values():
            if EXEMPT in body.get("Metadata", {}):
                yield body["Metadata"][EXEMPT]
