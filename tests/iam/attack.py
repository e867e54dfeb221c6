"""What an attack is: a boto3 call under a stolen role, and what has to come of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from piton.access import Function
from piton.storage.algebra import Table
from tests.iam.enforce import Judge
from tests.iam.patterns import Undecidable
from tests.iam.policy import Principal, Request
from tests.iam.template import Deployment

EXECUTION: Final = {"pk": {"S": "EX#acme#01K0"}, "sk": {"S": "META"}}
NODE: Final = {"pk": {"S": "EX#acme#01K0"}, "sk": {"S": "NODE#00000"}}
CLAIM: Final = {"pk": {"S": "IDEM#acme#invoice"}, "sk": {"S": "v000001"}}
WORKFLOW: Final = {"pk": {"S": "WF#acme#w"}, "sk": {"S": "v000001"}}
TEXT: Final = {":x": {"S": "x"}}


class Outcome(Enum):
    """What has to come of an attack."""

    DENIED = "denied by IAM"
    RESIDUAL = "possible"


@dataclass(frozen=True, slots=True)
class Attack:
    """One call under the role of `function`. `expect` is what has to come of it."""

    name: str
    function: Function
    service: str
    operation: str
    params: Mapping[str, Any]
    expect: Outcome = Outcome.DENIED

    @property
    def id(self) -> str:
        """Its name among all attacks."""
        return f"{self.function.value}: {self.name}"


@dataclass(frozen=True, slots=True)
class Targets:
    """Names of what is attacked."""

    executions: str
    workflows: str
    effects: str
    bucket: str
    bus: str
    queues: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, deployment: Deployment) -> "Targets":
        """Find the names in a deployment."""
        tables = {
            table: deployment.name(each)
            for table in Table
            for each in deployment.of_type("AWS::DynamoDB::Table")
            if each.id.startswith(f"Tables{table.value.capitalize()}")
        }
        (bucket,) = deployment.of_type("AWS::S3::Bucket")
        (bus,) = deployment.of_type("AWS::Events::EventBus")
        return cls(
            executions=tables[Table.EXECUTIONS],
            workflows=tables[Table.WORKFLOWS],
            effects=tables[Table.EFFECTS],
            bucket=deployment.name(bucket),
            bus=deployment.name(bus),
            queues={
                str(queue["QueueName"]).split("-", 2)[2]: str(
                    deployment.resolve(queue.stack, {"Ref": queue.id})
                )
                for queue in deployment.of_type("AWS::SQS::Queue")
            },
        )


def succeeds(attack: Attack, judge: Judge, deployment: Deployment) -> bool:
    """Whether IAM lets an attack through. What cannot be judged counts as refused."""
    role = deployment.role_of(attack.function)
    try:
        return judge.allows(role, attack.service, attack.operation, attack.params)
    except Undecidable:
        return False


def update(table: str, key: Any, expression: str, **more: Any) -> dict[str, Any]:
    """Return the parameters of an UpdateItem."""
    params: dict[str, Any] = {"TableName": table, "Key": key, "UpdateExpression": expression}
    if ":x" in expression or ":x" in more.get("ConditionExpression", ""):
        params["ExpressionAttributeValues"] = TEXT
    return {**params, **more}


def get(table: str, key: Mapping[str, Any], attribute: str) -> dict[str, Any]:
    """Return the parameters of a projected GetItem."""
    return {"TableName": table, "Key": key, "ProjectionExpression": f"pk, sk, {attribute}"}


def query(to: Targets, **more: Any) -> dict[str, Any]:
    """Return the parameters of a Query of one execution."""
    return {
        "TableName": to.executions,
        "KeyConditionExpression": "pk = :pk",
        "ExpressionAttributeValues": {":pk": NODE["pk"]},
        **more,
    }


def list_of_tenant(to: Targets) -> dict[str, Any]:
    """Return the parameters of a Query of another tenant's executions."""
    return {
        "TableName": to.executions,
        "IndexName": "by_tenant",
        "KeyConditionExpression": "tenant_pk = :t",
        "ExpressionAttributeValues": {":t": {"S": "T#other"}},
        "Select": "SPECIFIC_ATTRIBUTES",
        "ProjectionExpression": "pk, sk, tenant_sk",
    }


def event(to: Targets, **more: str) -> dict[str, Any]:
    """Return the parameters of a PutEvents with one of the engine's events."""
    entry = {
        "Source": "piton",
        "DetailType": "workflow.node.completed",
        "Detail": "{}",
        "EventBusName": to.bus,
    }
    return {"Entries": [{**entry, **more}]}


def operator_requests(deployment: Deployment, *, encrypted: bool) -> Iterator[Request]:
    """Yield what a person with every permission asks of each queue and bucket."""
    operator = Principal("AWS", "arn:aws:iam::000000000000:role/operator")
    context = {
        "aws:securetransport": (str(encrypted).lower(),),
        "s3:tlsversion": ("1.3" if encrypted else "1.0",),
    }
    for arn in deployment.resource_policies:
        if ":sqs:" in arn:
            yield Request("sqs:ReceiveMessage", arn, context, operator)
        if ":s3:" in arn:
            yield Request("s3:GetObject", f"{arn}/payloads/acme/x/y", context, operator)
