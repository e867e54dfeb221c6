"""From the text of a workflow to a compiled graph."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ValidationError

from piton.contracts import NeedDocument, NodeDocument, WorkflowDocument, problems_of
from piton.domain import canonical
from piton.domain.compile import CheckCondition, Need, NodeSpec, Pools, compile_graph
from piton.domain.errors import InvalidDefinition
from piton.domain.graph import Graph
from piton.services import documents


@dataclass(frozen=True, slots=True)
class Definition:
    """A checked workflow: the author's document in canonical JSON, its nodes and its graph."""

    text: str
    specs: tuple[NodeSpec, ...]
    graph: Graph


def parse_definition(text: str, *, pools: Pools, check_condition: CheckCondition) -> Definition:
    """Read, check and compile a workflow in JSON or YAML.

    Raises `InvalidDefinition`, which names the place of every fault that could be found.
    """
    document = documents.read(text)
    try:
        workflow = WorkflowDocument.model_validate(document.value)
        specs = tuple(_spec(node) for node in workflow.nodes)
        graph = compile_graph(
            workflow.id,
            specs,
            pools=pools,
            check_condition=check_condition,
            timeout_s=workflow.timeout_s,
        )
    except ValidationError as error:
        located = [document.locate(problem) for problem in problems_of(error)]
        raise InvalidDefinition(located) from error
    except InvalidDefinition as error:
        located = [document.locate(problem) for problem in error.problems]
        raise InvalidDefinition(located) from error
    return Definition(canonical.dumps(document.value), specs, graph)


def _spec(node: NodeDocument) -> NodeSpec:
    return NodeSpec(
        id=node.id,
        task=node.task,
        lambda_arn=node.lambda_arn,
        pool=node.pool,
        timeout_s=node.timeout_s,
        retry=node.retry.policy() if node.retry else None,
        params=node.params,
        needs=tuple(_need(need) for need in node.needs),
    )


def _need(need: str | NeedDocument) -> Need:
    if isinstance(need, str):
        return Need(need)
    return Need(need.node, need.on, need.when)
