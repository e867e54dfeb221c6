"""The composition root of the simulator: the real services of each kind of process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Final

from local.simulator.agenda import SkewedClock
from local.simulator.bodies import VirtualRunner
from local.simulator.faults import Place
from local.simulator.host import Host, Process
from local.simulator.randomness import SeededRandom
from local.simulator.store import DistantBlobs, DistantStore, ObservedStore
from local.simulator.tally import Tally
from piton.adapters.conditions import check_condition, evaluate_condition
from piton.adapters.workflows import Workflows
from piton.domain.canonical import Json
from piton.domain.compile import PoolLimits
from piton.domain.messages import Dispatch
from piton.domain.settings import Settings
from piton.ports import Publisher, TaskRegistry
from piton.services.advance import Advance
from piton.services.assembly import Engine, Ports
from piton.services.bodies import PoolProfile
from piton.services.commands import Commands
from piton.services.dead_letters import DeadLetters
from piton.services.relay import Relay
from piton.services.sweep import Sweep
from piton.services.work import Work, WorkerIdentity
from piton.tasks import Permanent

POOL_TIMEOUT_S: Final = 900
POOLS: Final = {"default": PoolLimits(POOL_TIMEOUT_S)}


class NoLambdas:
    """`ports.LambdaInvoker` where no Lambda function may be called."""

    def invoke(self, arn: str, payload: Json, timeout_s: float) -> Json:
        """Refuse."""
        del payload, timeout_s
        raise Permanent("NO_LAMBDA_HERE", arn)


@dataclass(frozen=True, slots=True)
class Outside:
    """What all processes of a world share."""

    host: Host
    rows: ObservedStore
    workflows: Workflows
    publisher: Publisher
    tasks: TaskRegistry
    settings: Settings
    tally: Tally
    random: Random


class Machine(Process):
    """A process with its services, which a crash replaces with fresh ones."""

    def __init__(self, outside: Outside, role: Place, number: int, skew_ms: int) -> None:
        super().__init__(role, number, SkewedClock(outside.host.agenda, skew_ms))
        self._outside = outside
        self.services = Services(outside, self)

    def replace(self) -> None:
        """Begin a new life: caches and all other state in memory are gone."""
        super().replace()
        self.services = Services(self._outside, self)


class Services:
    """What one process in one of its lives can do. Each kind of process uses one of them."""

    def __init__(self, outside: Outside, process: Process) -> None:
        self._outside = outside
        self._clock = process.clock
        self._identity = WorkerIdentity(f"{process.name}/{process.lives}", "simulated")
        prefix = process.number * 1000 + process.lives
        self._ports = Ports(
            store=DistantStore(outside.host, outside.rows),
            workflows=outside.workflows,
            blobs=DistantBlobs(outside.host, outside.rows.blobs),
            clock=process.clock,
            random=SeededRandom(outside.random, prefix),
            metrics=outside.tally,
            settings=outside.settings,
            condition=evaluate_condition,
        )

    @cached_property
    def commands(self) -> Commands:
        """The mutations of the API."""
        ports = self._ports
        return Commands(
            store=ports.store,
            workflows=ports.workflows,
            blobs=ports.blobs,
            clock=ports.clock,
            random=ports.random,
            metrics=ports.metrics,
            settings=ports.settings,
            pools=POOLS,
            check_condition=check_condition,
        )

    @cached_property
    def work(self) -> Work:
        """A worker of the only pool."""
        host = self._outside.host
        return self._engine.worker(
            tasks=self._outside.tasks,
            runner=VirtualRunner(self._clock, host.sleep, host.stall),
            invoker=NoLambdas(),
            pool=PoolProfile(POOL_TIMEOUT_S * 1000, frozenset(), _nothing),
            identity=self._identity,
        )

    @cached_property
    def relay(self) -> Relay:
        """The outbox relay."""
        return Relay(self._outside.publisher, self._outside.tally)

    @property
    def advance(self) -> Advance:
        """The step runner."""
        return self._engine.advance

    @property
    def sweep(self) -> Sweep:
        """The watchdog."""
        return self._engine.sweep

    @property
    def dead_letters(self) -> DeadLetters:
        """The dead-letter function."""
        return self._engine.dead_letters

    @cached_property
    def _engine(self) -> Engine:
        return Engine(self._ports, _shuffled(self._outside.random))


def _shuffled(random: Random) -> Callable[[Sequence[Callable[[], None]]], None]:
    """Run independent steps in any order, as the threads of a deployed function would."""

    def spread(steps: Sequence[Callable[[], None]]) -> None:
        for step in random.sample(steps, len(steps)):
            step()

    return spread


def _nothing(_: Dispatch) -> None:
    return
