"""Ports of the services that turn every call into a question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NoReturn

from local.model.graphs import FAILURE, RESULT, Small
from local.model.questions import (
    ReadsDue,
    ReadsExecution,
    ReadsNodes,
    Script,
    StartsBody,
    Writes,
)
from piton.domain.canonical import Json
from piton.domain.graph import Graph
from piton.domain.messages import Dispatch
from piton.domain.rows import Attributes, ExecutionRef, ExecutionRow, NodeRow
from piton.ports import (
    BodyOutcome,
    DueExecution,
    Outcome,
    Page,
    Raised,
    Returned,
    Workflow,
    Write,
)
from piton.storage.algebra import Args, Operation
from piton.storage.keys import Key
from piton.storage.views import ExecutionView, NodeView
from piton.tasks import Permanent, Task

WORKFLOW_HASH: Final = "hash"


class AskingStore:
    """`ports.Store` whose every call is a question. Data that never changes needs none."""

    def __init__(self, script: Script) -> None:
        self._script = script

    def apply(self, operation: Operation, key: Key, args: Args) -> Outcome:
        """Ask for a write."""
        return self._script.ask(Writes(operation, key, args))  # type: ignore[return-value]

    def transact(self, writes: Sequence[Write]) -> NoReturn:
        """Never needed: the execution exists before the exploration."""
        raise NotImplementedError("executions are created before the exploration")

    def get_execution(
        self, ref: ExecutionRef, view: ExecutionView = ExecutionView.CONTROL
    ) -> ExecutionRow | None:
        """Ask for META."""
        del ref, view
        return self._script.ask(ReadsExecution())  # type: ignore[return-value]

    def get_nodes(
        self, ref: ExecutionRef, ordinals: Iterable[int], view: NodeView = NodeView.RESULT
    ) -> dict[int, NodeRow]:
        """Ask for some rows."""
        del ref, view
        rows: Sequence[NodeRow] = self._script.ask(ReadsNodes(tuple(ordinals)))  # type: ignore[assignment]
        return {row.ordinal: row for row in rows}

    def query_nodes(
        self,
        ref: ExecutionRef,
        view: NodeView = NodeView.CONTROL,
        *,
        after: int = -1,
        limit: int | None = None,
    ) -> list[NodeRow]:
        """Ask for all rows."""
        del ref, view, after, limit
        rows: Sequence[NodeRow] = self._script.ask(ReadsNodes(None))  # type: ignore[assignment]
        return list(rows)

    def get_raw(self, key: Key, attributes: Sequence[str]) -> Attributes | None:
        """Return the input, which never changes."""
        del key, attributes
        return {"input_body": "{}", "input_hash": ""}

    def list_executions(
        self,
        tenant: str,
        *,
        status: str | None,
        workflow_id: str | None,
        limit: int,
        token: str | None,
    ) -> Page[str]:
        """Never needed by the engine."""
        raise NotImplementedError("no service of the engine lists executions")

    def due(self, now: int, limit: int) -> Iterable[DueExecution]:
        """Ask for the due list."""
        del limit
        return self._script.ask(ReadsDue(now))  # type: ignore[return-value]


class OneWorkflow:
    """`ports.WorkflowStore` with one version of one workflow."""

    def __init__(self, graph: Graph) -> None:
        self._workflow = Workflow("model", "small", 1, WORKFLOW_HASH, 0, "", "", graph)

    def load(self, tenant: str, workflow_id: str, version: int) -> Workflow:
        """Return the one workflow."""
        del tenant, workflow_id, version
        return self._workflow

    def latest_version(self, tenant: str, workflow_id: str) -> int:
        """Return the one version."""
        del tenant, workflow_id
        return 1

    def register(
        self, tenant: str, definition: str, graph: Graph, now: int, actor: str
    ) -> NoReturn:
        """Never needed: the workflow is there from the beginning."""
        raise NotImplementedError("the workflow is there from the beginning")

    def list_ids(self, tenant: str, *, limit: int, token: str | None) -> NoReturn:
        """Never needed by the engine."""
        raise NotImplementedError("no service of the engine lists workflows")


class NoBlobs:
    """`ports.BlobStore` that is never needed: results are small."""

    def put(self, key: str, body: bytes) -> NoReturn:
        """Never needed: results are small."""
        raise NotImplementedError("results are small")

    def get(self, key: str) -> None:
        """Return nothing."""
        del key


class NoChance:
    """`ports.Random` without any: no jitter, and nonces that are part of the state."""

    def __init__(self, nonce: int) -> None:
        self._nonce = nonce

    def uniform(self) -> float:
        """Return no jitter."""
        return 0.0

    def ulid(self, now_ms: int) -> NoReturn:
        """Never needed: the execution exists before the exploration."""
        raise NotImplementedError("executions are created before the exploration")

    def nonce(self) -> str:
        """Return the one nonce."""
        return str(self._nonce)


class SmallTasks:
    """`ports.TaskRegistry` of a small workflow."""

    def __init__(self, small: Small) -> None:
        self._small = small

    def find(self, name: str) -> Task | None:
        """Return the body of a node."""

        def body(context: object, inputs: Mapping[str, Json]) -> Json:
            del context, inputs
            if name in self._small.failing:
                raise Permanent(FAILURE)
            return RESULT

        return Task(name, body, None, None)


class AskingRunner:
    """`ports.BodyRunner` that asks before the body begins. Bodies take no time."""

    def __init__(self, script: Script, dispatch: Dispatch) -> None:
        self._script = script
        self._dispatch = dispatch

    def run(
        self,
        body: Callable[[], object],
        *,
        timeout_ms: int,
        heartbeat_ms: int,
        renew: Callable[[], bool],
    ) -> BodyOutcome:
        """Ask, then run the body."""
        del timeout_ms, heartbeat_ms, renew
        self._script.ask(StartsBody(self._dispatch.ordinal, self._dispatch.fence))
        try:
            return Returned(body())
        except Permanent as error:
            return Raised(error)
