"""What the tests do again and again: start, sweep, wait for the end, judge."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import psutil

from local.client import Api
from local.demo import faults
from local.demo.clock import until
from local.demo.evidence import BodyLog, EventTap, is_empty
from local.demo.ledger import (
    ENDS_OF_EXECUTIONS,
    BodyStart,
    Drop,
    Evidence,
    Expected,
    Fact,
    Kill,
    Resume,
)
from local.demo.reading import glance, record
from local.demo.verdict import Verdict, judge
from local.stack import Stack
from piton.domain.canonical import Json
from piton.domain.status import EventType, NodeStatus

DEADLINE_S = 90.0
WORKER = "worker-default"


def definition(name: str, nodes: Mapping[str, tuple[float, Sequence[str]]]) -> str:
    """Return a workflow whose nodes wait: `{id: (seconds, needs)}`."""
    return json.dumps(
        {
            "id": name,
            "nodes": [
                {
                    "id": id_,
                    "task": "dag.run",
                    "params": {"runtime_s": seconds},
                    "needs": list(needs),
                    "retry": {"max_attempts": 10, "base_s": 0, "cap_s": 0},
                }
                for id_, (seconds, needs) in nodes.items()
            ],
        }
    )


def have_died(pids: Sequence[int]) -> bool:
    """Whether none of these processes runs; one that only waits to be reaped does not."""
    return not any(
        process.pid in pids and process.info["status"] != psutil.STATUS_ZOMBIE
        for process in psutil.process_iter(["status"])
    )


@dataclass(frozen=True, slots=True)
class Scene:
    """The deployed product with a signed-in operator and the evidence."""

    stack: Stack
    api: Api
    tap: EventTap
    bodies: BodyLog

    def start(self, workflow: str, input_: Mapping[str, Json] | None = None) -> str:
        """Start an execution and return its id."""
        started = self.api.start({"workflow": workflow, "input": dict(input_ or {})})
        execution_id: str = started["execution"]["id"]
        return execution_id

    def run(self, text: str) -> str:
        """Register a definition and start it."""
        return self.start(self.api.register(text)["id"])

    def sweep(self) -> dict[str, int]:
        """Let the watchdog come by now."""
        answer = self.stack.aws.functions.invoke(FunctionName=self.stack.function("watchdog"))
        report: dict[str, int] = json.load(answer["Payload"])
        assert report.keys() == {"swept", "failed"}, report
        return report

    def until(self, look: Callable[[], Any], what: str, *, sweeping: bool = False) -> Any:
        """Wait for something, with a sweep before each look if wanted."""

        def look_once() -> Any:
            if sweeping:
                self.sweep()
            return look()

        return until(look_once, DEADLINE_S, what, every_s=0.5 if sweeping else 0.1)

    def ends(self, *execution_ids: str, sweeping: bool = False) -> None:
        """Wait until the bus has told of the end of each execution, and for its last event."""
        self.until(lambda: self.have_ended(execution_ids), "the end", sweeping=sweeping)
        self.until(self.tap.is_drained, "the last event")

    def lose_completion(self, execution_id: str, node_id: str, *successors: str) -> Drop:
        """Delete the message about the end of a node, whose body takes a second or more."""
        self.until(
            lambda: any(start.node_id == node_id for start in self.starts(execution_id)),
            f"the body of {node_id}",
        )
        drop = faults.drop_completion(
            self.stack,
            execution_id,
            lambda fact: 0 if fact.node_id == node_id else None,
            lambda _node_id: successors,
            deadline_s=DEADLINE_S,
        )
        self.until(self.is_advance_queue_empty, "an empty advance queue")
        return drop

    def signs(self, execution_ids: Sequence[str]) -> list[BodyStart | Fact]:
        """Everything that has been seen of some executions."""
        seen: list[BodyStart | Fact] = [*self.bodies.starts(), *self.tap.facts()]
        return [sign for sign in seen if sign.execution_id in execution_ids]

    def have_ended(self, execution_ids: Sequence[str]) -> bool:
        """Whether the bus has told of the end of each."""
        return self._ended() >= set(execution_ids)

    def pool_paused(self) -> AbstractContextManager[None]:
        """Keep the workers from taking messages."""
        return faults.paused(self.stack, WORKER)

    def is_advance_queue_empty(self) -> bool:
        """Whether nothing is left that could advance an execution."""
        return is_empty(self.stack.aws.sqs, self.stack.outputs.advance_queue_url)

    def starts(self, execution_id: str) -> list[BodyStart]:
        """Bodies of an execution that have started."""
        return [start for start in self.bodies.starts() if start.execution_id == execution_id]

    def facts(self, execution_id: str, *types: EventType) -> list[Fact]:
        """Events of an execution."""
        return [
            fact
            for fact in self.tap.facts()
            if fact.execution_id == execution_id and fact.type in types
        ]

    def status(self, execution_id: str, node_id: str) -> NodeStatus:
        """Where a node stands."""
        return glance(self.api, execution_id).nodes[node_id][0]

    def judge(
        self,
        expected: Mapping[str, Expected],
        *,
        kills: Sequence[Kill] = (),
        drops: Sequence[Drop] = (),
        resumes: Sequence[Resume] = (),
        metrics: Mapping[str, float] | None = None,
    ) -> Verdict:
        """Judge executions that have ended."""
        evidence = Evidence(
            records=[record(self.api, id_) for id_ in expected],
            bodies=self.bodies.starts(),
            facts=self.tap.facts(),
            metrics=metrics or {},
        )
        return judge(evidence, expected, kills=kills, drops=drops, resumes=resumes)

    def _ended(self) -> set[str]:
        return {fact.execution_id for fact in self.tap.facts() if fact.type in ENDS_OF_EXECUTIONS}
