"""Each thing that a guard protects, by a row that must be refused."""

from __future__ import annotations

import pytest

from bench.guards import Mutant, mutants
from bench.refusals import REFUSALS, Refusal
from piton.storage.operations import OPERATIONS


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
def test_a_write_is_refused_where_its_guard_does_not_hold(refusal: Refusal) -> None:
    assert refusal.holds(refusal.operation)


def test_every_operation_has_a_refusal_for_each_of_its_clauses() -> None:
    for operation in OPERATIONS:
        known = [refusal for refusal in REFUSALS if refusal.operation is operation]
        assert len(known) == len(operation.guard), operation.name


@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.name)
def test_taking_a_clause_out_of_a_guard_breaks_a_refusal(mutant: Mutant) -> None:
    mutated = mutant.build()
    affected = [refusal for refusal in REFUSALS if refusal.operation is mutant.operation]
    assert any(not refusal.holds(mutated) for refusal in affected)
