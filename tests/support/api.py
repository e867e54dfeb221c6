"""The API's two functions in this process, over a store of the test's choice."""

import io
import json
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers import commands, queries
from handlers.graphql import Handler, serve
from piton.adapters.conditions import check_condition
from piton.adapters.metrics import EmfMetrics
from piton.adapters.randomness import SystemRandom
from piton.adapters.workflows import WorkflowRows, Workflows
from piton.bootstrap import ApiDesk
from piton.domain.compile import PoolLimits
from piton.domain.names import Tenant
from piton.domain.rows import ExecutionRef, LogEntry, Value
from piton.domain.settings import Settings
from piton.ports import Applied, BlobStore, Outcome, Store, Write
from piton.services.caller import Group, RoleGrant, Roles
from piton.services.commands import Commands
from piton.services.payloads import Payloads
from piton.services.queries import Queries
from piton.storage import keys
from piton.storage import operations as op
from piton.storage.algebra import Args, Operation
from piton.storage.keys import Key
from piton.storage.sqlite import SqliteStore
from piton.storage.sqlite_blobs import SqliteBlobs

EVENTS: Final = Path(__file__).resolve().parent.parent / "functions" / "events"
START: Final = 1_767_225_600_000
REQUEST_ID: Final = "8c5f5a4d-9b2a-4a55-8c5f-0d7c0a549a43"
IMPORTER: Final = "arn:aws:iam::111122223333:role/apps/billing-importer"
ROLES: Final[Roles] = {IMPORTER: RoleGrant(Tenant("acme"), frozenset({Group.OPERATORS}))}

Answer = dict[str, Any]
Event = dict[str, Any]


def recorded(name: str) -> Event:
    """Return a copy of a recorded event of AppSync."""
    event: Event = json.loads((EVENTS / f"{name}.json").read_text())
    return event


def every_event() -> list[str]:
    return sorted(path.stem for path in EVENTS.glob("*.json"))


def with_claims(event: Event, **claims: Any) -> Event:
    """Return the event as another user's. `tenant` and `groups` are short for the claims."""
    changed = deepcopy(event)
    names = {"tenant": "custom:tenant", "groups": "cognito:groups"}
    for name, value in claims.items():
        changed["identity"]["claims"][names.get(name, name)] = value
    return changed


class TurnedClock:
    """Stands still unless it is turned."""

    def __init__(self) -> None:
        self.now = START

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> int:
        return self.now - START


@dataclass
class Interference:
    """A store on whose way other things happen. Records the name of every call."""

    inner: Store
    before_transaction: Callable[[], None] | None = None
    after_write: Callable[[Outcome], Outcome] | None = None
    calls: list[str] = field(default_factory=list)

    def apply(self, operation: Operation, key: Key, args: Args) -> Outcome:
        self.calls.append(operation.name)
        outcome = self.inner.apply(operation, key, args)
        return self._answer(outcome)

    def transact(self, writes: Sequence[Write]) -> Outcome:
        self.calls.append("transact")
        if hook := self.before_transaction:
            self.before_transaction = None
            hook()
        return self._answer(self.inner.transact(writes))

    def _answer(self, outcome: Outcome) -> Outcome:
        if hook := self.after_write:
            self.after_write = None
            return hook(outcome)
        return outcome

    def __getattr__(self, name: str) -> Any:
        target = getattr(self.inner, name)

        def recorded_call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            return target(*args, **kwargs)

        return recorded_call


class Context(LambdaContext):
    """What Lambda tells a function about an invocation."""

    def __init__(self) -> None:
        self._function_name = "api"
        self._memory_limit_in_mb = 256
        self._invoked_function_arn = "arn:aws:lambda:us-east-1:111122223333:function:api"
        self._aws_request_id = REQUEST_ID


class ApiUnderTest:
    """Both functions, and the rows behind them."""

    def __init__(
        self, store: Store, rows: WorkflowRows, blobs: BlobStore, settings: Settings | None = None
    ) -> None:
        self.settings = settings or Settings()
        self.rows = store
        self.store = Interference(store)
        self.blobs = blobs
        self.payloads = Payloads(store, blobs, self.settings)
        self.workflows = Workflows(rows, blobs)
        self.clock = TurnedClock()
        self.metrics = EmfMetrics("test")
        # AppSyncResolver keeps the current event on its class: one invocation at a time.
        self._one_at_a_time = threading.Lock()
        desk = ApiDesk(self._commands(), ROLES, self.metrics)
        read = ApiDesk(self._queries(), ROLES, self.metrics)
        self.log = io.StringIO()
        # Loggers are kept by name, with the stream of the first.
        logger = Logger(service=f"api-{uuid.uuid4().hex}", stream=self.log)
        self._commands_handler: Handler = serve(commands.fields, lambda: desk, logger)
        self._queries_handler: Handler = serve(queries.fields, lambda: read, logger)
        self.commands = desk.service
        self.queries = read.service

    @classmethod
    def embedded(cls, store: SqliteStore, settings: Settings | None = None) -> "ApiUnderTest":
        return cls(store, store, SqliteBlobs(store.database), settings)

    def call(self, event: Event) -> Any:
        """Invoke the function that answers the event's field."""
        is_mutation = event["info"]["parentTypeName"] == "Mutation"
        handler = self._commands_handler if is_mutation else self._queries_handler
        with self._one_at_a_time:
            # Through JSON, as an event and an answer go in reality.
            answer = handler(json.loads(json.dumps(event)), Context())
            return json.loads(json.dumps(answer))

    def register(self, tenant: str = "acme", **arguments: Any) -> Answer:
        event = with_claims(recorded("register_workflow"), tenant=tenant)
        event["arguments"] |= arguments
        answer: Answer = self.call(event)
        assert answer.get("error") is None, answer
        return answer

    def start(self, tenant: str = "acme", **input_fields: Any) -> str:
        """Start an execution without an idempotency key; return its id."""
        event = with_claims(recorded("start_execution"), tenant=tenant)
        event["arguments"]["input"] = {"workflow": "invoices", **input_fields}
        answer = self.call(event)
        assert answer.get("error") is None, answer
        return str(answer["execution"]["id"])

    def write(self, operation: Operation, key: Key, args: Args) -> None:
        """Make a change that the engine would make."""
        assert isinstance(self.rows.apply(operation, key, args), Applied)

    def run(self, execution_id: str, tenant: str = "acme") -> ExecutionRef:
        """Move an execution to running."""
        ref = ExecutionRef(tenant, execution_id)
        log = LogEntry("E2", self.clock.now).to_value()
        self.write(op.START, keys.meta(ref), {"now": self.clock.now, "log": log})
        return ref

    def complete(self, ref: ExecutionRef) -> None:
        """Move a running execution to completed."""
        log = LogEntry("E3", self.clock.now).to_value()
        args: dict[str, Value] = {"now": self.clock.now, "due_at": self.clock.now, "log": log}
        self.write(op.COMPLETE_EXECUTION, keys.meta(ref), args)

    def _commands(self) -> Commands:
        return Commands(
            store=self.store,
            workflows=self.workflows,
            blobs=self.blobs,
            clock=self.clock,
            random=SystemRandom(),
            metrics=self.metrics,
            settings=self.settings,
            pools={"default": PoolLimits(600)},
            check_condition=check_condition,
        )

    def _queries(self) -> Queries:
        return Queries(
            store=self.store,
            workflows=self.workflows,
            blobs=self.blobs,
            settings=self.settings,
            log_groups={"default": "/aws/lambda/worker"},
        )


def error_of(answer: Mapping[str, Any]) -> tuple[str, str]:
    """Return code and message of a refused mutation; everything else must be empty."""
    assert set(answer) == {"error"}, answer
    return answer["error"]["code"], answer["error"]["message"]
