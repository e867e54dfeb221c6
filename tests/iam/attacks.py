"""What a stolen role would try, as the boto3 calls that it would make.

Three classes. What is here has to be denied by IAM; `residual` is known to go through and stands in
docs/security.md with what it can do. What code and guards refuse needs the handlers and stands in
`refusals`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from piton.access import Function
from tests.iam.attack import (
    CLAIM,
    EXECUTION,
    NODE,
    TEXT,
    WORKFLOW,
    Attack,
    Targets,
    event,
    get,
    list_of_tenant,
    query,
    update,
)
from tests.iam.residual import residual
from tests.iam.template import Deployment


def attacks(deployment: Deployment) -> list[Attack]:
    """Return every attack on a deployment."""
    to = Targets.of(deployment)
    return [
        *_of_everyone(to),
        *_of_the_worker(to),
        *_of_the_api(to),
        *_of_the_engine(to),
        *_of_the_relay(to),
        *residual(to),
    ]


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
        "read who started it": get(table, EXECUTION, "exec_actor"),
        "read the history": get(table, EXECUTION, "exec_log"),
        "read a document's claim": get(table, CLAIM, "idem_execution_id"),
        "read a claim as if it were a node": get(table, CLAIM, "node_status"),
    }
    for name, params in reads.items():
        yield Attack(name, worker, "dynamodb", "GetItem", params)
    yield Attack("query an execution", worker, "dynamodb", "Query", query(to, Select="COUNT"))
    yield Attack("query without a projection", worker, "dynamodb", "Query", query(to))
    for queue in ("worker-default", "worker-default-dlq", "quarantine"):
        body = {"QueueUrl": to.queues[queue], "MessageBody": "x"}
        yield Attack(f"send to {queue}", worker, "sqs", "SendMessage", body)
    yield Attack("publish an event", worker, "events", "PutEvents", event(to))
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
        yield Attack("publish an event", function, "events", "PutEvents", event(to))
        body = {"QueueUrl": to.queues["worker-default"], "MessageBody": "x"}
        yield Attack("dispatch a node", function, "sqs", "SendMessage", body)
        yield Attack("query whole rows", function, "dynamodb", "Query", query(to))
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
            "read an input", function, "dynamodb", "GetItem", get(table, NODE, "input_body")
        )
        yield Attack("publish an event", function, "events", "PutEvents", event(to))
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
        "list a tenant's executions", Function.WATCHDOG, "dynamodb", "Query", list_of_tenant(to)
    )


def _of_the_relay(to: Targets) -> Iterator[Attack]:
    """The relay alone may send, so it may do nothing else."""
    relay, table = Function.OUTBOX_RELAY, to.executions
    yield Attack("read a row", relay, "dynamodb", "GetItem", get(table, NODE, "node_status"))
    write = update(table, NODE, "SET node_status = :x")
    yield Attack("write a row", relay, "dynamodb", "UpdateItem", write)
    yield Attack("publish for somebody else", relay, "events", "PutEvents", event(to, Source="s"))
    yield Attack("publish another type", relay, "events", "PutEvents", event(to, DetailType="t"))
    for queue in ("worker-default-dlq", "quarantine", "undelivered-events", "advance-dlq"):
        body = {"QueueUrl": to.queues[queue], "MessageBody": "x"}
        yield Attack(f"send to {queue}", relay, "sqs", "SendMessage", body)
    taken = {"QueueUrl": to.queues["worker-default"]}
    yield Attack("take a dispatch away", relay, "sqs", "ReceiveMessage", taken)
    read = {"Bucket": to.bucket, "Key": "payloads/acme/x/y"}
    yield Attack("read a payload", relay, "s3", "GetObject", read)
