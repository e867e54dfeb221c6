"""The real handlers, each under its own role, over tables, queues and a bucket of the emulator.

The test delivers every message, so that it can lose one or bring it again; time stands still unless
it is turned. What is sent is read off the calls themselves.
"""

import contextlib
import hashlib
import importlib
import io
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

from local.emulator import REGION
from piton.access import Function
from tests.iam.clock import CLOCK
from tests.iam.enforce import Enforcer
from tests.iam.tasks import RENEWED
from tests.iam.template import Deployment, Role
from tests.infra.synthesis import Resource
from tests.support.emulator import Clients

if TYPE_CHECKING:
    from mypy_boto3_sqs.type_defs import MessageTypeDef

SETTINGS: Final = {"lease_ms": 300, "handler_timeout_ms": 60_000}
OPERATOR: Final = {
    "claims": {
        "custom:tenant": "acme",
        "cognito:groups": ["operators"],
        "cognito:username": "ann",
        "token_use": "id",
    }
}


class WorkerDied(Exception):
    """Stands for the end of a worker's process between its claim and its outcome."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """What a handler is told of its invocation."""

    function_name: str
    aws_request_id: str = "00000000-0000-0000-0000-000000000000"
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:000000000000:function:x"

    def get_remaining_time_in_millis(self) -> int:
        """Always the longest that Lambda gives."""
        return 900_000


class World:
    """One deployment's functions and what they work on."""

    def __init__(self, deployment: Deployment, aws: Clients) -> None:
        self._deployment = deployment
        self._aws = aws
        self.enforcer = Enforcer(deployment, self._observe)
        self.events: list[dict[str, Any]] = []
        self.delayed: list[str] = []
        self._processes: dict[str, ModuleType] = {}
        self._make_tables()
        self._make_queues()
        self._aws.s3.create_bucket(Bucket=self._name("AWS::S3::Bucket"))
        self._aws.events.create_event_bus(Name=self._name("AWS::Events::EventBus"))
        self._iterators = list(self._stream_iterators())

    # --- The API ---------------------------------------------------------------------------

    def ask(
        self,
        type_name: str,
        field: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        source: Mapping[str, Any] | None = None,
        identity: Any = OPERATOR,
    ) -> Any:
        """Resolve one field, as AppSync would have it done."""
        function = Function.COMMANDS if type_name == "Mutation" else Function.QUERIES
        event = {
            "arguments": dict(arguments or {}),
            "identity": identity,
            "source": source,
            "request": {"headers": {}},
            "info": {
                "fieldName": field,
                "parentTypeName": type_name,
                "selectionSetList": [],
                "variables": {},
            },
            "prev": None,
            "stash": {},
        }
        return self.invoke(function, event)

    # --- The engine ------------------------------------------------------------------------

    def relay(self) -> int:
        """Hand the relay what was committed since. Returns the number of records."""
        records = list(self._new_records())
        if records:
            self.invoke(Function.OUTBOX_RELAY, {"Records": records})
        return len(records)

    def advance(self) -> int:
        """Hand the step runner every event that its rules let through."""
        events, self.events = self.events, []
        if events:
            self._batch(Function.STEP_RUNNER, [json.dumps(event) for event in events])
        return len(events)

    def work(self, pool: str = "default") -> int:
        """Hand the pool's worker what waits in its queue; what it answers for is gone then."""
        messages = self._waiting(pool)
        if messages:
            records = [_record(each["Body"], each["ReceiptHandle"]) for each in messages]
            answer = self.invoke(Function.WORKER, {"Records": records}, pool)
            kept = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
            for message, record in zip(messages, records, strict=True):
                if record["messageId"] not in kept:
                    self._delete(pool, message)
        return len(messages)

    def settle(self) -> None:
        """Deliver until nothing moves any more."""
        while self.relay() + self.advance() + self.work() + self.work("documents"):
            pass

    def sweep(self) -> Any:
        """Run the watchdog."""
        return self.invoke(Function.WATCHDOG, {})

    def turn(self, by_ms: int) -> None:
        """Let time pass."""
        CLOCK.turn(by_ms)

    def take(self, pool: str = "default") -> list[str]:
        """Take what waits in a pool's queue."""
        messages = self._waiting(pool)
        for message in messages:
            self._delete(pool, message)
        return [message["Body"] for message in messages]

    def put(self, body: str, pool: str = "default") -> None:
        """Put a message on a pool's queue."""
        self._aws.sqs.send_message(QueueUrl=self._queue(f"worker-{pool}"), MessageBody=body)

    def lose(self) -> None:
        """Lose everything that is under way."""
        while self.relay():
            self.events.clear()
        self.events.clear()
        for pool in ("default", "documents"):
            while self.take(pool):
                pass

    def abandon(self, pool: str = "default") -> None:
        """Let a worker claim what waits and die in the body: nothing that it did then is stored."""
        with mock.patch("piton.services.work.Work._record", side_effect=WorkerDied):
            records = [_record(body) for body in self.take(pool)]
            answer = self.invoke(Function.WORKER, {"Records": records}, pool)
        assert len(answer["batchItemFailures"]) == len(records) > 0

    def moment(self, ahead_ms: int) -> str:
        """Write a moment ahead as the API takes it."""
        return datetime.fromtimestamp((CLOCK.now_ms() + ahead_ms) / 1000, UTC).isoformat()

    def die(self, bodies: Sequence[str]) -> None:
        """Bring messages to the consumer of dead letters."""
        self._batch(Function.DEAD_LETTERS, bodies)

    def restart(self) -> None:
        """Let every function start cold, so that it reads again what it had kept."""
        self._processes.clear()

    # --- One invocation --------------------------------------------------------------------

    def invoke(self, function: Function, event: Any, pool: str = "default") -> Any:
        """Run a handler under its own role and environment; its first call is a cold start."""
        role = self.role(function, pool)
        with self._process(role, function):
            module = self._processes.get(role.id) or _cold(function)
            self._processes[role.id] = module
            return module.handler(event, Invocation(function.value))

    @contextlib.contextmanager
    def _process(self, role: Role, function: Function) -> Iterator[None]:
        environment = {
            **self._deployment.environment(role),
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL": self._aws.endpoint_url,
            "PITON_SETTINGS": json.dumps(SETTINGS),
            "POWERTOOLS_LOG_LEVEL": "CRITICAL",
        }
        if function is Function.WORKER:
            environment["PITON_TASK_MODULES"] = "tests.iam.tasks"
        with (
            mock.patch.dict(os.environ, environment),
            mock.patch("piton.bootstrap.SystemClock", return_value=CLOCK),
            self.enforcer.as_role(role),
            # Metrics of the functions.
            contextlib.redirect_stdout(io.StringIO()),
        ):
            yield

    def role(self, function: Function, pool: str = "default") -> Role:
        """The role of a function, or of one pool's workers."""
        return next(
            each
            for each in self._deployment.roles
            if each.function is function and (function is not Function.WORKER or pool in each.id)
        )

    # --- What there is ---------------------------------------------------------------------

    def _make_tables(self) -> None:
        for table in self._deployment.of_type("AWS::DynamoDB::Table"):
            description = {
                "TableName": self._deployment.name(table),
                "BillingMode": table["BillingMode"],
                "KeySchema": table["KeySchema"],
                "AttributeDefinitions": table["AttributeDefinitions"],
            }
            if indexes := table.get("GlobalSecondaryIndexes"):
                description["GlobalSecondaryIndexes"] = indexes
            if stream := table.get("StreamSpecification"):
                description["StreamSpecification"] = {"StreamEnabled": True, **stream}
            self._aws.dynamodb.create_table(**description)

    def _make_queues(self) -> None:
        for queue in self._deployment.of_type("AWS::SQS::Queue"):
            self._aws.sqs.create_queue(QueueName=queue["QueueName"])

    def _name(self, type_: str) -> str:
        (only,) = self._deployment.of_type(type_)
        return self._deployment.name(only)

    def _queue(self, ending: str) -> str:
        (queue,) = (
            each
            for each in self._deployment.of_type("AWS::SQS::Queue")
            if _short_name(each) == ending
        )
        return self._aws.sqs.get_queue_url(QueueName=queue["QueueName"])["QueueUrl"]

    def _waiting(self, pool: str) -> Sequence["MessageTypeDef"]:
        found = self._aws.sqs.receive_message(
            QueueUrl=self._queue(f"worker-{pool}"), MaxNumberOfMessages=10
        )
        return found.get("Messages", [])

    def _delete(self, pool: str, message: "MessageTypeDef") -> None:
        self._aws.sqs.delete_message(
            QueueUrl=self._queue(f"worker-{pool}"), ReceiptHandle=message["ReceiptHandle"]
        )

    def _stream_iterators(self) -> Iterator[str]:
        name = next(
            self._deployment.name(table)
            for table in self._deployment.of_type("AWS::DynamoDB::Table")
            if table.get("StreamSpecification")
        )
        arn = self._aws.dynamodb.describe_table(TableName=name)["Table"]["LatestStreamArn"]
        description = self._aws.streams.describe_stream(StreamArn=arn)["StreamDescription"]
        for shard in description["Shards"]:
            yield self._aws.streams.get_shard_iterator(
                StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
            )["ShardIterator"]

    def _new_records(self) -> Iterator[Any]:
        following = []
        for iterator in self._iterators:
            answer = self._aws.streams.get_records(ShardIterator=iterator)
            yield from (
                record
                for record in answer["Records"]
                if record["eventName"] in {"INSERT", "MODIFY"}
            )
            if "NextShardIterator" in answer:
                following.append(answer["NextShardIterator"])
        self._iterators = following

    # --- What is sent ----------------------------------------------------------------------

    def _observe(self, role: Role, operation: str, params: Mapping[str, Any]) -> None:
        if operation == "PutEvents":
            self.events += [
                {
                    "source": entry["Source"],
                    "detail-type": entry["DetailType"],
                    "detail": json.loads(entry["Detail"]),
                }
                for entry in params["Entries"]
                if entry["DetailType"] in self._acted_on
            ]
        elif operation == "SendMessageBatch":
            self.delayed += [
                entry["MessageBody"] for entry in params["Entries"] if entry["DelaySeconds"]
            ]
        elif operation == "UpdateItem" and role.function is Function.WORKER:
            RENEWED.set()

    @property
    def _acted_on(self) -> frozenset[str]:
        """Types of event that a rule of the bus sends on."""
        return frozenset(
            kind
            for rule in self._deployment.of_type("AWS::Events::Rule")
            for kind in (rule.get("EventPattern") or {}).get("detail-type", ())
        )

    def _batch(self, function: Function, bodies: Sequence[str]) -> None:
        answer = self.invoke(function, {"Records": [_record(body) for body in bodies]})
        if answer["batchItemFailures"]:
            raise AssertionError(f"{function.value} failed on {bodies}")


def _cold(function: Function) -> ModuleType:
    """Load a handler as a new process does."""
    name = f"handlers.{function.value}"
    sys.modules.pop(name, None)
    return importlib.import_module(name)


def _short_name(queue: Resource) -> str:
    return str(queue["QueueName"]).split("-", 2)[2]


def _record(body: str, receipt: str = "receipt") -> dict[str, Any]:
    return {
        "messageId": hashlib.sha256(f"{receipt}{body}".encode()).hexdigest(),
        "receiptHandle": receipt,
        "body": body,
        "attributes": {},
        "messageAttributes": {},
        "eventSource": "aws:sqs",
    }
