"""Every clause of every guard, taken out in turn: does anything notice?

A clause counts as caught when one of the hand-written refusals no longer holds, and those are
tests of their own (`tests/unit/test_guards.py`). The simulator is then set on the same mutant: it
tells how many clauses the rest of the engine could not do without, and which ones only a caller
that trusts a stale read would need.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from bench.refusals import REFUSALS
from local.simulator.campaign import be_quiet
from local.simulator.generate import generate
from local.simulator.play import play
from local.simulator.strands import Strands
from piton.storage.algebra import Const, Guard, Item, Operation, SizeBelow
from piton.storage.operations import OPERATIONS

_ALWAYS: Final = SizeBelow("never_stored", Const(1))
"""Holds on every row: a guard must not be empty."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """An operation without one clause of its guard."""

    operation: Operation
    clause: Guard

    @property
    def name(self) -> str:
        """The operation and what its clause is about."""
        return f"{self.operation.name} without {type(self.clause).__name__} {self.clause.attribute}"

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
    """What noticed a mutant: the names of refusals, and the first seed of the simulator."""

    mutant: str
    refusals: tuple[str, ...]
    seed: int | None

    @property
    def caught(self) -> bool:
        """True when anything did."""
        return bool(self.refusals) or self.seed is not None


def mutants() -> list[Mutant]:
    """Return one mutant for each clause of each declared operation."""
    return [Mutant(operation, clause) for operation in OPERATIONS for clause in operation.guard]


def check_guards(
    seeds: int, jobs: int, advanced: Callable[[], None] = lambda: None
) -> Iterator[Catch]:
    """Try every mutant, in `jobs` processes, with this many seeds of the simulator each."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=be_quiet) as pool:
        for catch in pool.map(partial(_try, seeds=seeds), range(len(mutants()))):
            advanced()
            yield catch


def _try(number: int, seeds: int) -> Catch:
    mutant = mutants()[number]
    mutated = mutant.build()
    broken = tuple(
        refusal.name
        for refusal in REFUSALS
        if refusal.operation is mutant.operation and not refusal.holds(mutated)
    )
    return Catch(mutant.name, broken, _first_seed(mutated, seeds))


def _first_seed(mutated: Operation, seeds: int) -> int | None:
    """The first seed whose world goes wrong. Worlds register no workflow by this operation."""
    if mutated.item is Item.WORKFLOW:
        return None
    strands = Strands()
    try:
        for seed in range(seeds):
            if play(generate(seed), strands, {mutated.name: mutated}).violation is not None:
                return seed
    finally:
        strands.close()
    return None
