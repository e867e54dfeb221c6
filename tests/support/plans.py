"""Workflows with known behaviour, and what a sequential run of them must come to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest
from hypothesis import strategies as st

from piton.adapters.conditions import check_condition
from piton.domain.canonical import Json
from piton.domain.compile import Need, NodeSpec, PoolLimits, compile_graph
from piton.domain.graph import Graph
from piton.domain.retry import RetryPolicy
from piton.domain.status import EdgeOn, NodeStatus, Reason

BROKEN: Final = "BROKEN"
WORKFLOW_ID: Final = "plan"
POOLS: Final = {"default": PoolLimits(900)}


class ConditionFaultExpectedError(Exception):
    """The condition does not fit the document."""


def _fault(_: Mapping[str, Any]) -> bool:
    raise ConditionFaultExpectedError


CONDITIONS: Final[Mapping[str, Callable[[Mapping[str, Any]], bool]]] = {
    "flag": lambda document: document.get("flag", False),
    "!flag": lambda document: not document.get("flag", False),
    "sum > `2`": lambda document: document.get("sum", 0) > 2,
    f"reason == '{BROKEN}'": lambda document: document.get("reason") == BROKEN,
    "abs(word)": _fault,
}
"""Conditions in JMESPath with their meaning in Python."""


@dataclass(frozen=True)
class Behaviour:
    """What a node's body does. `stumbles` is how many runs fail in passing before that."""

    flag: bool = True
    breaks: bool = False
    stumbles: int = 0


@dataclass(frozen=True)
class Plan:
    """A workflow whose nodes appear after all they need. Gates hold `gate_width` in-edges."""

    specs: tuple[NodeSpec, ...]
    behaviours: Mapping[str, Behaviour]
    gate_width: int = 256

    def graph(self) -> Graph:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("piton.domain.compile.MAX_IN_DEGREE", self.gate_width)
            return compile_graph(
                WORKFLOW_ID, self.specs, pools=POOLS, check_condition=check_condition
            )

    def result(self, node_id: str, inputs: Mapping[str, Any]) -> dict[str, Json]:
        """What the body returns: a function of its inputs."""
        total = sum(result["sum"] for result in inputs["nodes"].values())
        return {"sum": total + 1, "flag": self.behaviours[node_id].flag, "word": node_id}


@dataclass(frozen=True)
class Outcome:
    """How a node ends. `inputs` is what its body is given."""

    status: NodeStatus
    result: Json = None
    inputs: Json = None


@dataclass(frozen=True)
class Expected:
    """How an execution ends. A node that is in no outcome is never decided.

    `fatal` holds the reason and node of every failure that may end the execution; it completes if
    there is none.
    """

    outcomes: Mapping[str, Outcome]
    fatal: frozenset[tuple[str, str]]


INPUT: Final[Json] = {"document": "d-1"}


def run_in_sequence(plan: Plan) -> Expected:
    """Run the plan node after node, from the definition alone: no gates, no edges, no store."""
    outcomes: dict[str, Outcome] = {}
    fatal: set[tuple[str, str]] = set()
    taken: dict[str, dict[str, bool]] = {}
    for spec in plan.specs:
        sources = {need.node for need in spec.needs}
        if not all(source in taken for source in sources):
            continue
        taken_sources = [s for s in outcomes if s in sources and taken[s].get(spec.id)]
        outcomes[spec.id] = _outcome(plan, spec, taken_sources, outcomes)
        edges = _taken_edges(plan, spec.id, outcomes[spec.id])
        if isinstance(edges, str):
            fatal.add((edges, spec.id))
        else:
            taken[spec.id] = edges
    return Expected(outcomes, frozenset(fatal))


def _outcome(
    plan: Plan, spec: NodeSpec, taken: list[str], outcomes: Mapping[str, Outcome]
) -> Outcome:
    if spec.needs and not taken:
        return Outcome(NodeStatus.SKIPPED)
    completed = (s for s in taken if outcomes[s].status is NodeStatus.COMPLETED)
    inputs: dict[str, Json] = {
        "execution": INPUT,
        "nodes": {source: outcomes[source].result for source in completed},
    }
    if plan.behaviours[spec.id].breaks:
        return Outcome(NodeStatus.FAILED, inputs=inputs)
    return Outcome(NodeStatus.COMPLETED, plan.result(spec.id, inputs), inputs)


def _taken_edges(plan: Plan, source: str, outcome: Outcome) -> dict[str, bool] | str:
    """Return the targets with whether they are reached, or the reason of a fatal end."""
    failed = outcome.status is NodeStatus.FAILED
    meant = {
        NodeStatus.COMPLETED: {EdgeOn.SUCCESS, EdgeOn.ALWAYS},
        NodeStatus.FAILED: {EdgeOn.FAILURE, EdgeOn.ALWAYS},
        NodeStatus.SKIPPED: set[EdgeOn](),
    }[outcome.status]
    document: Any = {"reason": BROKEN} if failed else outcome.result
    edges: dict[str, bool] = {}
    try:
        for spec in plan.specs:
            for need in spec.needs:
                if need.node == source:
                    is_taken = need.on in meant and (
                        need.when is None or CONDITIONS[need.when](document)
                    )
                    edges[spec.id] = edges.get(spec.id, False) or is_taken
    except ConditionFaultExpectedError:
        return Reason.EDGE_CONDITION_ERROR.value
    if failed and not any(edges.values()):
        return BROKEN
    return edges


# --- Strategies ----------------------------------------------------------------------------

_BEHAVIOURS = st.builds(
    Behaviour,
    flag=st.booleans(),
    breaks=st.integers(0, 5).map(lambda n: n == 5),
    stumbles=st.integers(0, 6).map(lambda n: max(0, n - 4)),
)
_WHENS = st.sampled_from([None, None, None, *(c for c in CONDITIONS if c != "abs(word)")])
_RARE_WHENS = st.one_of(*[_WHENS] * 9, st.just("abs(word)"))
_ONS = st.sampled_from([EdgeOn.SUCCESS, EdgeOn.SUCCESS, EdgeOn.ALWAYS, EdgeOn.FAILURE])
_RETRIES = st.sampled_from([RetryPolicy(100, 0.0, 0.0), RetryPolicy(100, 4.0, 40.0)])


@st.composite
def plans(draw: st.DrawFn, max_nodes: int = 7) -> Plan:
    """Any small workflow: conditions, failure edges, joins, gates, failing nodes."""
    ids = [f"n{i}" for i in range(draw(st.integers(1, max_nodes)))]
    specs = []
    for i, node_id in enumerate(ids):
        sources = draw(st.lists(st.sampled_from(ids[:i]), max_size=5)) if i else []
        needs = tuple(Need(source, draw(_ONS), draw(_RARE_WHENS)) for source in sources)
        specs.append(NodeSpec(node_id, task="body", retry=draw(_RETRIES), needs=needs))
    behaviours = {node_id: draw(_BEHAVIOURS) for node_id in ids}
    return Plan(tuple(specs), behaviours, draw(st.sampled_from([2, 3, 256])))


def single(behaviour: Behaviour) -> Plan:
    """One node."""
    spec = NodeSpec("n0", task="body", retry=RetryPolicy(100, 0.0, 0.0))
    return Plan((spec,), {"n0": behaviour})


def join_of(width: int, gate_width: int = 256) -> Plan:
    """`width` roots and one node that needs them all."""
    roots = [f"r{i}" for i in range(width)]
    retry = RetryPolicy(100, 0.0, 0.0)
    specs = [NodeSpec(root, task="body", retry=retry) for root in roots]
    specs.append(NodeSpec("join", task="body", retry=retry, needs=tuple(map(Need, roots))))
    return Plan(tuple(specs), {spec.id: Behaviour() for spec in specs}, gate_width)
