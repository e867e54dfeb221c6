"""What a stolen role would try, as the boto3 calls that it would make.

Three classes. `DENIED` has to be refused by IAM; `RESIDUAL` is known to go through and stands in
docs/security.md with what it can do. What code and guards refuse needs the handlers and stands in
`refusals`.
"""

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


def attacks(deployment: Deployment) -> list[Attack]:
    """Return every attack on a deployment."""
    to = Targets.of(deployment)
    return [
        *_of_everyone(to),
        *_of_the_worker(to),
        *_of_the_api(to),
        *_of_the_engine(to),
        *_of_the_relay(to),
        *_residual(to),
    ]


def update(table: str, key: Any, expression: str, **more: Any) -> dict[str, Any]:
    """Return the parameters of an UpdateItem."""
    params: dict[str, Any] = {"TableName": table, "Key": key, "UpdateExpression": expression}
    if ":x" in expression or ":x" in more.get("ConditionExpression", ""):
        params["ExpressionAttributeValues"] = TEXT
    return {**params, **more}


def _of_everyone(to: Targets) -> Iterator[Attack]:
    """What no role may do at all."""
    item = {**EXECUTION, "exec_status": {"S": "completed"}}
    put = {"PutRequest": {"Item": item}}
    check = {
        "TableName": to.executions,
        "Key": EXECUTION,
        "ConditionExpression": "exec_status = :x",
    }
    statement = "UPDATE executions SET exec_status='x' WHERE pk='x' AND sk='META'"
    calls: tuple[tuple[str, str, str, Mapping[str, Any]], ...] = (
        ("put over META", "dynamodb", "PutItem", {"TableName": to.executions, "Item": item}),
        ("delete META", "dynamodb", "DeleteItem", {"TableName": to.executions, "Key": EXECUTION}),
        ("scan executions", "dynamodb", "Scan", {"TableName": to.executions}),
        ("scan workflows", "dynamodb", "Scan", {"TableName": to.workflows}),
        (
            "scan an index",
            "dynamodb",
            "Scan",
            {"TableName": to.executions, "IndexName": "by_tenant"},
        ),
        (
            "replace in a batch",
            "dynamodb",
            "BatchWriteItem",
            {"RequestItems": {to.executions: [put]}},
        ),
        (
            "put inside a transaction",
            "dynamodb",
            "TransactWriteItems",
            {"TransactItems": [{"Put": {"TableName": to.executions, "Item": item}}]},
        ),
        (
            "delete inside a transaction",
            "dynamodb",
            "TransactWriteItems",
            {"TransactItems": [{"Delete": {"TableName": to.executions, "Key": EXECUTION}}]},
        ),
        (
            "probe by a condition check",
            "dynamodb",
            "TransactWriteItems",
            {"TransactItems": [{"ConditionCheck": check}]},
        ),
        (
            "write by PartiQL",
            "dynamodb",
            "ExecuteStatement",
            {"Statement": statement},
        ),
        ("drop a table", "dynamodb", "DeleteTable", {"TableName": to.executions}),
        ("list payloads", "s3", "ListObjectsV2", {"Bucket": to.bucket, "Prefix": "payloads/"}),
        ("delete a payload", "s3", "DeleteObject", {"Bucket": to.bucket, "Key": "payloads/a/b/c"}),
        ("read elsewhere in the bucket", "s3", "GetObject", {"Bucket": to.bucket, "Key": "other"}),
        (
            "send to the default bus",
            "events",
            "PutEvents",
            {"Entries": [{"Source": "piton", "DetailType": "workflow.failed", "Detail": "{}"}]},
        ),
        (
            "send to the advance queue",
            "sqs",
            "SendMessage",
            {"QueueUrl": to.queues["advance"], "MessageBody": "x"},
        ),
        ("empty the advance queue", "sqs", "PurgeQueue", {"QueueUrl": to.queues["advance"]}),
        ("call any function", "lambda", "Invoke", {"FunctionName": "someone-elses"}),
    )
    for function in Function:
        for name, service, operation, params in calls:
            yield Attack(name, function, service, operation, params)


def _of_the_worker(to: Targets) -> Iterator[Attack]:
    """A worker runs the users' code, so its role is the one that is stolen first."""
    worker, table = Function.WORKER, to.executions
    writes: Mapping[str, dict[str, Any]] = {
        "end an execution": update(table, EXECUTION, "SET exec_status = :x"),
        "prolong an execution": update(table, EXECUTION, "SET exec_ends_by = :x"),
        "widen a scope": update(table, EXECUTION, "SET exec_scope = :x"),
        "take off the due list": update(table, EXECUTION, "REMOVE due_shard, due_at"),
        "let rows expire": update(table, NODE, "SET expires_at = :x"),
        "let rows expire beside a lawful write": update(
            table, NODE, "SET node_status = :x, expires_at = :x"
        ),
        "resolve an edge": update(table, NODE, "ADD node_resolved :x"),
        "give itself a pool": update(table, NODE, "SET node_pool = :x"),
        "probe the status of an execution": update(
            table, EXECUTION, "SET node_status = :x", ConditionExpression="exec_status = :x"
        ),
        "write under an alias": update(
            table, EXECUTION, "SET #e = :x", ExpressionAttributeNames={"#e": "exec_status"}
        ),
        "write inside a map": update(table, EXECUTION, "SET exec_log[0].fence = :x"),
        "read a row through ALL_NEW": update(
            table, NODE, "SET node_status = :x", ReturnValues="ALL_NEW"
        ),
        "read a row through ALL_OLD": update(
            table, NODE, "SET node_status = :x", ReturnValues="ALL_OLD"
        ),
        "read attributes through UPDATED_OLD": update(
            table, NODE, "SET node_status = :x", ReturnValues="UPDATED_OLD"
        ),
        "claim a document": update(table, CLAIM, "SET idem_execution_id = :x"),
        "write into another kind of row": update(table, CLAIM, "SET node_status = :x"),
        "change a workflow": update(to.workflows, WORKFLOW, "SET wf_body = :x"),
        "write an effect": update(to.effects, NODE, "SET effect_status = :x"),
    }
    for name, params in writes.items():
        yield Attack(name, worker, "dynamodb", "UpdateItem", params)
    transaction = {"TransactItems": [{"Update": update(table, NODE, "SET node_status = :x")}]}
    yield Attack("write in a transaction", worker, "dynamodb", "TransactWriteItems", transaction)
    reads: Mapping[str, dict[str, Any]] = {
        "read a whole row": {"TableName": table, "Key": EXECUTION},
        "read who started it": _get(table, EXECUTION, "exec_actor"),
        "read the history": _get(table, EXECUTION, "exec_log"),
        "read a document's claim": _get(table, CLAIM, "idem_execution_id"),
        "read a claim as if it were a node": _get(table, CLAIM, "node_status"),
    }
    for name, params in reads.items():
        yield Attack(name, worker, "dynamodb", "GetItem", params)
    yield Attack("query an execution", worker, "dynamodb", "Query", _query(to, Select="COUNT"))
    yield Attack("query without a projection", worker, "dynamodb", "Query", _query(to))
    for queue in ("worker-default", "worker-default-dlq", "quarantine"):
        body = {"QueueUrl": to.queues[queue], "MessageBody": "x"}
        yield Attack(f"send to {queue}", worker, "sqs", "SendMessage", body)
    yield Attack("publish an event", worker, "events", "PutEvents", _event(to))
    for place in ("workflows/acme/x", "elsewhere"):
        payload = {"Bucket": to.bucket, "Key": place, "Body": b"x"}
        yield Attack(f"put to {place}", worker, "s3", "PutObject", payload)


def _of_the_api(to: Targets) -> Iterator[Attack]:
    """The functions behind the API take the callers' words."""
    table = to.executions
    for name, params in {
        "write a node's status": update(table, NODE, "SET node_status = :x"),
        "write a node's result": update(table, NODE, "SET node_result = :x"),
        "fabricate a dead letter": update(table, NODE, "SET dead_tenant = :x"),
        "start an execution itself": update(table, EXECUTION, "SET exec_started_at = :x"),
        "create an execution outside a transaction": update(
            table, EXECUTION, "SET exec_workflow_id = :x, exec_status = :x"
        ),
        "take an input outside a transaction": update(table, EXECUTION, "SET input_body = :x"),
        "let an execution expire": update(table, EXECUTION, "SET expires_at = :x"),
        "read through ALL_NEW": update(
            table, EXECUTION, "SET exec_status = :x", ReturnValues="ALL_NEW"
        ),
    }.items():
        for function in (Function.COMMANDS, Function.QUERIES):
            yield Attack(name, function, "dynamodb", "UpdateItem", params)
    returned = {
        **update(table, EXECUTION, "SET exec_status = :x"),
        "ConditionExpression": "attribute_not_exists(exec_status)",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    yield Attack(
        "read a row through a transaction that fails",
        Function.COMMANDS,
        "dynamodb",
        "TransactWriteItems",
        {"TransactItems": [{"Update": returned}]},
    )
    for function in (Function.COMMANDS, Function.QUERIES):
        yield Attack("publish an event", function, "events", "PutEvents", _event(to))
        body = {"QueueUrl": to.queues["worker-default"], "MessageBody": "x"}
        yield Attack("dispatch a node", function, "sqs", "SendMessage", body)
        yield Attack("query whole rows", function, "dynamodb", "Query", _query(to))
    put = {"Bucket": to.bucket, "Key": "payloads/acme/x/y", "Body": b"x"}
    yield Attack("store a payload", Function.QUERIES, "s3", "PutObject", put)
    listed = {
        "TableName": table,
        "IndexName": "due",
        "KeyConditionExpression": "due_shard = :x",
        "ExpressionAttributeValues": TEXT,
        "ProjectionExpression": "pk, sk, due_at",
    }
    yield Attack("read the due list", Function.QUERIES, "dynamodb", "Query", listed)


def _of_the_engine(to: Targets) -> Iterator[Attack]:
    """Step runner, watchdog and the consumer of dead letters run no code but the engine's."""
    table = to.executions
    for name, params in {
        "store a result": update(table, NODE, "SET node_result = :x"),
        "claim a node": update(table, NODE, "SET node_code_hash = :x, node_claimed_at = :x"),
        "prolong an execution": update(table, EXECUTION, "SET exec_ends_by = :x"),
        "widen a scope": update(table, EXECUTION, "SET exec_scope = :x"),
        "forge who started it": update(table, EXECUTION, "SET exec_actor = :x"),
        "change an input": update(table, EXECUTION, "SET input_body = :x"),
        "change a workflow": update(to.workflows, WORKFLOW, "SET wf_body = :x"),
        "read a row through ALL_OLD": update(
            table, NODE, "SET node_status = :x", ReturnValues="ALL_OLD"
        ),
        "claim a document": update(table, CLAIM, "SET idem_execution_id = :x"),
    }.items():
        for function in (Function.STEP_RUNNER, Function.WATCHDOG, Function.DEAD_LETTERS):
            yield Attack(name, function, "dynamodb", "UpdateItem", params)
    for function in (Function.STEP_RUNNER, Function.WATCHDOG, Function.DEAD_LETTERS):
        yield Attack(
            "read an input", function, "dynamodb", "GetItem", _get(table, NODE, "input_body")
        )
        yield Attack("publish an event", function, "events", "PutEvents", _event(to))
        body = {"QueueUrl": to.queues["worker-default"], "MessageBody": "x"}
        yield Attack("dispatch a node", function, "sqs", "SendMessage", body)
        put = {"Bucket": to.bucket, "Key": "payloads/acme/x/y", "Body": b"x"}
        yield Attack("store a payload", function, "s3", "PutObject", put)
    for name, params in {
        "end an execution": update(table, EXECUTION, "SET exec_status = :x"),
        "let rows expire": update(table, NODE, "SET expires_at = :x"),
        "resolve an edge": update(table, NODE, "ADD node_resolved :x"),
    }.items():
        yield Attack(name, Function.DEAD_LETTERS, "dynamodb", "UpdateItem", params)
    yield Attack(
        "list a tenant's executions", Function.WATCHDOG, "dynamodb", "Query", _of_tenant(to)
    )


def _of_the_relay(to: Targets) -> Iterator[Attack]:
    """The relay alone may send, so it may do nothing else."""
    relay, table = Function.OUTBOX_RELAY, to.executions
    yield Attack("read a row", relay, "dynamodb", "GetItem", _get(table, NODE, "node_status"))
    write = update(table, NODE, "SET node_status = :x")
    yield Attack("write a row", relay, "dynamodb", "UpdateItem", write)
    yield Attack("publish for somebody else", relay, "events", "PutEvents", _event(to, Source="s"))
    yield Attack("publish another type", relay, "events", "PutEvents", _event(to, DetailType="t"))
    for queue in ("worker-default-dlq", "quarantine", "undelivered-events", "advance-dlq"):
        body = {"QueueUrl": to.queues[queue], "MessageBody": "x"}
        yield Attack(f"send to {queue}", relay, "sqs", "SendMessage", body)
    taken = {"QueueUrl": to.queues["worker-default"]}
    yield Attack("take a dispatch away", relay, "sqs", "ReceiveMessage", taken)
    read = {"Bucket": to.bucket, "Key": "payloads/acme/x/y"}
    yield Attack("read a payload", relay, "s3", "GetObject", read)


def _residual(to: Targets) -> Iterator[Attack]:
    """What IAM cannot prevent. Each has to stay listed in docs/security.md."""
    table = to.executions
    for name, function, service, operation, params in (
        (
            "a worker writes a node of any execution it can name, without its fence",
            Function.WORKER,
            "dynamodb",
            "UpdateItem",
            update(table, NODE, "SET node_status = :x, node_result = :x"),
        ),
        (
            "a worker creates a row of node attributes anywhere under EX#",
            Function.WORKER,
            "dynamodb",
            "UpdateItem",
            update(table, {**NODE, "sk": {"S": "META"}}, "SET node_status = :x"),
        ),
        (
            "a worker reads input and results of any execution it can name",
            Function.WORKER,
            "dynamodb",
            "GetItem",
            _get(table, {**NODE, "pk": {"S": "EX#other#01K0"}}, "node_result"),
        ),
        (
            "a worker reads a whole row through a condition that fails",
            Function.WORKER,
            "dynamodb",
            "UpdateItem",
            {
                **update(table, EXECUTION, "SET node_status = :x"),
                "ConditionExpression": "attribute_not_exists(pk)",
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            },
        ),
        (
            "a worker takes dispatches of its pool away",
            Function.WORKER,
            "sqs",
            "DeleteMessage",
            {"QueueUrl": to.queues["worker-default"], "ReceiptHandle": "x"},
        ),
        (
            "a worker stores any payload under a key it can name",
            Function.WORKER,
            "s3",
            "PutObject",
            {"Bucket": to.bucket, "Key": "payloads/other/x/y", "Body": b"x"},
        ),
        (
            "commands act in the name of any tenant",
            Function.COMMANDS,
            "dynamodb",
            "UpdateItem",
            update(table, {**EXECUTION, "pk": {"S": "EX#other#01K0"}}, "SET exec_status = :x"),
        ),
        (
            "queries read any tenant",
            Function.QUERIES,
            "dynamodb",
            "Query",
            _of_tenant(to),
        ),
        (
            "the step runner ends any execution",
            Function.STEP_RUNNER,
            "dynamodb",
            "UpdateItem",
            update(table, EXECUTION, "SET exec_status = :x"),
        ),
        (
            "the relay dispatches any node and publishes any event of the engine",
            Function.OUTBOX_RELAY,
            "events",
            "PutEvents",
            _event(to),
        ),
    ):
        yield Attack(name, function, service, operation, params, Outcome.RESIDUAL)


def _get(table: str, key: Mapping[str, Any], attribute: str) -> dict[str, Any]:
    return {"TableName": table, "Key": key, "ProjectionExpression": f"pk, sk, {attribute}"}


def _query(to: Targets, **more: Any) -> dict[str, Any]:
    return {
        "TableName": to.executions,
        "KeyConditionExpression": "pk = :pk",
        "ExpressionAttributeValues": {":pk": NODE["pk"]},
        **more,
    }


def _of_tenant(to: Targets) -> dict[str, Any]:
    return {
        "TableName": to.executions,
        "IndexName": "by_tenant",
        "KeyConditionExpression": "tenant_pk = :t",
        "ExpressionAttributeValues": {":t": {"S": "T#other"}},
        "Select": "SPECIFIC_ATTRIBUTES",
        "ProjectionExpression": "pk, sk, tenant_sk",
    }


def _event(to: Targets, **more: str) -> dict[str, Any]:
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
