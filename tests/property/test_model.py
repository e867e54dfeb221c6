"""The exhaustive checks: nothing wrong in a sound engine, and a way to what is wrong in another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from local.model.callers import try_all
from local.model.explore import Exploration
from local.model.graphs import CHAIN, JOIN, ONE, Small
from local.model.rows import RowTable
from local.model.space import Space
from local.model.system import Bounds, System
from piton.storage import operations as op
from piton.storage.algebra import Guard, NotExists, Operation, SizeBelow

NARROW = Bounds(at_once=2, step_runners=2, cancels=1, resumes=0, sweeps=0)


def explored(small: Small, bounds: Bounds, **mutations: Operation) -> Exploration:
    table = RowTable({operation.name: operation for operation in mutations.values()})
    return Exploration(System(Space(small, table), bounds))


def without(operation: Operation, guard: Guard) -> Operation:
    always: Guard = NotExists("never_there")
    if not isinstance(guard, NotExists) and hasattr(guard, "operand"):
        always = SizeBelow("never_there", guard.operand)
    return replace(
        operation, guard=tuple(always if part is guard else part for part in operation.guard)
    )


@pytest.mark.parametrize("small", [CHAIN, JOIN], ids=lambda small: small.name)
def test_no_interleaving_of_the_services_breaks_a_rule(small: Small) -> None:
    found = explored(small, NARROW).run()
    assert found.violation is None
    assert found.states > 1000
    assert found.attempt == 2


def test_sweeps_recover_from_every_state_of_the_rows() -> None:
    found = explored(CHAIN, Bounds(at_once=2, cancels=0, resumes=0)).run()
    assert found.violation is None
    assert found.row_states > 50


def test_sweeps_that_overlap_reach_more_states() -> None:
    alone = Bounds(workers=1, step_runners=0, sweeps=2, cancels=0, resumes=0)
    apart, together = (
        explored(ONE, replace(alone, sweeps_at_once=number)).run() for number in (1, 2)
    )
    assert apart.violation is together.violation is None
    assert together.states > apart.states


def test_a_second_dispatch_is_found_with_the_way_to_it() -> None:
    loose = without(op.QUEUE_SINGLE, op.QUEUE_SINGLE.guard[0])
    found = explored(CHAIN, NARROW, loose=loose).run()
    assert found.violation is not None
    assert any("node.queue_single" in step for step in found.path)


def test_a_claim_that_two_can_win_is_found() -> None:
    loose = without(op.CLAIM, op.CLAIM.guard[0])
    assert explored(CHAIN, NARROW, loose=loose).run().violation is not None


def test_the_guards_alone_keep_the_rules() -> None:
    tried = try_all({})
    assert tried.violation is None
    assert tried.states > 5000


@pytest.mark.parametrize(
    "operation", [op.QUEUE_JOIN, op.PASS_JOIN, op.END_JOIN], ids=lambda o: o.name
)
def test_a_join_that_trusts_its_caller_is_found(operation: Operation) -> None:
    for guard in operation.guard:
        loose = without(operation, guard)
        assert try_all({operation.name: loose}).violation is not None
