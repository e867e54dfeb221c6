"""The engine in one process on its embedded store: real services, clock, threads and metrics."""

from __future__ import annotations

import json
from collections import deque
from contextlib import suppress
from typing import Any, Final, Self

from handlers.step_runner import route
from piton.adapters.bodies import ThreadRunner
from piton.adapters.clock import SystemClock
from piton.adapters.conditions import check_condition, evaluate_condition
from piton.adapters.metrics import EmfMetrics
from piton.adapters.publisher import SOURCE
from piton.adapters.randomness import SystemRandom
from piton.adapters.workflows import Workflows
from piton.contracts import StartExecutionInput, parse_event
from piton.domain.compile import PoolLimits
from piton.domain.errors import Stale
from piton.domain.messages import Dispatch, Message
from piton.domain.names import Tenant
from piton.domain.settings import Settings
from piton.ports import TaskRegistry, Workflow
from piton.services.assembly import Engine, Ports
from piton.services.bodies import PoolProfile
from piton.services.caller import Caller, Group
from piton.services.commands import Commands
from piton.services.queries import Queries
from piton.services.relay import Change, messages_of
from piton.services.work import WorkerIdentity
from piton.storage.sqlite import SqliteStore
from piton.storage.sqlite_blobs import SqliteBlobs

OPERATOR: Final = Caller(Tenant("acme"), "ada", frozenset({Group.OPERATORS}))
PLENTY_MS: Final = 10**9


class ShiftedClock(SystemClock):
    """The clock of the machine, ahead by `shift_ms`."""

    shift_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.shift_ms


class NoLambdas:
    """No node invokes a function."""

    def invoke(self, arn: str, payload: object, timeout_s: float) -> Any:
        raise NotImplementedError


class Embedded:
    """Registers workflows and runs executions of one tenant to their end."""

    def __init__(self, tasks: TaskRegistry, pools: dict[str, PoolLimits]) -> None:
        self.rows = SqliteStore()
        self.metrics = EmfMetrics("dev")
        self.clock = clock = ShiftedClock()
        blobs = SqliteBlobs(self.rows.database)
        ports = Ports(
            store=self.rows,
            workflows=Workflows(self.rows, blobs),
            blobs=blobs,
            clock=clock,
            random=SystemRandom(),
            metrics=self.metrics,
            settings=Settings(),
            condition=evaluate_condition,
        )
        self._seen = 0
        self.commands = Commands(
            store=ports.store,
            workflows=ports.workflows,
            blobs=blobs,
            clock=clock,
            random=ports.random,
            metrics=self.metrics,
            settings=ports.settings,
            pools=pools,
            check_condition=check_condition,
        )
        self.queries = Queries(
            store=ports.store,
            workflows=ports.workflows,
            blobs=blobs,
            settings=ports.settings,
            log_groups={},
        )
        self._engine = Engine(ports)
        self.sweep = self._engine.sweep
        longest_s = max(pool.max_timeout_s for pool in pools.values())
        self._work = self._engine.worker(
            tasks=tasks,
            runner=ThreadRunner(clock),
            invoker=NoLambdas(),
            pool=PoolProfile(int(longest_s * 1000), frozenset(), lambda _: None),
            identity=WorkerIdentity("embedded", "working-copy"),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.rows.close()

    def register(self, definition: str) -> Workflow:
        """Register a definition."""
        return self.commands.register_workflow(OPERATOR, definition)

    def start(self, workflow: str, content: dict[str, Any]) -> str:
        """Start an execution and return its id."""
        asked = StartExecutionInput(workflow=workflow, input=content)
        return self.commands.start_execution(OPERATOR, asked).execution.ref.execution_id

    def run_to_end(self) -> None:
        """Deliver every message until none is left."""
        waiting: deque[Message] = deque()
        while records := self.rows.read_feed(self._seen, 1000):
            for record in records:
                self._seen = record.seq
                waiting.extend(messages_of(Change(record.old, record.new)))
            while waiting:
                with suppress(Stale):
                    self._deliver(waiting.popleft())

    def _deliver(self, message: Message) -> None:
        if isinstance(message, Dispatch):
            self._work.run(message, PLENTY_MS)
            return
        envelope = {"source": SOURCE, "detail-type": message.type, "detail": dict(message.detail)}
        route(self._engine.advance, parse_event(json.dumps(envelope)))
