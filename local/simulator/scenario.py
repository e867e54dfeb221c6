"""One world to simulate, as data: a workflow, how its bodies behave, and what goes wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from local.simulator.faults import Fault, Place
from piton.domain.canonical import Json
from piton.domain.compile import Need, NodeSpec
from piton.domain.retry import RetryPolicy


class Behaviour(StrEnum):
    """How one attempt of a body ends, if nothing interferes."""

    RETURNS = "returns"
    RETURNS_LARGE = "returns a large result"
    FAILS_FOR_NOW = "raises Transient"
    FAILS_FOR_GOOD = "raises Permanent"
    BREAKS = "raises something else"
    TIMES_OUT = "runs into its timeout"
    HANGS = "keeps its lease and never ends"
    NOT_JSON = "returns no JSON"
    TOO_LARGE = "returns more than is allowed"


@dataclass(frozen=True, slots=True)
class BodyPlan:
    """One attempt: how it ends and how long it takes. It reports progress `reports` times."""

    behaviour: Behaviour
    duration_ms: int = 0
    reports: int = 0


@dataclass(frozen=True, slots=True)
class NodePlan:
    """A node and its attempts; attempts beyond the last planned one are like the last."""

    id: str
    attempts: tuple[BodyPlan, ...]
    needs: tuple[Need, ...] = ()
    max_attempts: int = 3
    timeout_s: float = 60.0
    missing_task: bool = False
    params: Mapping[str, Json] = field(default_factory=dict)

    @property
    def spec(self) -> NodeSpec:
        """The node as the compiler takes it."""
        return NodeSpec(
            self.id,
            task="missing" if self.missing_task else f"body.{self.id}",
            timeout_s=self.timeout_s,
            retry=RetryPolicy(self.max_attempts, 0.5, 20.0),
            params=self.params,
            needs=self.needs,
        )

    def attempt(self, number: int) -> BodyPlan:
        """The plan of attempt `number`, from 1."""
        return self.attempts[min(number, len(self.attempts)) - 1]


class Tempo(StrEnum):
    """How long calls and deliveries take."""

    LOCKSTEP = "one millisecond"
    USUAL = "milliseconds"
    WILD = "milliseconds to seconds"
    UNEVEN = "milliseconds in most handlers, seconds in some"


class Recovery(StrEnum):
    """Who finds what has got lost. Where it is nobody, nothing may need to be found."""

    WATCHDOG = "the watchdog"
    OPERATOR = "an operator who resumes"
    NOBODY = "nobody"


@dataclass(frozen=True)
class Scenario:
    """Everything that a run depends on. `deadline_s` and `timeout_s` count from the start.

    Each execution is asked for by `rivals` more callers at the same moment.
    """

    seed: int
    nodes: tuple[NodePlan, ...]
    faults: tuple[Fault, ...] = ()
    input: Mapping[str, Json] = field(default_factory=dict)
    executions: int = 1
    rivals: int = 0
    max_in_degree: int = 256
    inline_bytes: int = 8192
    timeout_s: float | None = None
    deadline_s: float | None = None
    tempo: Tempo = Tempo.USUAL
    skews: Mapping[Place, tuple[int, ...]] = field(default_factory=dict)
    recovery: Recovery = Recovery.WATCHDOG

    @cached_property
    def plans(self) -> Mapping[str, NodePlan]:
        """Nodes by id."""
        return {node.id: node for node in self.nodes}

    @property
    def skewed(self) -> bool:
        """True when any clock is wrong."""
        return any(skew for skews in self.skews.values() for skew in skews)

    def lines(self) -> list[str]:
        """Describe the scenario for a person."""
        lines = [
            f"seed {self.seed}, {len(self.nodes)} node(s), {self.executions} execution(s)",
            f"calls take {self.tempo}, gates from {self.max_in_degree + 1} sources",
        ]
        if self.recovery is not Recovery.WATCHDOG:
            lines.append(f"what gets lost is found by {self.recovery}")
        if self.rivals:
            lines.append(f"each asked for by {self.rivals} more caller(s)")
        if self.timeout_s is not None:
            lines.append(f"workflow timeout {self.timeout_s:g} s")
        if self.deadline_s is not None:
            lines.append(f"caller's deadline {self.deadline_s:g} s")
        for place, skews in self.skews.items():
            if any(skews):
                lines.append(f"clock skew of {place}: {', '.join(f'{skew} ms' for skew in skews)}")
        lines += [f"node {_node_text(node)}" for node in self.nodes]
        lines += [f"fault: {fault}" for fault in self.faults]
        return lines


def _node_text(node: NodePlan) -> str:
    needs = ", ".join(
        f"{need.node} on {need.on}" + (f" when {need.when}" if need.when else "")
        for need in node.needs
    )
    bodies = "; ".join(f"{plan.behaviour} in {plan.duration_ms} ms" for plan in node.attempts)
    missing = " (its task is missing)" if node.missing_task else ""
    return f"{node.id} <- [{needs}] {bodies}, {node.max_attempts} attempt(s){missing}"
