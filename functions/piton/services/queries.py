"""What viewers ask for. Every answer is bounded; lists come in pages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from piton.domain import canonical
from piton.domain.canonical import Json
from piton.domain.compile import ID_PATTERN
from piton.domain.errors import Bug, ErrorCode, Rejected
from piton.domain.graph import Graph
from piton.domain.rows import ExecutionRef, ExecutionRow, NodeRow
from piton.domain.settings import Settings
from piton.domain.status import ExecutionStatus, NodeStatus
from piton.ports import BlobStore, Store, WorkflowStore
from piton.services.caller import Caller
from piton.services.history import read_history
from piton.services.pages import START, decode_token, encode_token, page, page_size
from piton.services.payloads import PayloadMissing, Payloads
from piton.services.run import load_graph
from piton.services.views import execution_view, node_view, workflow_view
from piton.storage.views import ExecutionView, NodeView

MAX_PAGE: Final = 100
MAX_HISTORY: Final = 1000
MAX_OUTPUT_BYTES: Final = 4 * 1024 * 1024
"""AppSync takes at most 5 MB from a resolver, and text grows when it is quoted."""

_RESULTS_AT_ONCE: Final = 100
_ID: Final = re.compile(ID_PATTERN)


class Queries:
    """Every method checks the caller's role first and names rows of their tenant only.

    What is missing, or belongs to another tenant, is None. Methods raise `Rejected`, and `Retry`
    when a dependency does not answer.
    """

    def __init__(
        self,
        *,
        store: Store,
        workflows: WorkflowStore,
        blobs: BlobStore,
        settings: Settings,
        log_groups: Mapping[str, str],
    ) -> None:
        self._store = store
        self._workflows = workflows
        self._payloads = Payloads(store, blobs, settings)
        self._log_groups = log_groups

    def get_execution(self, caller: Caller, execution_id: str) -> dict[str, Json] | None:
        """Return an execution."""
        row = self._read(caller, execution_id)
        return execution_view(row) if row else None

    def list_executions(
        self,
        caller: Caller,
        *,
        status: ExecutionStatus | None = None,
        workflow: str | None = None,
        limit: int,
        token: str | None = None,
    ) -> dict[str, Json]:
        """Return a page of executions, newest first.

        The list itself is eventually consistent; what it shows of each execution is not, and one
        that has left the asked status since is left out.
        """
        caller.require_reader()
        found = self._store.list_executions(
            caller.tenant,
            status=status.value if status else None,
            workflow_id=workflow,
            limit=page_size(limit, MAX_PAGE),
            token=token,
        )
        refs = [ExecutionRef(caller.tenant, execution_id) for execution_id in found.items]
        rows = [self._store.get_execution(ref, ExecutionView.FULL) for ref in refs]
        shown = [row for row in rows if row and status in (None, row.status)]
        return page([execution_view(row) for row in shown], found.next_token)

    def nodes(
        self, caller: Caller, execution_id: str, *, limit: int, token: str | None = None
    ) -> dict[str, Json] | None:
        """Return a page of nodes in the order of the definition, those without a row included."""
        row = self._read(caller, execution_id)
        if row is None:
            return None
        size = page_size(limit, MAX_PAGE)
        first, _ = decode_token(token, execution_id) if token else START
        graph = load_graph(self._workflows, row)
        nodes = graph.user_nodes
        asked = nodes[max(first, 0) : first + size]
        rows = self._store.get_nodes(row.ref, [node.ordinal for node in asked], NodeView.FULL)
        items: list[Json] = [
            node_view(
                row.ref,
                graph,
                node,
                rows.get(node.ordinal) or NodeRow(node.ordinal),
                self._log_groups.get(node.pool),
            )
            for node in asked
        ]
        end = first + len(asked)
        following = encode_token(execution_id, (end, 0)) if end < len(nodes) else None
        return {**page(items, following), "total": len(nodes)}

    def input(self, caller: Caller, execution_id: str) -> Json:
        """Return an execution's input."""
        row = self._read(caller, execution_id)
        if row is None:
            return None
        try:
            return self._payloads.load_input(row.ref)
        except PayloadMissing as error:
            raise Bug(f"{execution_id}: the input is not where its row says") from error

    def output(self, caller: Caller, execution_id: str) -> Json:
        """Return `{<sink id>: <result>}` of completed sinks; None while the execution runs."""
        row = self._read(caller, execution_id)
        if row is None or not row.terminal:
            return None
        graph = load_graph(self._workflows, row)
        output: dict[str, Json] = {}
        size = 0
        for first in range(0, len(graph.sinks), _RESULTS_AT_ONCE):
            for sink in self._completed(row, graph.sinks[first : first + _RESULTS_AT_ONCE]):
                result = self._result(row, graph, sink)
                output[graph.nodes[sink.ordinal].id] = result
                size += len(canonical.dumps(result).encode())
                if size > MAX_OUTPUT_BYTES:
                    raise Rejected(
                        ErrorCode.OUTPUT_TOO_LARGE,
                        f"The output has more than {MAX_OUTPUT_BYTES} bytes; let the last tasks "
                        "write it where you can read it, and return its address",
                    )
        return output

    def history(
        self, caller: Caller, execution_id: str, *, limit: int, token: str | None = None
    ) -> dict[str, Json] | None:
        """Return a page of transitions; see `read_history` for their order."""
        row = self._read(caller, execution_id)
        if row is None:
            return None
        return read_history(self._store, row, page_size(limit, MAX_HISTORY), token)

    def get_workflow(
        self, caller: Caller, workflow_id: str, version: int | None = None
    ) -> dict[str, Json] | None:
        """Return a version of a workflow, the latest unless one is named."""
        caller.require_reader()
        if not _ID.fullmatch(workflow_id):
            return None
        wanted = version or self._workflows.latest_version(caller.tenant, workflow_id)
        found = wanted and self._workflows.load(caller.tenant, workflow_id, wanted)
        return workflow_view(found) if found else None

    def list_workflows(
        self, caller: Caller, *, limit: int, token: str | None = None
    ) -> dict[str, Json]:
        """Return a page of workflow ids, each with its latest version."""
        caller.require_reader()
        found = self._workflows.list_ids(
            caller.tenant, limit=page_size(limit, MAX_PAGE), token=token
        )
        versions = {id_: self._workflows.latest_version(caller.tenant, id_) for id_ in found.items}
        return page(
            [{"id": id_, "version": version} for id_, version in versions.items()],
            found.next_token,
        )

    def _read(self, caller: Caller, execution_id: str) -> ExecutionRow | None:
        caller.require_reader()
        ref = caller.execution(execution_id)
        return self._store.get_execution(ref, ExecutionView.FULL) if ref else None

    def _completed(self, row: ExecutionRow, ordinals: tuple[int, ...]) -> list[NodeRow]:
        rows = self._store.get_nodes(row.ref, ordinals, NodeView.RESULT)
        found = [rows[ordinal] for ordinal in ordinals if ordinal in rows]
        return [sink for sink in found if sink.status is NodeStatus.COMPLETED]

    def _result(self, row: ExecutionRow, graph: Graph, sink: NodeRow) -> Json:
        try:
            return self._payloads.load_result(sink)
        except PayloadMissing as error:
            name = graph.nodes[sink.ordinal].id
            raise Bug(f"{row.ref.execution_id}: the result of {name} is missing") from error
