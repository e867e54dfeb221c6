"""Engines that are broken on purpose, each in one way: random worlds must notice every one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pytest

import piton.domain.messages
from local.simulator.generate import generate
from local.simulator.play import play
from local.simulator.strands import Strands
from piton.domain.canonical import Json
from piton.domain.messages import Dispatch, Message, node_messages
from piton.domain.rows import ExecutionRef, NodeRow
from piton.domain.settings import MINUTE
from piton.domain.status import NodeStatus, Reason
from piton.services.advance import Advance
from piton.services.bodies import Attempt, Bodies
from piton.services.dead_letters import DeadLetters
from piton.services.dispatching import Dispatching, Disposition
from piton.services.payloads import Payloads
from piton.services.run import Run
from piton.services.sweep import Sweep
from piton.services.work import Work
from piton.storage import operations as op

Patch = pytest.MonkeyPatch

FIRST: Final = range(100)


@dataclass(frozen=True)
class Mutant:
    """A broken engine, and among which seeds one has to notice."""

    breaks: Callable[[Patch], None]
    seeds: range = FIRST


def _claims_under_an_ended_execution(patch: Patch) -> None:
    def run(work: Any, dispatch: Dispatch, _available_ms: int) -> Disposition:
        graph = work._graph(dispatch.ref)
        node = graph.nodes[dispatch.ordinal]
        policy = work._bodies.policy(node)
        began = work._clock.monotonic_ms()
        work._claim(dispatch, policy)
        execution = work._store.get_execution(dispatch.ref)
        attempt = Attempt(dispatch, graph, node, policy, work._lease(dispatch))
        end: Disposition = work._record(attempt, execution, work._bodies.run(attempt, began))
        return end

    patch.setattr(Work, "run", run)


def _claims_are_not_given_back(patch: Patch) -> None:
    patch.setattr(Work, "_cancel", lambda work, _dispatch: work._stale())


def _leases_are_not_looked_at_before_the_body(patch: Patch) -> None:
    patch.setattr(Bodies, "_lease_keeper", lambda *_: lambda: None)


def _leases_last_an_hour(patch: Patch) -> None:
    apply: Any = Work._apply

    def long(work: Work, operation: object, dispatch: Dispatch, args: dict[str, Any]) -> object:
        if "lease_until" in args:
            args = {**args, "lease_until": args["lease_until"] + 60 * MINUTE}
        return apply(work, operation, dispatch, args)

    patch.setattr(Work, "_apply", long)


def _settles(patch: Patch, **changed: object) -> None:
    settle: Any = Dispatching.settle_failure

    def changed_settle(dispatching: Dispatching, *args: object, **named: object) -> object:
        return settle(dispatching, *args, **{**named, **changed})

    patch.setattr(Dispatching, "settle_failure", changed_settle)


def _the_living_are_cancelled(patch: Patch) -> None:
    patch.setattr("piton.services.drain.stall_reason", lambda *_: Reason.LEASE_EXPIRED)


def _dispatches_are_buried_before_their_time(patch: Patch) -> None:
    def undeliverable(letters: Any, dispatch: Dispatch) -> Disposition:
        ref, ordinal = dispatch.ref, dispatch.ordinal
        execution = letters._store.get_execution(ref)
        row = letters._store.get_nodes(ref, [ordinal]).get(ordinal)
        if execution.terminal or (row.status, row.fence) != (NodeStatus.QUEUED, dispatch.fence):
            return Disposition.STALE
        end: Disposition = letters._dispatching.settle_failure(
            ref,
            row,
            Reason.DELIVERY_EXHAUSTED.value,
            retry=op.RETRY_UNDELIVERED,
            fail=op.FAIL_UNDELIVERED,
            ends_by=execution.ends_by,
        )
        return end

    patch.setattr(DeadLetters, "undeliverable", undeliverable)


def _says_nothing_of(status: NodeStatus, patch: Patch) -> None:
    patch.delitem(piton.domain.messages._NODE_EVENTS, status)


def _later_attempts_are_not_sent(patch: Patch) -> None:
    def first_only(ref: ExecutionRef, old: NodeRow | None, new: NodeRow) -> list[Message]:
        first = new.fence == 1 or new.sends > 0
        return [
            message
            for message in node_messages(ref, old, new)
            if first or not isinstance(message, Dispatch)
        ]

    patch.setattr("piton.services.relay.node_messages", first_only)


def _the_queued_stay_after_the_end(patch: Patch) -> None:
    patch.setattr(Advance, "ended", lambda *_: None)


def _resuming_does_nothing(patch: Patch) -> None:
    patch.setattr(Advance, "resume", lambda *_: None)


def _the_next_sweep_comes_in_12_hours(patch: Patch) -> None:
    patch.setattr("piton.services.sweep.next_due_at", lambda *args: args[2] + 12 * 60 * MINUTE)


def _time_is_up_whatever_has_finished(patch: Patch) -> None:
    patch.setattr(Sweep, "_settles", lambda *_: False)


def _scopes_are_not_noted(patch: Patch) -> None:
    patch.setattr(Run, "scope", property(lambda _: ""))


def _params_are_shared(patch: Patch) -> None:
    patch.setattr("piton.services.inputs.deepcopy", lambda value: value)


def _inputs_are_shared(patch: Patch) -> None:
    load: Any = Payloads.load_input

    def shared(payloads: Any, ref: ExecutionRef) -> Json:
        kept: dict[ExecutionRef, Json] = payloads.__dict__.setdefault("kept", {})
        if ref not in kept:
            kept[ref] = load(payloads, ref)
        return kept[ref]

    patch.setattr(Payloads, "load_input", shared)


MUTANTS: Final[Mapping[str, Mutant]] = {
    "a body runs for a claim after the end": Mutant(_claims_under_an_ended_execution),
    "a claim after the end is left as it is": Mutant(_claims_are_not_given_back),
    "a body starts after its lease": Mutant(_leases_are_not_looked_at_before_the_body),
    "a lease lasts an hour": Mutant(_leases_last_an_hour),
    "a failure for good is tried again": Mutant(partial(_settles, permanent=False)),
    "an attempt follows after the end": Mutant(partial(_settles, ends_by=2**60)),
    "what runs is cancelled at the end": Mutant(_the_living_are_cancelled),
    "what is not due counts as undeliverable": Mutant(_dispatches_are_buried_before_their_time),
    "nobody learns of a skipped node": Mutant(partial(_says_nothing_of, NodeStatus.SKIPPED)),
    "nobody learns of a finished node": Mutant(partial(_says_nothing_of, NodeStatus.COMPLETED)),
    "only first attempts are sent": Mutant(_later_attempts_are_not_sent),
    "what is queued stays after the end": Mutant(
        _the_queued_stay_after_the_end, range(11, 800, 16)
    ),
    "resuming does nothing": Mutant(_resuming_does_nothing),
    "the next sweep comes in 12 hours": Mutant(_the_next_sweep_comes_in_12_hours),
    "time is up, whatever has finished": Mutant(
        _time_is_up_whatever_has_finished, range(15, 1600, 16)
    ),
    "the scope is not noted": Mutant(_scopes_are_not_noted),
    "bodies share their params": Mutant(_params_are_shared),
    "bodies share their input": Mutant(_inputs_are_shared),
}


def first_violation(seeds: range, strands: Strands) -> str | None:
    """What is wrong in the first of these worlds in which anything is."""
    found = (play(generate(seed), strands).violation for seed in seeds)
    return next((violation for violation in found if violation is not None), None)


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS.keys())
def test_a_broken_engine_is_noticed(
    mutant: Mutant, strands: Strands, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant.breaks(monkeypatch)
    assert first_violation(mutant.seeds, strands)


# The others are those of `test_simulator`, where nothing is broken.
@pytest.mark.parametrize(
    "seeds", [mutant.seeds for mutant in MUTANTS.values() if mutant.seeds != FIRST], ids=str
)
def test_a_sound_engine_is_not(seeds: range, strands: Strands) -> None:
    assert first_violation(seeds, strands) is None
