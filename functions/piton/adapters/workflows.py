"""Registered workflow versions, in rows or, when large, in blobs."""

from __future__ import annotations

import hashlib
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Final, Protocol

from piton.domain import canonical
from piton.domain.errors import Bug, Retry
from piton.domain.graph import Graph
from piton.domain.rows import Attributes, Value
from piton.ports import Applied, BlobStore, Outcome, Page, Workflow
from piton.storage import keys
from piton.storage.algebra import Args, Operation
from piton.storage.keys import Key
from piton.storage.operations import REGISTER_WORKFLOW
from piton.storage.views import WORKFLOW_VIEW

MAX_ROW_BYTES: Final = 300 * 1024
"""A compressed body up to this size stays in its row."""

_CACHED_NODES: Final = 50_000
_ROUNDS: Final = 5


class WorkflowRows(Protocol):
    """What the versions need from the store that holds their rows."""

    def apply(self, operation: Operation, key: Key, args: Args) -> Outcome:
        """As `ports.Store.apply`."""
        ...

    def get_raw(self, key: Key, attributes: Sequence[str]) -> Attributes | None:
        """As `ports.Store.get_raw`."""
        ...

    def latest_workflow(
        self, tenant: str, workflow_id: str, attributes: Sequence[str]
    ) -> Attributes | None:
        """Read some attributes of a workflow's highest version, its key included."""
        ...

    def list_workflows(self, tenant: str, *, limit: int, token: str | None) -> Page[str]:
        """List a tenant's workflow ids in order."""
        ...


class Workflows:
    """`ports.WorkflowStore` over rows and blobs.

    A version's hash covers its definition and its compiled graph. What was read once is kept, up
    to 50,000 nodes in all. Threads may share an instance.
    """

    def __init__(self, rows: WorkflowRows, blobs: BlobStore) -> None:
        self._rows = rows
        self._blobs = blobs
        self._loaded = _Loaded(_CACHED_NODES)

    def load(self, tenant: str, workflow_id: str, version: int) -> Workflow | None:
        """Return one version. Raises `Bug` when what is stored does not match its hash."""
        name = (tenant, workflow_id, version)
        workflow = self._loaded.find(name)
        if workflow is None:
            row = self._rows.get_raw(keys.workflow(*name), WORKFLOW_VIEW)
            if row is None:
                return None
            workflow = self._read(tenant, workflow_id, version, row)
            self._loaded.add(name, workflow)
        return workflow

    def latest_version(self, tenant: str, workflow_id: str) -> int | None:
        """Return the highest version, or None when the tenant has no such workflow."""
        row = self._rows.latest_workflow(tenant, workflow_id, ())
        return None if row is None else int(str(row["sk"]).removeprefix("v"))

    def register(
        self, tenant: str, definition: str, graph: Graph, now: int, actor: str
    ) -> Workflow:
        """Store a new version, or return the latest one when it is the same definition.

        Raises `Retry` when other registrations of the same workflow keep coming first.
        """
        workflow_id = graph.workflow_id
        content: Args | None = None
        for _ in range(_ROUNDS):
            latest = self.latest_version(tenant, workflow_id) or 0
            known = self.load(tenant, workflow_id, latest) if latest else None
            if known is not None and known.definition == definition:
                return known
            content = content or self._content(tenant, definition, graph)
            version = latest + 1
            args: dict[str, Value] = {**content, "now": now, "actor": actor}
            if version == 1:
                # One entry per workflow in the tenant's index: its first version's.
                args |= {"tenant": tenant, "workflow_id": workflow_id}
            key = keys.workflow(tenant, workflow_id, version)
            if isinstance(self._rows.apply(REGISTER_WORKFLOW, key, args), Applied):
                hash_ = str(content["hash"])
                return Workflow(tenant, workflow_id, version, hash_, now, actor, definition, graph)
        raise Retry(f"workflow {workflow_id}: other registrations keep coming first")

    def list_ids(self, tenant: str, *, limit: int, token: str | None) -> Page[str]:
        """List a tenant's workflow ids in order. Raises `Rejected` on a foreign token."""
        return self._rows.list_workflows(tenant, limit=limit, token=token)

    def _content(self, tenant: str, definition: str, graph: Graph) -> Args:
        text = canonical.dumps({"definition": definition, "graph": graph.to_json()})
        body = zlib.compress(text.encode(), level=9)
        content: dict[str, Value] = {
            "hash": canonical.digest(text),
            "nodes": len(graph.user_nodes),
        }
        if len(body) <= MAX_ROW_BYTES:
            return {**content, "body": body}
        ref = keys.workflow_blob(tenant, hashlib.sha256(body).hexdigest())
        self._blobs.put(ref, body)
        return {**content, "ref": ref}

    def _read(self, tenant: str, workflow_id: str, version: int, row: Attributes) -> Workflow:
        place = f"workflow {workflow_id} version {version}"
        match row:
            case {"wf_hash": str(hash_), "wf_created_at": int(created_at), "wf_actor": str(actor)}:
                definition, graph = _unpack(place, hash_, self._body(place, row))
                return Workflow(
                    tenant, workflow_id, version, hash_, created_at, actor, definition, graph
                )
            case _:
                raise Bug(f"{place}: the row is incomplete")

    def _body(self, place: str, row: Attributes) -> bytes:
        match row:
            case {"wf_body": bytes(body)}:
                return body
            case {"wf_ref": str(ref)}:
                stored = self._blobs.get(ref)
                if stored is None:
                    raise Bug(f"{place}: its blob is gone")
                return stored
            case _:
                raise Bug(f"{place}: the row has no body")


def _unpack(place: str, hash_: str, body: bytes) -> tuple[str, Graph]:
    try:
        text = zlib.decompress(body).decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise Bug(f"{place}: the body cannot be read") from error
    if canonical.digest(text) != hash_:
        raise Bug(f"{place}: the body does not match its hash")
    match canonical.loads(text):
        case {"definition": str(definition), "graph": graph}:
            return definition, Graph.from_json(graph)
        case _:
            raise Bug(f"{place}: the body has another form")


_Name = tuple[str, str, int]


class _Loaded:
    """The versions used last, bounded by their nodes because graphs differ 10,000-fold in size."""

    def __init__(self, most_nodes: int) -> None:
        self._most_nodes = most_nodes
        self._nodes = 0
        self._entries: OrderedDict[_Name, Workflow] = OrderedDict()
        self._lock = Lock()

    def find(self, name: _Name) -> Workflow | None:
        with self._lock:
            if name in self._entries:
                self._entries.move_to_end(name)
            return self._entries.get(name)

    def add(self, name: _Name, workflow: Workflow) -> None:
        with self._lock:
            if name not in self._entries:
                self._entries[name] = workflow
                self._nodes += len(workflow.graph.nodes)
            while self._nodes > self._most_nodes and len(self._entries) > 1:
                _, oldest = self._entries.popitem(last=False)
                self._nodes -= len(oldest.graph.nodes)
