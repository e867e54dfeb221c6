"""Who may do what, against the transition table and the operations."""

from __future__ import annotations

import pytest

from piton.access import ACCESS, BY_FUNCTION, Access, Function, Get, Query, Queue
from piton.domain.transitions import BY_ID, Actor, Transition
from piton.storage import operations as op
from piton.storage.algebra import Item, Operation
from piton.storage.operations import OPERATIONS

HOSTS = {
    Actor.COMMANDS: {Function.COMMANDS},
    Actor.FRONTIER: {Function.STEP_RUNNER, Function.WATCHDOG},
    Actor.STEP_RUNNER: {Function.STEP_RUNNER},
    Actor.WORKER: {Function.WORKER},
    Actor.SWEEP: {Function.WATCHDOG},
    Actor.DEAD_LETTERS: {Function.DEAD_LETTERS},
    Actor.DRAIN: {Function.STEP_RUNNER, Function.WATCHDOG},
}
"""Functions in which each actor of the transition table runs."""

WITHOUT_TRANSITION = {
    op.RESOLVE_TAKEN: HOSTS[Actor.FRONTIER],
    op.RESOLVE_DECLINED: HOSTS[Actor.FRONTIER],
    op.STORE_INPUT: HOSTS[Actor.COMMANDS],
    op.CLAIM_IDEMPOTENCY: HOSTS[Actor.COMMANDS],
    op.REGISTER_WORKFLOW: HOSTS[Actor.COMMANDS],
    op.DEFER: HOSTS[Actor.SWEEP],
    op.PARK: HOSTS[Actor.SWEEP],
}


def holders(operation: Operation) -> set[Function]:
    return {access.function for access in ACCESS if operation in access.operations}


def written(access: Access) -> set[str]:
    return {c.attribute for operation in access.operations for c in operation.changes}


def test_every_function_is_declared_once() -> None:
    assert set(BY_FUNCTION) == set(Function)
    assert len(ACCESS) == len(Function)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda o: o.name)
def test_an_operation_is_held_by_its_actors_and_nobody_else(operation: Operation) -> None:
    if operation.transition is None:
        assert holders(operation) == WITHOUT_TRANSITION[operation]
        return
    actors = BY_ID[operation.transition].actors
    allowed = set().union(*(HOSTS[actor] for actor in actors))
    assert holders(operation) <= allowed
    assert holders(operation)


@pytest.mark.parametrize("transition", BY_ID.values(), ids=lambda t: t.id)
def test_every_actor_can_make_its_transition_in_all_its_functions(transition: Transition) -> None:
    held = set().union(*(holders(o) for o in OPERATIONS if o.transition == transition.id))
    assert held == set().union(*(HOSTS[actor] for actor in transition.actors))


def test_whoever_judges_from_outside_names_the_lease_it_saw() -> None:
    watchdog = BY_FUNCTION[Function.WATCHDOG].operations
    for operation in watchdog:
        if operation.transition in {"N7", "N8", "N14"}:
            assert op.SEEN_LEASE in operation.guard


@pytest.mark.parametrize("function", [Function.WORKER, Function.DEAD_LETTERS])
def test_a_worker_writes_nothing_of_the_execution_and_no_row_of_its_own(
    function: Function,
) -> None:
    access = BY_FUNCTION[function]
    assert {operation.item for operation in access.operations} == {Item.NODE}
    assert all(name.startswith(("node_", "dead_")) for name in written(access))


def test_only_commands_write_what_callers_decide() -> None:
    for access in ACCESS:
        if access.function is not Function.COMMANDS:
            assert not written(access) & {"exec_scope", "exec_ends_by", "exec_actor", "wf_hash"}


def test_readers_write_nothing() -> None:
    for function in (Function.QUERIES, Function.OUTBOX_RELAY):
        assert BY_FUNCTION[function].operations == ()


def test_only_the_relay_sends() -> None:
    senders = {a.function for a in ACCESS if a.publishes or a.sends_to or a.reads_stream}
    assert senders == {Function.OUTBOX_RELAY}


def test_every_queue_has_one_consumer() -> None:
    consumed = [access.consumes for access in ACCESS if access.consumes is not None]
    assert sorted(consumed) == sorted(Queue)


def test_every_read_names_its_key() -> None:
    for access in ACCESS:
        reads: list[Get | Query] = [*access.gets, *access.queries]
        for read in reads:
            assert {"pk", "sk"} <= set(read.attributes)
