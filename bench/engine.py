"""The whole engine in one process over real tables: what the functions do, without the functions.

Services, stores and messages are the deployed ones. Only the transport differs: the change stream
is read here and what the relay sends is handled at once, in its wire form.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import boto3
from botocore.config import Config

import examples.dag.tasks  # noqa: F401 - registers the body of every node
from bench.ledger import Ledger
from bench.metrics import NoMetrics
from handlers.step_runner import route
from local.emulator import Emulator
from local.tables import create_bucket, create_tables
from piton.adapters.blobs import S3Blobs
from piton.adapters.bodies import ThreadRunner
from piton.adapters.clock import SystemClock
from piton.adapters.conditions import check_condition, evaluate_condition
from piton.adapters.lambdas import AwsLambdaInvoker
from piton.adapters.publisher import SOURCE
from piton.adapters.randomness import SystemRandom
from piton.adapters.workflows import Workflows
from piton.contracts import (
    IdempotencyInput,
    StartExecutionInput,
    parse_dispatch,
    parse_event,
)
from piton.domain.canonical import Json
from piton.domain.compile import PoolLimits
from piton.domain.errors import Stale
from piton.domain.graph import DEFAULT_POOL
from piton.domain.messages import Dispatch, Event
from piton.domain.names import Tenant
from piton.domain.rows import ExecutionRef
from piton.domain.settings import Settings
from piton.domain.status import ExecutionStatus, NodeStatus
from piton.ports import Outcome, Workflow, Write
from piton.services.advance import Advance
from piton.services.assembly import Engine as Services
from piton.services.assembly import Ports
from piton.services.bodies import PoolProfile
from piton.services.caller import Caller, Group
from piton.services.commands import Commands
from piton.services.relay import Change, Relay
from piton.services.work import Work, WorkerIdentity
from piton.storage.algebra import Args, Operation, Table
from piton.storage.attributes import decode_item
from piton.storage.dynamodb import DynamoStore
from piton.storage.keys import Key
from piton.tasks import REGISTRY

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodbstreams import DynamoDBStreamsClient
    from mypy_boto3_dynamodbstreams.type_defs import RecordTypeDef

TENANT: Final = Tenant("bench")
CALLER: Final = Caller(TENANT, "bench", frozenset({Group.OPERATORS}))
_TIMEOUT_S: Final = 900
_CONFIG: Final = Config(retries={"total_max_attempts": 1}, proxies={})


class Engine:
    """One deployment's worth of services. `ledger` gets the cost of all they do."""

    def __init__(self, emulator: Emulator) -> None:
        env, url = emulator.client_env(), emulator.endpoint_url
        session = boto3.Session(
            aws_access_key_id=env["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=env["AWS_SECRET_ACCESS_KEY"],
            region_name=env["AWS_REGION"],
        )
        dynamodb = session.client("dynamodb", endpoint_url=url, config=_CONFIG)
        s3 = session.client("s3", endpoint_url=url, config=_CONFIG)
        names = create_tables(dynamodb)
        self.ledger = Ledger()
        self.clock = _ShiftedClock()
        self._settings = Settings()
        self.ledger.watch(dynamodb)
        self._store = _MeteredStore(dynamodb, names, self.ledger)
        self._stream = _Stream(
            session.client("dynamodbstreams", endpoint_url=url, config=_CONFIG),
            names[Table.EXECUTIONS],
        )
        self._messages: deque[Callable[[], object]] = deque()
        self._wire(
            S3Blobs(s3, create_bucket(s3)),
            AwsLambdaInvoker(session.client("lambda", endpoint_url=url, config=_CONFIG)),
        )

    def _wire(self, blobs: S3Blobs, invoker: AwsLambdaInvoker) -> None:
        store, clock, settings, metrics = self._store, self.clock, self._settings, NoMetrics()
        self._workflows = Workflows(store, blobs)
        ports = Ports(
            store=store,
            workflows=self._workflows,
            blobs=blobs,
            clock=clock,
            random=SystemRandom(),
            metrics=metrics,
            settings=settings,
            condition=evaluate_condition,
        )
        self._services = Services(ports)
        self._commands = Commands(
            store=store,
            workflows=self._workflows,
            blobs=blobs,
            clock=clock,
            random=ports.random,
            metrics=metrics,
            settings=settings,
            pools={DEFAULT_POOL: PoolLimits(_TIMEOUT_S)},
            check_condition=check_condition,
        )
        work = self._services.worker(
            tasks=REGISTRY,
            runner=ThreadRunner(clock),
            invoker=invoker,
            pool=PoolProfile(_TIMEOUT_S * 1000, frozenset(), lambda _: None),
            # As long as a Lambda's: the pool and the process id.
            identity=WorkerIdentity(host=f"{DEFAULT_POOL}:12345", code_hash="0123456789ab"),
        )
        self._relay = Relay(_AtOnce(self._messages, work, self._services.advance), metrics)

    def register(self, definition: Mapping[str, Json]) -> Workflow:
        """Register a workflow and read it once, as a warm function has."""
        workflow = self._commands.register_workflow(CALLER, json.dumps(definition))
        loaded = self._workflows.load(TENANT, workflow.workflow_id, workflow.version)
        return loaded or workflow

    def start(self, workflow: Workflow) -> ExecutionRef:
        """Start an execution under an idempotency key, which is the dearer way."""
        asked = StartExecutionInput(
            workflow=workflow.workflow_id,
            input={"scale": 0},
            idempotency=IdempotencyInput(document=f"document-of-{workflow.workflow_id}"),
        )
        return self._commands.start_execution(CALLER, asked).execution.ref

    def settle(self) -> None:
        """Relay and handle messages until nothing follows any more."""
        while changes := self.changes():
            self.handle(changes)

    def require_completed(self, ref: ExecutionRef, workflow: Workflow) -> None:
        """Raise `RuntimeError` unless every node and the execution are completed."""
        rows = self._store.query_nodes(ref)
        execution = self._store.get_execution(ref)
        completed = {row.ordinal for row in rows if row.status is NodeStatus.COMPLETED}
        if execution is None or execution.status is not ExecutionStatus.COMPLETED:
            raise RuntimeError(f"{workflow.workflow_id} did not complete")
        if len(completed) != len(workflow.graph.nodes):
            raise RuntimeError(f"{workflow.workflow_id} left nodes behind")

    def changes(self) -> list[Change]:
        """Return what was committed since the last call."""
        changes = list(self._stream.read())
        for change in changes:
            self.ledger.see(change.new)
        return changes

    def handle(self, changes: Sequence[Change]) -> None:
        """Relay changes and handle what they let out, but not what follows from that."""
        self._relay.relay(changes)
        while self._messages:
            self._messages.popleft()()

    def retire(self) -> None:
        """Let the time pass that an ended execution stays on the due list, and sweep it."""
        self.clock.shift(self._settings.drain_ms + self._settings.sweep_latest_ms)
        self._services.sweep.run(100, lambda: self._settings.handler_timeout_ms)
        self.settle()


class _MeteredStore(DynamoStore):
    """Books each write under its operation."""

    def __init__(self, client: DynamoDBClient, names: Mapping[Table, str], ledger: Ledger) -> None:
        super().__init__(client, names, on_capacity=ledger.charge)
        self._ledger = ledger

    def apply(self, operation: Operation, key: Key, args: Args) -> Outcome:
        with self._ledger.purpose(operation.name):
            return super().apply(operation, key, args)

    def transact(self, writes: Sequence[Write]) -> Outcome:
        with self._ledger.purpose("+".join(write.operation.name for write in writes)):
            return super().transact(writes)


class _AtOnce:
    """`ports.Publisher` whose messages are handled by this process."""

    def __init__(self, messages: deque[Callable[[], object]], work: Work, advance: Advance) -> None:
        self._messages = messages
        self._work = work
        self._advance = advance

    def publish(self, events: Sequence[Event]) -> None:
        for event in events:
            envelope = {
                "source": SOURCE,
                "detail-type": event.type.value,
                "detail": dict(event.detail),
            }
            self._messages.append(partial(self._receive, json.dumps(envelope)))

    def dispatch(self, dispatches: Sequence[Dispatch]) -> None:
        for dispatch in dispatches:
            self._messages.append(partial(self._work_off, json.dumps(dispatch.to_json())))

    def _work_off(self, body: str) -> None:
        self._work.run(parse_dispatch(body).to_dispatch(), _TIMEOUT_S * 1000)

    def _receive(self, envelope: str) -> None:
        try:
            route(self._advance, parse_event(envelope))
        except Stale:
            # Events such as `workflow.started`, which no rule sends to the step runner.
            return


class _Stream:
    """The change stream of a table, read from its beginning."""

    def __init__(self, client: DynamoDBStreamsClient, table: str) -> None:
        self._client = client
        [stream] = client.list_streams(TableName=table)["Streams"]
        arn = stream["StreamArn"]
        shards = client.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
        self._iterators = [
            client.get_shard_iterator(
                StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
            )["ShardIterator"]
            for shard in shards
        ]

    def read(self) -> Iterator[Change]:
        """Return every change since the last call."""
        for shard in range(len(self._iterators)):
            while records := self._next(shard):
                for record in records:
                    images = record["dynamodb"]
                    old = images.get("OldImage")
                    yield Change(decode_item(old) if old else None, decode_item(images["NewImage"]))

    def _next(self, shard: int) -> list[RecordTypeDef]:
        answer = self._client.get_records(ShardIterator=self._iterators[shard])
        self._iterators[shard] = answer["NextShardIterator"]
        return answer["Records"]


class _ShiftedClock(SystemClock):
    """The system's clock, which can be put forward."""

    def __init__(self) -> None:
        self._ahead_ms = 0

    def shift(self, milliseconds: int) -> None:
        self._ahead_ms += milliseconds

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_ms
