"""Every clause of every guard, taken out in turn: does anything notice?

A clause counts as caught when one of the hand-written refusals no longer holds, and those are
tests of their own (`tests/unit/test_guards.py`). The same mutant then goes through the small
models, where anybody tries any write at any time, and through random worlds: they tell which
clauses the rest of the engine could not do without.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from bench.refusals import REFUSALS
from bench.workers import Tell
from local.model.callers import try_all
from local.simulator.generate import generate
from local.simulator.play import play
from local.simulator.strands import Strands
from piton.storage import operations as op
from piton.storage.algebra import Const, Guard, Item, Operation, SizeBelow
from piton.storage.operations import OPERATIONS

TEST: Final = (
    "tests/unit/test_guards.py::test_a_write_is_refused_where_its_guard_does_not_hold[{refusal}]"
)
SEEDS: Final = 60
"""Random worlds that a mutant has to get through."""

_ALWAYS: Final = SizeBelow("never_stored", Const(1))
"""Holds on every row: a guard must not be empty."""

_ALL_EDGES_ARE_IN: Final = "a node that is decided has all of its edges, so it adds nothing"
_LEASE_MEANS_RUNNING: Final = "a row has a lease only while it runs, and the clause on it stays"
IMPLIED: Final[Mapping[tuple[Operation, str], str]] = {
    (op.RESOLVE_TAKEN, "node_status"): _ALL_EDGES_ARE_IN,
    (op.RESOLVE_DECLINED, "node_status"): _ALL_EDGES_ARE_IN,
    (op.SKIP_JOIN, "node_resolved"): "an edge is never declined without being resolved",
    (op.RETRY_STALLED, "node_status"): _LEASE_MEANS_RUNNING,
    (op.FAIL_STALLED, "node_status"): _LEASE_MEANS_RUNNING,
    (op.CANCEL_STALLED, "node_status"): _LEASE_MEANS_RUNNING,
    (op.RETIRE, "exec_status"): "nobody calls it who has not read the end, and an end stays",
}
"""Clauses that no reachable row can violate alone, and why. They guard against other faults."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """An operation without one clause of its guard."""

    operation: Operation
    clause: Guard

    @property
    def name(self) -> str:
        """The operation and what its clause is about."""
        return f"{self.operation.name} without {self.clause_name}"

    @property
    def clause_name(self) -> str:
        """What its clause is about."""
        return f"{type(self.clause).__name__} {self.clause.attribute}"

    @property
    def implied(self) -> str | None:
        """Why the models cannot notice it; None when they have to."""
        return IMPLIED.get((self.operation, self.clause.attribute))

    def build(self) -> Operation:
        """Return the operation with a clause that says nothing in place of this one.

        Its values stay declared as arguments: callers go on giving them.
        """
        operand = getattr(self.clause, "operand", _ALWAYS.operand)
        vacuous = SizeBelow(_ALWAYS.attribute, operand)
        guard = tuple(vacuous if part is self.clause else part for part in self.operation.guard)
        return replace(self.operation, guard=guard)


@dataclass(frozen=True, slots=True)
class Catch:
    """What noticed a mutant: names of refusals, the models' violation, a seed of the simulator."""

    refusals: tuple[str, ...]
    model: str | None
    seed: int | None

    @property
    def caught(self) -> bool:
        """True when anything did."""
        return bool(self.refusals) or self.model is not None or self.seed is not None


def mutants() -> list[Mutant]:
    """Return one mutant for each clause of each declared operation."""
    return [Mutant(operation, clause) for operation in OPERATIONS for clause in operation.guard]


def try_mutant(number: int, tell: Tell) -> Catch:
    """Set everything on a mutant, by its place among all."""
    mutant = mutants()[number]
    mutated = mutant.build()
    broken = tuple(
        refusal.name
        for refusal in REFUSALS
        if refusal.operation is mutant.operation and not refusal.holds(mutated)
    )
    model = try_all({mutated.name: mutated}).violation
    seed = _first_seed(mutated)
    tell(1)
    return Catch(broken, model, seed)


def is_as_declared(mutant: Mutant, catch: Catch) -> bool:
    """True when a test notices, and the models do unless other clauses imply this one."""
    return bool(catch.refusals) and (catch.model is not None) is (mutant.implied is None)


def listed(catches: list[Catch]) -> list[dict[str, Any]]:
    """Return what noticed each mutant, as JSON data."""
    return [
        {
            "operation": mutant.operation.name,
            "without": mutant.clause_name,
            "tests": [TEST.format(refusal=refusal) for refusal in catch.refusals],
            "model": catch.model,
            "simulator_seed": catch.seed,
            "implied": mutant.implied,
        }
        for mutant, catch in zip(mutants(), catches, strict=True)
    ]


def _first_seed(mutated: Operation) -> int | None:
    """The first seed whose world goes wrong. Worlds register no workflow by this operation."""
    if mutated.item is Item.WORKFLOW:
        return None
    strands = Strands()
    try:
        for seed in range(SEEDS):
            if play(generate(seed), strands, {mutated.name: mutated}).violation is not None:
                return seed
    finally:
        strands.close()
    return None
