"""From a scenario that fails to a small one that still does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from local.simulator.scenario import NodePlan, Scenario

T = TypeVar("T")
Fails = Callable[[Scenario], bool]

MOST_TRIES: Final = 400


def shrink(scenario: Scenario, fails: Fails) -> Scenario:
    """Return a scenario with fewer faults, nodes and oddities for which `fails` still holds.

    Gives up looking after `MOST_TRIES` runs and returns the smallest one found by then.
    """
    budget = _Budget(fails, MOST_TRIES)
    for _ in range(2):
        scenario = _fewer_faults(scenario, budget)
        scenario = _plainer(scenario, budget)
        scenario = _fewer_nodes(scenario, budget)
    return scenario


class _Budget:
    def __init__(self, fails: Fails, tries: int) -> None:
        self._fails = fails
        self._tries = tries

    def fails(self, scenario: Scenario) -> bool:
        self._tries -= 1
        return self._tries >= 0 and self._fails(scenario)


def minimal(items: Sequence[T], fails: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """Return a part of `items` that still fails and from which no single one can be left out.

    Delta debugging (Zeller and Hildebrandt, 2002): halves first, then finer and finer parts.
    """
    kept = tuple(items)
    parts = 2
    while len(kept) >= 1:
        size = -(-len(kept) // parts)
        for start in range(0, len(kept), size):
            rest = kept[:start] + kept[start + size :]
            if fails(rest):
                kept, parts = rest, max(2, parts - 1)
                break
        else:
            if size == 1:
                break
            parts = min(len(kept), 2 * parts)
    return kept


def _fewer_faults(scenario: Scenario, budget: _Budget) -> Scenario:
    faults = minimal(scenario.faults, lambda faults: budget.fails(replace(scenario, faults=faults)))
    return replace(scenario, faults=faults)


def _plainer(scenario: Scenario, budget: _Budget) -> Scenario:
    upright = {place: tuple(0 for _ in skews) for place, skews in scenario.skews.items()}
    for plainer in (
        {"skews": upright},
        {"executions": 1},
        {"rivals": 0},
        {"timeout_s": None},
        {"deadline_s": None},
        {"max_in_degree": 256},
        {"inline_bytes": 8192},
    ):
        simpler = replace(scenario, **plainer)
        if simpler != scenario and budget.fails(simpler):
            scenario = simpler
    return scenario


def _fewer_nodes(scenario: Scenario, budget: _Budget) -> Scenario:
    for node in reversed(scenario.nodes):
        nodes = _without(scenario.nodes, node.id)
        if nodes and budget.fails(replace(scenario, nodes=nodes)):
            scenario = replace(scenario, nodes=nodes)
    return scenario


def _without(nodes: tuple[NodePlan, ...], node_id: str) -> tuple[NodePlan, ...]:
    return tuple(
        replace(node, needs=tuple(need for need in node.needs if need.node != node_id))
        for node in nodes
        if node.id != node_id
    )
