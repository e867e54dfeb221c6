"""The engine's services over one set of ports.

Every host wires them the same way: the Lambda functions, an embedded process, the simulator and
the measurements differ in their ports alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from piton.domain.frontier import Condition
from piton.domain.settings import Settings
from piton.ports import (
    BlobStore,
    BodyRunner,
    Clock,
    LambdaInvoker,
    Metrics,
    Random,
    Store,
    TaskRegistry,
    WorkflowStore,
)
from piton.services.advance import Advance
from piton.services.bodies import Bodies, PoolProfile
from piton.services.dead_letters import DeadLetters
from piton.services.dispatching import Dispatching
from piton.services.drain import Drain
from piton.services.frontier import Frontier, Spread, in_turn
from piton.services.inputs import InputReader
from piton.services.payloads import Payloads
from piton.services.sweep import Sweep
from piton.services.work import Work, WorkerIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """What an engine stands on. `condition` evaluates edge conditions."""

    store: Store
    workflows: WorkflowStore
    blobs: BlobStore
    clock: Clock
    random: Random
    metrics: Metrics
    settings: Settings
    condition: Condition


class Engine:
    """Services that share ports. `spread` runs independent writes of one frontier pass."""

    def __init__(self, ports: Ports, spread: Spread = in_turn) -> None:
        store, workflows, clock = ports.store, ports.workflows, ports.clock
        metrics, settings = ports.metrics, ports.settings
        self.ports = ports
        self.payloads = Payloads(store, ports.blobs, settings)
        self.dispatching = Dispatching(store, clock, ports.random, metrics)
        self.drain = Drain(store, clock, metrics, settings)
        self.frontier = Frontier(
            store, self.payloads, clock, metrics, settings, ports.condition, spread
        )
        self.advance = Advance(
            store, workflows, self.frontier, self.dispatching, self.drain, clock, metrics
        )
        self.sweep = Sweep(
            store,
            workflows,
            self.frontier,
            self.advance,
            self.dispatching,
            self.drain,
            clock,
            metrics,
            settings,
        )
        self.dead_letters = DeadLetters(store, workflows, self.dispatching, clock)

    def worker(
        self,
        *,
        tasks: TaskRegistry,
        runner: BodyRunner,
        invoker: LambdaInvoker,
        pool: PoolProfile,
        identity: WorkerIdentity,
    ) -> Work:
        """Return a worker of one pool."""
        ports = self.ports
        inputs = InputReader(ports.store, self.payloads)
        bodies = Bodies(tasks, inputs, runner, invoker, ports.clock, ports.settings, pool)
        return Work(
            ports.store,
            ports.workflows,
            self.payloads,
            bodies,
            self.dispatching,
            ports.clock,
            ports.random,
            ports.metrics,
            ports.settings,
            identity,
        )
