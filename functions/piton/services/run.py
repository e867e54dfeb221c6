"""An execution together with the graph it is pinned to."""

from __future__ import annotations

from dataclasses import dataclass

from piton.domain.errors import Bug, Stale
from piton.domain.graph import Graph
from piton.domain.rows import ExecutionRef, ExecutionRow
from piton.domain.scope import scope_hash
from piton.ports import Store, WorkflowStore


@dataclass(frozen=True, slots=True)
class Run:
    """What every decision about an execution starts from."""

    execution: ExecutionRow
    graph: Graph

    @property
    def ref(self) -> ExecutionRef:
        """Names the execution."""
        return self.execution.ref

    @property
    def scope(self) -> str:
        """Hash of the effective scope, as node rows carry it."""
        return scope_hash(self.execution.scope)


def load_graph(workflows: WorkflowStore, execution: ExecutionRow) -> Graph:
    """Return the graph an execution is pinned to. Raises `Bug` when it is not that one any more."""
    workflow = workflows.load(
        execution.ref.tenant, execution.workflow_id, execution.workflow_version
    )
    if workflow is None or workflow.hash != execution.definition_hash:
        raise Bug(
            f"{execution.ref.execution_id}: {execution.workflow_id} "
            f"v{execution.workflow_version} is not the registered definition"
        )
    return workflow.graph


def load_live_run(store: Store, workflows: WorkflowStore, ref: ExecutionRef) -> Run:
    """Read META consistently. Raises `Stale` when the execution is gone or has ended."""
    execution = store.get_execution(ref)
    if execution is None or execution.terminal:
        raise Stale(f"{ref.execution_id} has ended or is gone")
    return Run(execution, load_graph(workflows, execution))
