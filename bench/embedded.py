"""The engine in one process on the SQLite file store, every commit synced.

With group commits a node's completion, what follows from it and the next claim share one sync,
which comes before the next body starts.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Final

from bench.metrics import NoMetrics
from bench.shapes import chain
from piton.adapters.bodies import ThreadRunner
from piton.adapters.clock import SystemClock
from piton.adapters.conditions import check_condition, evaluate_condition
from piton.adapters.randomness import SystemRandom
from piton.adapters.workflows import Workflows
from piton.contracts import StartExecutionInput
from piton.domain.canonical import Json
from piton.domain.compile import PoolLimits
from piton.domain.errors import Stale
from piton.domain.graph import DEFAULT_POOL
from piton.domain.messages import Dispatch, Event, Message
from piton.domain.names import Tenant
from piton.domain.rows import ExecutionRef
from piton.domain.settings import Settings
from piton.domain.status import EventType, ExecutionStatus
from piton.services.assembly import Engine, Ports
from piton.services.bodies import PoolProfile
from piton.services.caller import Caller, Group
from piton.services.commands import Commands
from piton.services.relay import Change, messages_of
from piton.services.work import WorkerIdentity
from piton.storage.sqlite import SqliteStore
from piton.storage.sqlite_blobs import SqliteBlobs
from piton.tasks import Context, Inputs, Registry, Task

CALLER: Final = Caller(Tenant("bench"), "bench", frozenset({Group.OPERATORS}))
_TIMEOUT_S: Final = 900


def microseconds_per_node(file: Path, nodes: int, *, group_commits: bool) -> float:
    """Run a chain of trivial tasks from its start to its end and return the time per node.

    `file` must not exist yet. Raises `RuntimeError` when the execution does not complete.
    """
    store = SqliteStore(file, group_commits=group_commits)
    try:
        return _run(store, nodes)
    finally:
        store.close()


def _run(store: SqliteStore, nodes: int) -> float:
    blobs = SqliteBlobs(store.database)
    ports = Ports(
        store=store,
        workflows=Workflows(store, blobs),
        blobs=blobs,
        clock=SystemClock(),
        random=SystemRandom(),
        metrics=NoMetrics(),
        settings=Settings(),
        condition=evaluate_condition,
    )
    engine = Engine(ports)
    tasks = Registry()
    tasks.add(Task("dag.run", _trivial, None, None))
    work = engine.worker(
        tasks=tasks,
        runner=ThreadRunner(ports.clock),
        invoker=_NoLambdas(),
        pool=PoolProfile(_TIMEOUT_S * 1000, frozenset(), lambda _: store.flush()),
        identity=WorkerIdentity("embedded", "bench"),
    )
    commands = Commands(
        store=store,
        workflows=ports.workflows,
        blobs=blobs,
        clock=ports.clock,
        random=ports.random,
        metrics=ports.metrics,
        settings=ports.settings,
        pools={DEFAULT_POOL: PoolLimits(_TIMEOUT_S)},
        check_condition=check_condition,
    )
    workflow = commands.register_workflow(CALLER, json.dumps(chain(nodes)))
    began = time.perf_counter()
    asked = StartExecutionInput(workflow=workflow.workflow_id, input={})
    ref = commands.start_execution(CALLER, asked).execution.ref
    store.flush()
    seen = 0
    while records := store.read_feed(seen, 100):
        for record in records:
            seen = record.seq
            for message in messages_of(Change(record.old, record.new)):
                if isinstance(message, Dispatch):
                    work.run(message, _TIMEOUT_S * 1000)
                else:
                    _advance(engine, ref, message)
    store.flush()
    took = time.perf_counter() - began
    execution = store.get_execution(ref)
    if execution is None or execution.status is not ExecutionStatus.COMPLETED:
        raise RuntimeError("the chain did not complete")
    return took * 1e6 / nodes


def _advance(engine: Engine, ref: ExecutionRef, message: Message) -> None:
    match message:
        case Event(type=EventType.START_REQUESTED):
            engine.advance.start(ref)
        case Event(type=EventType.NODE_COMPLETED, detail=detail):
            try:
                engine.advance.node_ended(ref, int(str(detail["ordinal"])))
            except Stale:
                # The end gate's own event: the execution has been completed with it.
                return
        case _:
            return


def _trivial(_ctx: Context, _inputs: Inputs) -> None:
    return None


class _NoLambdas:
    def invoke(self, arn: str, payload: Json, timeout_s: float) -> Json:
        raise NotImplementedError
