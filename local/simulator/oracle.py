"""What a workflow must come to, worked out one node after another on a sheet of paper.

Knows nothing of rows, gates, messages or time: it reads the author's nodes in order, decides
which run and follows the edges. Written apart from the engine, so that one can judge the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from piton.domain.canonical import Json
from piton.domain.compile import Need, NodeSpec
from piton.domain.frontier import ConditionFault
from piton.domain.status import EdgeOn, NodeStatus, Reason

Condition = Callable[[str, Json], bool]
"""Evaluates an edge's condition. Raises `ConditionFault`."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a node that ran ended: with a result, or with a code."""

    status: NodeStatus
    result: Json = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the nodes come to. Nodes that are never reached are in none of the maps.

    `fatal` holds every node that ends its execution, with the execution's reason.
    """

    outcomes: Mapping[str, Outcome]
    inputs: Mapping[str, Json]
    fatal: Mapping[str, str] = field(default_factory=dict)


Runs = Callable[[NodeSpec, Json], Outcome]
"""How a node ends that is run with these inputs."""

SKIPPED: Final = Outcome(NodeStatus.SKIPPED)


def judge(
    specs: Sequence[NodeSpec], execution_input: Json, condition: Condition, runs: Runs
) -> Verdict:
    """Walk through the nodes, each after its predecessors."""
    outcomes: dict[str, Outcome] = {}
    inputs: dict[str, Json] = {}
    fatal: dict[str, str] = {}
    # Taken edges by (source, target), for sources that have resolved their edges.
    taken: dict[tuple[str, str], bool] = {}
    followers = _followers(specs)
    for spec in _in_order(specs):
        sources = list(dict.fromkeys(need.node for need in spec.needs))
        if any((source, spec.id) not in taken for source in sources):
            continue
        chosen = [source for source in sources if taken[source, spec.id]]
        if sources and not chosen:
            outcome = SKIPPED
        else:
            inputs[spec.id] = inputs_of(spec, execution_input, chosen, outcomes)
            outcome = runs(spec, inputs[spec.id])
        outcomes[spec.id] = outcome
        try:
            edges = _follow(followers[spec.id], outcome, condition)
        except ConditionFault:
            fatal[spec.id] = Reason.EDGE_CONDITION_ERROR.value
            continue
        if outcome.status is NodeStatus.FAILED and not any(edges.values()):
            fatal[spec.id] = outcome.reason or ""
            continue
        taken.update({(spec.id, target): is_taken for target, is_taken in edges.items()})
    return Verdict(outcomes, inputs, fatal)


def inputs_of(
    spec: NodeSpec, execution_input: Json, taken: Sequence[str], outcomes: Mapping[str, Outcome]
) -> Json:
    """The inputs of a node: the execution's, and the results of its taken predecessors."""
    document: dict[str, Json] = {
        "execution": execution_input,
        "nodes": {
            source: outcomes[source].result
            for source in taken
            if outcomes[source].status is NodeStatus.COMPLETED
        },
    }
    if spec.params:
        document["params"] = dict(spec.params)
    return document


def taken_sources(
    spec: NodeSpec, outcomes: Mapping[str, Outcome], condition: Condition
) -> list[str]:
    """Predecessors whose edge into `spec` is taken, given how they ended."""
    sources = dict.fromkeys(need.node for need in spec.needs)
    return [
        source
        for source in sources
        if any(
            _is_taken(need, outcomes[source], condition)
            for need in spec.needs
            if need.node == source
        )
    ]


def _follow(
    edges: Sequence[tuple[str, Need]], outcome: Outcome, condition: Condition
) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for target, need in edges:
        is_taken = _is_taken(need, outcome, condition)
        found[target] = found.get(target, False) or is_taken
    return found


def _is_taken(need: Need, outcome: Outcome, condition: Condition) -> bool:
    wanted = {
        NodeStatus.COMPLETED: (EdgeOn.SUCCESS, EdgeOn.ALWAYS),
        NodeStatus.FAILED: (EdgeOn.FAILURE, EdgeOn.ALWAYS),
    }.get(outcome.status, ())
    if need.on not in wanted:
        return False
    if need.when is None:
        return True
    failed = outcome.status is NodeStatus.FAILED
    return condition(need.when, {"reason": outcome.reason} if failed else outcome.result)


def _followers(specs: Sequence[NodeSpec]) -> dict[str, list[tuple[str, Need]]]:
    followers: dict[str, list[tuple[str, Need]]] = {spec.id: [] for spec in specs}
    for spec in specs:
        for need in spec.needs:
            followers[need.node].append((spec.id, need))
    return followers


def _in_order(specs: Sequence[NodeSpec]) -> list[NodeSpec]:
    """Each node after its predecessors; authors may write them in any order."""
    ordered: dict[str, NodeSpec] = {}
    waiting = list(specs)
    while waiting:
        ready = [spec for spec in waiting if all(need.node in ordered for need in spec.needs)]
        ordered.update({spec.id: spec for spec in ready})
        waiting = [spec for spec in waiting if spec.id not in ordered]
    return list(ordered.values())
