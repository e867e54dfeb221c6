"""What a stolen role can do: IAM compares no values and cannot tell sort keys apart."""

from collections.abc import Iterator

from piton.access import Function
from tests.iam.attack import (
    EXECUTION,
    NODE,
    Attack,
    Outcome,
    Targets,
    event,
    get,
    list_of_tenant,
    update,
)


def residual(to: Targets) -> Iterator[Attack]:
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
            get(table, {**NODE, "pk": {"S": "EX#other#01K0"}}, "node_result"),
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
            list_of_tenant(to),
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
            event(to),
        ),
    ):
        yield Attack(name, function, service, operation, params, Outcome.RESIDUAL)
