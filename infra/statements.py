"""Statements of roles, and those about queues, the bus, the change stream and logs.

Every statement says why it is there; `docs/permissions.md` shows it. CDK's own grants are not
used: they add actions that nothing here calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from aws_cdk import aws_iam as iam

from piton.access import Access
from piton.domain.status import EventType

EVENT_SOURCE: Final = "piton"
"""What the engine's events name as their source."""

Conditions = dict[str, dict[str, str | list[str]]]


@dataclass(frozen=True, slots=True)
class Statement:
    """One Allow statement."""

    sid: str
    actions: Sequence[str]
    resources: Sequence[str]
    why: str
    conditions: Conditions = field(default_factory=dict)

    def to_iam(self) -> iam.PolicyStatement:
        """Return the CDK form."""
        return iam.PolicyStatement(
            sid=self.sid,
            actions=list(self.actions),
            resources=list(self.resources),
            conditions=dict(self.conditions),
        )


def allow(role: iam.IRole, statements: Iterable[Statement]) -> None:
    """Add statements to a role."""
    for statement in statements:
        role.add_to_principal_policy(statement.to_iam())


def log_statement(group_arn: str) -> Statement:
    """Let a function write its own log. The group exists, so it need not create one."""
    return Statement(
        "WriteLogs",
        ["logs:CreateLogStream", "logs:PutLogEvents"],
        [group_arn],
        "Lambda writes the function's log",
    )


def consume_statement(access: Access, queue_name: str, queue_arn: str) -> Statement:
    """Let Lambda poll a queue for the function, and the function put messages back if it may."""
    return Statement(
        f"Consume{''.join(part.capitalize() for part in queue_name.split('-'))}",
        [
            *(["sqs:ChangeMessageVisibility"] if access.postpones else []),
            "sqs:DeleteMessage",
            "sqs:GetQueueAttributes",
            "sqs:ReceiveMessage",
        ],
        [queue_arn],
        "Lambda polls the queue for the function"
        + (", which hides a dispatch until its time" if access.postpones else ""),
    )


def stream_statements(stream_arn: str, failures_arn: str) -> Iterator[Statement]:
    """Let Lambda poll a change stream for the function, and note what it gives up."""
    why = "Lambda polls the change stream for the function"
    yield Statement(
        "ReadStream",
        ["dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"],
        [stream_arn],
        why,
    )
    yield Statement("ListStreams", ["dynamodb:ListStreams"], ["*"], f"{why}; it knows no resources")
    yield Statement(
        "NoteFailures", ["sqs:SendMessage"], [failures_arn], "Lambda notes records given up"
    )


def publish_statement(bus_arn: str) -> Statement:
    """Let a function put the engine's own events on the bus, and no others."""
    return Statement(
        "PublishEvents",
        ["events:PutEvents"],
        [bus_arn],
        "what committed changes let out",
        {
            "StringEquals": {
                "events:source": EVENT_SOURCE,
                "events:detail-type": [kind.value for kind in EventType],
            }
        },
    )


def dispatch_statement(queue_arns: Iterable[str]) -> Statement:
    """Let a function put dispatches on worker queues."""
    return Statement(
        "DispatchNodes", ["sqs:SendMessage"], list(queue_arns), "what committed changes let out"
    )


def invoke_statement(function_arns: Iterable[str]) -> Statement:
    """Let a worker call the functions that nodes of its pool may be."""
    return Statement(
        "InvokeAllowedFunctions",
        ["lambda:InvokeFunction"],
        list(function_arns),
        "nodes that are functions of the pool's allow-list",
    )
