"""Rules that every synthesized stack keeps, judged on the templates themselves.

They speak of several resources at once, a queue and the timeout of its consumer for example, which
no construct sees alone. `rulebook` applies them at the end of every synthesis.

A resource may be exempt from a rule for a reason, which stands in its metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

EXEMPT: Final = "piton:exempt"
"""Metadata of a resource: reasons by rule."""

VISIBILITY_FACTOR: Final = 6
WATCHDOG: Final = "handlers.watchdog.handler"
DEEPEST_LIMIT: Final = 75
MOST_RESOLVERS: Final = 1000

_FUNCTION: Final = "AWS::Lambda::Function"
_LOG_GROUP: Final = "AWS::Logs::LogGroup"
_QUEUE: Final = "AWS::SQS::Queue"
_BUCKET: Final = "AWS::S3::Bucket"
_API: Final = "AWS::AppSync::GraphQLApi"
_SOURCE: Final = "AWS::Lambda::EventSourceMapping"

Template = Mapping[str, Any]


class Rule(StrEnum):
    """What is asked of the stacks."""

    VISIBILITY = "visibility"
    DEAD_LETTERS = "dead-letters"
    CONCURRENCY = "concurrency"
    LOGS = "logs"
    ENCRYPTION = "encryption"
    TLS = "tls"
    WILDCARD = "wildcard"
    RESERVED = "reserved"
    API_LIMITS = "api-limits"
    API_RATE = "api-rate"


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of a template."""

    stack: str
    id: str
    type: str
    properties: Mapping[str, Any]
    exempt: Mapping[str, str]

    def get(self, *path: str) -> Any:
        """Return a property, however deep, or None."""
        found: Any = self.properties
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        return found


@dataclass(frozen=True, slots=True)
class Fault:
    """A resource that breaks a rule."""

    rule: Rule
    resource: Resource
    message: str


class Stacks:
    """All templates of an application, by stack."""

    def __init__(self, templates: Mapping[str, Template]) -> None:
        self.resources = tuple(
            Resource(
                stack,
                id_,
                body["Type"],
                body.get("Properties", {}),
                body.get("Metadata", {}).get(EXEMPT, {}),
            )
            for stack, template in templates.items()
            for id_, body in template.get("Resources", {}).items()
        )
        self._by_id = {(each.stack, each.id): each for each in self.resources}
        self._exports: dict[str, tuple[str, Any]] = {
            output["Export"]["Name"]: (stack, output["Value"])
            for stack, template in templates.items()
            for output in template.get("Outputs", {}).values()
            if "Export" in output
        }

    def of_type(self, *types: str) -> Iterator[Resource]:
        """Yield the resources of these types."""
        return (each for each in self.resources if each.type in types)

    def target(self, stack: str, value: Any) -> Resource | None:
        """Return the resource that a value refers to."""
        match value:
            case {"Ref": str(id_)} | {"Fn::GetAtt": [str(id_), _]}:
                return self._by_id.get((stack, id_))
            case {"Fn::ImportValue": str(name)} if name in self._exports:
                return self.target(*self._exports[name])
            case _:
                return None

    def sources(self) -> Iterator[tuple[Resource, Resource | None, Resource | None]]:
        """Yield every event source mapping with what it reads and the function it feeds."""
        for source in self.of_type(_SOURCE):
            read = self.target(source.stack, source.get("EventSourceArn"))
            fed = self.target(source.stack, source.get("FunctionName"))
            yield source, read, fed


Check = Callable[[Stacks], Iterator[tuple[Resource, str]]]


def check(templates: Mapping[str, Template]) -> list[Fault]:
    """Return every fault that no written reason excuses."""
    stacks = Stacks(templates)
    return [
        Fault(rule, resource, message)
        for rule, find in RULES.items()
        for resource, message in find(stacks)
        if not resource.exempt.get(rule)
    ]


def _visibility(stacks: Stacks) -> Iterator[tuple[Resource, str]]:
    for _, queue, function in stacks.sources():
        if queue is None or queue.type != _QUEUE:
            continue
        timeout = function.get("Timeout") if function else None
        hidden = queue.get("VisibilityTimeout")
        if not timeout or not hidden or hidden < VISIBILITY_FACTOR * timeout:
            yield queue, f"must hide messages for {VISIBILITY_FACTOR} timeouts of its consumer"


def _dead_letters(stacks: Stacks) -> Iterator[tuple[Resource, str]]:
    for source, read, _ in stacks.sources():
        if read is not None and read.type == _QUEUE:
            if not read.get("RedrivePolicy", "deadLetterTargetArn"):
                yield read, "is consumed and has no queue of dead letters"
        elif not source.get("DestinationConfig", "OnFailure", "Destination"):
            yield source, "reads a stream and notes nowhere what it gives up"
    for rule in stacks.of_type("AWS::Events::Rule"):
        for target in rule.get("Targets") or ():
            if not (target.get("DeadLetterConfig") or {}).get("Arn"):
                yield rule, "has a target without a queue of dead letters"


def _concurrency(stacks: Stacks) -> Iterator[tuple[Resource, str]]:
    for source, read, _ in stacks.sources():
        bounded = source.get("ScalingConfig", "MaximumConcurrency")
        if read is not None and read.type == _QUEUE and not bounded:
            yield source, "has no maximum concurrency: throttled deliveries become dead letters"


def _logs(stacks: Stacks) -> Iterator[tuple[Resource, str]]:
    for group in stacks.of_type(_LOG_GROUP):
        if not group.get("RetentionInDays"):
            yield group, "keeps logs for ever"
    for function in stacks.of_type(_FUNCTION):
        group_name = function.get("LoggingConfig", "LogGroup")
        own = stacks.target(function.stack, group_name)
        named = isinstance(group_name, str) and any(
            each.get("LogGroupName") == group_name for each in stacks.of_type(_LOG_GROUP)
        )
        if not named and (own is None or own.type != _LOG_GROUP):
            yield function, "logs to a group that no stack owns"


def _encryption(stacks: Stacks) -> Iterator[tuple[Resource, str]]:
    for queue in stacks.of_type(_QUEUE):
        if queue.get("SqsManagedSseEnabled") is not True and not queue.get("KmsMasterKeyId"):
            yield queue, "is not encrypted"
    for bucket in stacks.of_type(_BUCKET):
        if not bucket.get("BucketEncryption", "ServerSideEncryptionConfiguration"):
            yield bucket, "is not encrypted"


def _tls(stacks: Stacks) -> Iterator[tuple[Resource, str]]:
    guarded = {
        (target.stack, target.id)
        for policy in stacks.of_type("AWS::SQS::QueuePolicy", "AWS::S3::BucketPolicy")
        if any(map(_refuses_plain_http, policy.get("PolicyDocument", "Statement") or ()))
        for value in (policy.get("Queues") or [policy.get("Bucket")])
        if (target := stacks.target(policy.stack, value))
    }
    for resource in stacks.of_type(_QUEUE, _BUCKET):
        if (resource.stack, resource.id) not in guarded:
            yield resource, "can be reached without TLS"


def _wildcard(stacks: Stacks) -> Iterator[tuple[Resource, str]]:
    for resource in stacks.of_type("AWS::IAM::Policy", "AWS::IAM::Role"):
        documents = [resource.get("PolicyDocument")]
        documents += [policy["PolicyDocument"] for policy in resource.get("Policies") or ()]
        for statement in (
            each for document in documents if document for each in document["Statement"]
        ):
            for element in ("Action", "Resource"):
                for value in _listed(statement.get(element, "*")):
                    if "*" in str(value):
                        yield resource, f"allows {element.lower()} {value}"


def _reserved(stacks: Stacks) -> Iterator[tuple[Resource, str]]:
    for function in stacks.of_type(_FUNCTION):
        if function.get("Handler") == WATCHDOG and (
            function.get("ReservedConcurrentExecutions") != 1
        ):
            yield function, "may run more than once at a time"


def _api_limits(stacks: Stacks) -> Iterator[tuple[Resource, str]]:
    for api in stacks.of_type(_API):
        for name, most in (
            ("QueryDepthLimit", DEEPEST_LIMIT),
            ("ResolverCountLimit", MOST_RESOLVERS),
        ):
            if not 1 <= (api.get(name) or 0) <= most:
                yield api, f"has no {name} from 1 to {most}"


def _api_rate(stacks: Stacks) -> Iterator[tuple[Resource, str]]:
    limited = set()
    for association in stacks.of_type("AWS::WAFv2::WebACLAssociation"):
        api = stacks.target(association.stack, association.get("ResourceArn"))
        acl = stacks.target(association.stack, association.get("WebACLArn"))
        if api and acl and any(map(_limits_rate, acl.get("Rules") or ())):
            limited.add((api.stack, api.id))
    for api in stacks.of_type(_API):
        if (api.stack, api.id) not in limited:
            yield api, "has no web ACL that limits how often one address may call"


RULES: Final[Mapping[Rule, Check]] = {
    Rule.VISIBILITY: _visibility,
    Rule.DEAD_LETTERS: _dead_letters,
    Rule.CONCURRENCY: _concurrency,
    Rule.LOGS: _logs,
    Rule.ENCRYPTION: _encryption,
    Rule.TLS: _tls,
    Rule.WILDCARD: _wildcard,
    Rule.RESERVED: _reserved,
    Rule.API_LIMITS: _api_limits,
    Rule.API_RATE: _api_rate,
}


def _refuses_plain_http(statement: Mapping[str, Any]) -> bool:
    condition = statement.get("Condition", {}).get("Bool", {}).get("aws:SecureTransport")
    return (
        statement["Effect"] == "Deny"
        and str(condition).lower() == "false"
        and statement.get("Action") in ("sqs:*", "s3:*")
        and statement.get("Principal") in ("*", {"AWS": "*"})
    )


def _limits_rate(rule: Mapping[str, Any]) -> bool:
    rate = rule.get("Statement", {}).get("RateBasedStatement", {})
    return bool(rate.get("Limit")) and "Block" in rule.get("Action", {})


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
