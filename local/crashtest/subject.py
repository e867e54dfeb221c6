"""The workflow under test, ready to run in a simulated world."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, cast

from local.simulator.engine import POOLS
from local.simulator.oracle import Outcome, inputs_of, taken_sources
from local.simulator.world import Workload
from piton.adapters.conditions import check_condition, evaluate_condition
from piton.domain.canonical import Json
from piton.domain.compile import MAX_IN_DEGREE, NodeSpec, Pools, compile_graph
from piton.domain.graph import Graph
from piton.services.definitions import parse_definition
from piton.tasks import REGISTRY, AsyncBody, Context, Inputs, SyncBody, Task

FindTask = Callable[[str], Task | None]
Starts = Callable[[Context, Inputs], None]


@dataclass(frozen=True)
class Subject:
    """A workflow, its tasks and its input. `pools` are those that its nodes may name.

    Nodes that call a Lambda function run as stubs: there is none here to call.
    """

    workflow_id: str
    specs: tuple[NodeSpec, ...]
    find: FindTask
    input: Mapping[str, Json] = field(default_factory=dict)
    timeout_s: float | None = None
    max_in_degree: int = MAX_IN_DEGREE
    pools: Pools = field(default_factory=lambda: POOLS)

    @classmethod
    def parse(cls, text: str, find: FindTask, input: Mapping[str, Json], pools: Pools) -> Subject:  # noqa: A002
        """Read a workflow in JSON or YAML. Raises `InvalidDefinition`."""
        found = parse_definition(text, pools=pools, check_condition=check_condition)
        graph = found.graph
        return cls(graph.workflow_id, found.specs, find, input, graph.timeout_s, pools=pools)

    @cached_property
    def graph(self) -> Graph:
        """What is run."""
        return compile_graph(
            self.workflow_id,
            [_without_lambda(spec) for spec in self.specs],
            pools=self.pools,
            check_condition=check_condition,
            timeout_s=self.timeout_s,
            max_in_degree=self.max_in_degree,
        )

    @property
    def lambdas(self) -> tuple[str, ...]:
        """Nodes that call a Lambda function, by id."""
        return tuple(spec.id for spec in self.specs if spec.lambda_arn)

    def workload(self) -> Workload:
        """Return what a world runs."""
        specs = {spec.id: spec for spec in self.specs}

        def inputs(node_id: str, outcomes: Mapping[str, Outcome]) -> Json:
            spec = specs[node_id]
            taken = taken_sources(spec, outcomes, evaluate_condition)
            return inputs_of(spec, dict(self.input), taken, outcomes)

        return Workload(self.graph, partial(_WatchedTasks, self.find), self.input, inputs)


def load_tasks(modules: Iterable[str]) -> FindTask:
    """Import the modules that register tasks. Raises `ImportError`."""
    for module in modules:
        importlib.import_module(module)
    return REGISTRY.find


def stub(name: str) -> Task:
    """Return a task that does nothing and tells which node it stood for."""

    def body(context: Context, inputs: Inputs) -> Json:
        del inputs
        return {"stub": context.node_id}

    return Task(name, body, None, None)


_LAMBDA = "lambda:"


def _without_lambda(spec: NodeSpec) -> NodeSpec:
    if spec.lambda_arn is None:
        return spec
    return replace(spec, lambda_arn=None, task=_LAMBDA + spec.id)


class _WatchedTasks:
    """`ports.TaskRegistry`: the user's tasks. `starts` is told of every body that starts."""

    def __init__(self, find: FindTask, starts: Starts) -> None:
        self._find = find
        self._starts = starts

    def find(self, name: str) -> Task | None:
        """Return the task, or None when there is none of this name."""
        task = stub(name) if name.startswith(_LAMBDA) else self._find(name)
        return task and Task(name, self._watched(task), task.retry, task.timeout_s)

    def _watched(self, task: Task) -> SyncBody | AsyncBody:
        if task.is_async:
            asynchronous = cast(AsyncBody, task.body)

            async def run_async(context: Context, inputs: Inputs) -> Any:
                self._starts(context, inputs)
                return await asynchronous(context, inputs)

            return run_async
        synchronous = cast(SyncBody, task.body)

        def run(context: Context, inputs: Inputs) -> Any:
            self._starts(context, inputs)
            return synchronous(context, inputs)

        return run
