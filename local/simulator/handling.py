"""What the functions around the services do: read a message, call, and map errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from handlers.step_runner import route
from local.simulator.engine import Machine
from local.simulator.host import End, Violation
from local.simulator.network import Message
from piton.contracts import parse_dispatch, parse_event
from piton.domain.errors import NotYet, Rejected, Retry, Stale
from piton.services.relay import Change

SWEEP_LIMIT: Final = 100
_WORKER_TIME_MS: Final = 1_000_000
_SWEEP_TIME_MS: Final = 60_000


def handled(work: Callable[[], object], message: Message | None = None) -> End:
    """Call a service and map its errors, as the handlers do.

    Raises `Violation` on an error that the engine never raises on purpose.
    """
    try:
        work()
    except NotYet as early:
        if message is not None:
            message.hidden_ms = early.wait_ms
        return End.FAILED
    except Retry:
        return End.FAILED
    except (Stale, Rejected):
        return End.DONE
    except Exception as error:
        raise Violation(f"a handler raised {error!r}") from error
    return End.DONE


def advance(process: Machine, message: Message) -> End:
    """The step runner with one event."""
    return handled(lambda: route(process.services.advance, parse_event(message.body)), message)


def work(process: Machine, message: Message) -> End:
    """A worker with one dispatch."""

    def run() -> None:
        dispatch = parse_dispatch(message.body).to_dispatch()
        process.services.work.run(dispatch, _WORKER_TIME_MS)

    return handled(run, message)


def bury(process: Machine, message: Message) -> End:
    """The dead-letter function with one dispatch."""

    def run() -> None:
        dispatch = parse_dispatch(message.body).to_dispatch()
        process.services.dead_letters.undeliverable(dispatch)

    return handled(run, message)


def relay(process: Machine, changes: Sequence[Change]) -> End:
    """The relay with a batch of the stream."""
    return handled(partial(process.services.relay.relay, changes))


def sweep(process: Machine) -> End:
    """The watchdog."""
    return handled(partial(process.services.sweep.run, SWEEP_LIMIT, lambda: _SWEEP_TIME_MS))
