"""The composition root of the simulator: the real services of each kind of process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from piton.services.bodies import Bodies, PoolProfile
from piton.services.commands import Commands
from piton.services.dead_letters import DeadLetters
from piton.services.dispatching import Dispatching
from piton.services.drain import Drain
from piton.services.frontier import Frontier
from piton.services.inputs import InputReader
from piton.services.payloads import Payloads
from piton.services.relay import Relay
from piton.services.sweep import Sweep
from piton.services.work import Work, WorkerIdentity
from piton.tasks import Permanent

POOL_TIMEOUT_S: Final = 900
POOLS: Final = {"default": PoolLimits(POOL_TIMEOUT_S)}


@dataclass(frozen=True, slots=True)
class Services:
    """What one process can do. Each kind of process uses one of them."""

    commands: Commands
    advance: Advance
    work: Work
    sweep: Sweep
    relay: Relay
    dead_letters: DeadLetters


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
        self.services = _build(outside, self)

    def replace(self) -> None:
        """Begin a new life: caches and all other state in memory are gone."""
        super().replace()
        self.services = _build(self._outside, self)


def _build(outside: Outside, process: Process) -> Services:
    host, settings, tally, clock = outside.host, outside.settings, outside.tally, process.clock
    store = DistantStore(host, outside.rows)
    blobs = DistantBlobs(host, outside.rows.blobs)
    workflows = outside.workflows
    random = SeededRandom(outside.random, prefix=process.number * 1000 + process.lives)
    payloads = Payloads(store, blobs, settings)
    dispatching = Dispatching(store, clock, random, tally)
    drain = Drain(store, clock, tally, settings)
    frontier = Frontier(
        store, payloads, clock, tally, settings, evaluate_condition, _shuffled(outside.random)
    )
    advance = Advance(store, workflows, frontier, dispatching, drain, clock, tally)
    bodies = Bodies(
        outside.tasks,
        InputReader(store, payloads),
        VirtualRunner(clock, host.sleep, host.stall),
        NoLambdas(),
        clock,
        settings,
        PoolProfile(POOL_TIMEOUT_S * 1000, frozenset(), _nothing),
    )
    identity = WorkerIdentity(f"{process.name}/{process.lives}", "simulated")
    return Services(
        commands=Commands(
            store=store,
            workflows=workflows,
            blobs=blobs,
            clock=clock,
            random=random,
            metrics=tally,
            settings=settings,
            pools=POOLS,
            check_condition=check_condition,
        ),
        advance=advance,
        work=Work(
            store,
            workflows,
            payloads,
            bodies,
            dispatching,
            clock,
            random,
            tally,
            settings,
            identity,
        ),
        sweep=Sweep(
            store, workflows, frontier, advance, dispatching, drain, clock, tally, settings
        ),
        relay=Relay(outside.publisher, tally),
        dead_letters=DeadLetters(store, workflows, dispatching, clock),
    )


def _shuffled(random: Random) -> Callable[[Sequence[Callable[[], None]]], None]:
    """Run independent steps in any order, as the threads of a deployed function would."""

    def spread(steps: Sequence[Callable[[], None]]) -> None:
        for step in random.sample(steps, len(steps)):
            step()

    return spread


def _nothing(_: Dispatch) -> None:
    return
