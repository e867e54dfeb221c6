"""Clients act under the role they were made for, and every declared write is within its role."""

from collections.abc import Mapping
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from piton.access import BY_FUNCTION, Function
from piton.domain.errors import Bug
from piton.ports import Write
from piton.storage.algebra import Operation, Table
from piton.storage.dynamodb import DynamoStore
from tests.iam.attack import EXECUTION, Targets
from tests.iam.enforce import Enforcer
from tests.iam.template import Deployment, Role
from tests.support.store import Given, key_of, sample_args

DECLARED = [
    (function, operation, given)
    for function in Function
    for operation in BY_FUNCTION[function].operations
    for given in Given
]


class Sent(Exception):
    """A call was allowed and would be sent now."""


def stop(_role: Role, operation: str, _params: Mapping[str, Any]) -> None:
    raise Sent(operation)


@pytest.fixture
def enforcer(deployed: Deployment, monkeypatch: pytest.MonkeyPatch) -> Enforcer:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    return Enforcer(deployed, stop)


@pytest.mark.parametrize(
    ("function", "operation", "given"),
    DECLARED,
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_a_declared_write_is_allowed(
    function: Function,
    operation: Operation,
    given: Given,
    enforcer: Enforcer,
    deployed: Deployment,
) -> None:
    to = Targets.of(deployed)
    with enforcer.as_role(deployed.role_of(function)):
        store = DynamoStore(
            boto3.client("dynamodb"),
            {Table.EXECUTIONS: to.executions, Table.WORKFLOWS: to.workflows},
        )
    key, args = key_of(operation.item), sample_args(operation, given)
    with pytest.raises(Sent):
        _carry_out(store, Write(operation, key, args))


def test_a_denied_call_fails_as_on_aws_and_is_noted(
    enforcer: Enforcer, deployed: Deployment
) -> None:
    to = Targets.of(deployed)
    with enforcer.as_role(deployed.role_of(Function.WORKER)):
        client = boto3.client("dynamodb")
    with pytest.raises(ClientError, match="AccessDeniedException"):
        client.delete_item(TableName=to.executions, Key=EXECUTION)
    assert [entry.action for entry in enforcer.judged if not entry.allowed] == [
        "dynamodb:DeleteItem"
    ]


def test_an_unknown_call_is_denied(enforcer: Enforcer, deployed: Deployment) -> None:
    with enforcer.as_role(deployed.role_of(Function.WORKER)):
        client = boto3.client("sqs")
    with pytest.raises(ClientError, match="CreateQueue is not evaluated"):
        client.create_queue(QueueName="mine")


def test_a_client_keeps_its_role(enforcer: Enforcer, deployed: Deployment) -> None:
    url = Targets.of(deployed).queues["worker-default"]
    with enforcer.as_role(deployed.role_of(Function.OUTBOX_RELAY)):
        relay = boto3.client("sqs")
    with enforcer.as_role(deployed.role_of(Function.WORKER)):
        worker = boto3.client("sqs")
        with pytest.raises(Sent):
            relay.send_message(QueueUrl=url, MessageBody="x")
    with pytest.raises(ClientError, match="AccessDenied"):
        worker.send_message(QueueUrl=url, MessageBody="x")


def test_the_engine_takes_a_denial_for_a_fault(enforcer: Enforcer, deployed: Deployment) -> None:
    """Not for something that may pass: a missing permission must not be tried for ever."""
    to = Targets.of(deployed)
    with enforcer.as_role(deployed.role_of(Function.QUERIES)):
        store = DynamoStore(boto3.client("dynamodb"), {Table.EXECUTIONS: to.executions})
    operation = BY_FUNCTION[Function.WORKER].operations[0]
    with pytest.raises(Bug, match="AccessDenied"):
        store.apply(operation, key_of(operation.item), sample_args(operation))


def _carry_out(store: DynamoStore, write: Write) -> None:
    if write.operation.transactional:
        store.transact([write])
    else:
        store.apply(write.operation, write.key, write.args)
