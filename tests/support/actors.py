"""Actors that run one at a time, from one store call to the next.

Each actor is a thread that holds the only baton while it runs. Before every store call it hands
the baton back, and whoever drives the actors decides who goes on and what goes wrong. With the
same decisions the same thing happens, so a failing run can be repeated and shrunk.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from piton.domain.errors import Retry
from piton.domain.rows import Attributes, ExecutionRef, ExecutionRow, NodeRow
from piton.ports import DueExecution, Outcome, Page, Store, Write
from piton.storage.algebra import Args, Operation
from piton.storage.keys import Key
from piton.storage.views import ExecutionView, NodeView

T = TypeVar("T")


class Fault(Enum):
    """What may go wrong with the call that an actor is about to make."""

    NONE = "none"
    CRASH_BEFORE = "the process dies before the call"
    CRASH_AFTER = "the process dies after the call"
    UNANSWERED = "the call is carried out and its answer is lost"
    REPEATED = "the answer is lost and the client repeats the call"
    UNAVAILABLE = "the call is not carried out"


class Crash(BaseException):
    """The actor's process is dead: nothing above may catch this."""


class ActorFailedError(Exception):
    """An actor ended with an error that its work should have handled."""


@dataclass(eq=False)
class Actor:
    """One piece of work on a thread of its own."""

    name: str
    work: Callable[[], object]
    ended: bool = False
    crashed: bool = False
    error: BaseException | None = None
    _go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0), repr=False)
    _back: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0), repr=False)
    _fault: Fault = Fault.NONE
    _thread: threading.Thread | None = field(default=None, repr=False)

    def step(self, fault: Fault = Fault.NONE) -> None:
        """Hand over the baton until the actor's next call, or its end."""
        self._fault = fault
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            self._thread.start()
        else:
            self._go.release()
        self._back.acquire()

    def pause(self) -> Fault:
        """Give the baton back; on the actor's own thread, before a call."""
        self._back.release()
        self._go.acquire()
        return self._fault

    def _run(self) -> None:
        try:
            self.work()
        except Crash:
            self.crashed = True
        except BaseException as error:  # noqa: BLE001
            # Named outcome: whoever drives the actors judges the error.
            self.error = error
        self.ended = True
        self._back.release()


class Stage:
    """The actors at work. Calls from outside any actor are not interrupted."""

    def __init__(self) -> None:
        self.actors: list[Actor] = []
        self._current: Actor | None = None

    def add(self, name: str, work: Callable[[], object]) -> Actor:
        """Put an actor on the stage, before its first call."""
        actor = Actor(name, work)
        self.actors.append(actor)
        self.step(actor)
        return actor

    def step(self, actor: Actor, fault: Fault = Fault.NONE) -> None:
        """Let one actor go on; it leaves the stage when it ends."""
        self._current = actor
        actor.step(fault)
        self._current = None
        if actor.ended:
            self.actors.remove(actor)
            if actor.error is not None:
                raise ActorFailedError(actor.name) from actor.error

    def clear(self) -> None:
        """Let every actor die where it stands."""
        while self.actors:
            self.step(self.actors[0], Fault.CRASH_BEFORE)

    def turn(self) -> None:
        """Let others go first; the actor may die here."""
        if self._fault() in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER):
            raise Crash

    def call(self, call: Callable[[], T]) -> T:
        """Carry out one interruptible call of the current actor, faults included."""
        match self._fault():
            case Fault.NONE:
                return call()
            case Fault.CRASH_BEFORE:
                raise Crash
            case Fault.CRASH_AFTER:
                call()
                raise Crash
            case Fault.UNANSWERED:
                call()
                raise Retry("the answer was lost")
            case Fault.REPEATED:
                call()
                return call()
            case Fault.UNAVAILABLE:
                raise Retry("the store is not available")

    def _fault(self) -> Fault:
        return self._current.pause() if self._current is not None else Fault.NONE


class SteppedStore:
    """`ports.Store` whose every call is a step of an actor."""

    def __init__(self, inner: Store, stage: Stage) -> None:
        self._inner = inner
        self._stage = stage

    def apply(self, operation: Operation, key: Key, args: Args) -> Outcome:
        return self._stage.call(lambda: self._inner.apply(operation, key, args))

    def transact(self, writes: Sequence[Write]) -> Outcome:
        return self._stage.call(lambda: self._inner.transact(writes))

    def get_execution(
        self, ref: ExecutionRef, view: ExecutionView = ExecutionView.CONTROL
    ) -> ExecutionRow | None:
        return self._stage.call(lambda: self._inner.get_execution(ref, view))

    def get_nodes(
        self, ref: ExecutionRef, ordinals: Iterable[int], view: NodeView = NodeView.RESULT
    ) -> dict[int, NodeRow]:
        return self._stage.call(lambda: self._inner.get_nodes(ref, ordinals, view))

    def query_nodes(
        self,
        ref: ExecutionRef,
        view: NodeView = NodeView.CONTROL,
        *,
        after: int = -1,
        limit: int | None = None,
    ) -> list[NodeRow]:
        return self._stage.call(
            lambda: self._inner.query_nodes(ref, view, after=after, limit=limit)
        )

    def get_raw(self, key: Key, attributes: Sequence[str]) -> Attributes | None:
        return self._stage.call(lambda: self._inner.get_raw(key, attributes))

    def list_executions(
        self,
        tenant: str,
        *,
        status: str | None,
        workflow_id: str | None,
        limit: int,
        token: str | None,
    ) -> Page[str]:
        return self._stage.call(
            lambda: self._inner.list_executions(
                tenant, status=status, workflow_id=workflow_id, limit=limit, token=token
            )
        )

    def due(self, now: int, limit: int) -> list[DueExecution]:
        return self._stage.call(lambda: list(self._inner.due(now, limit)))
