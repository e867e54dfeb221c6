"""What each Lambda may do, on one page.

The infrastructure derives every statement of a function's role from this declaration, and the
tests hold it against what the function really calls. A function that is not named for an
operation cannot write those attributes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from piton.storage import operations as op
from piton.storage.algebra import Item, Operation, Table
from piton.storage.keys import BY_TENANT, DUE, WORKFLOWS_BY_TENANT, Index
from piton.storage.views import (
    IDEMPOTENCY_VIEW,
    INPUT_VIEW,
    KEY_ATTRIBUTES,
    WORKFLOW_VIEW,
    ExecutionView,
    NodeView,
)


class Function(StrEnum):
    """The Lambda functions. `WORKER` stands for one function per pool."""

    COMMANDS = "commands"
    QUERIES = "queries"
    STEP_RUNNER = "step_runner"
    WORKER = "worker"
    WATCHDOG = "watchdog"
    OUTBOX_RELAY = "outbox_relay"
    DEAD_LETTERS = "dead_letters"


class Queue(StrEnum):
    """Queues by role. `WORKER` and `WORKER_DLQ` stand for one queue per pool."""

    ADVANCE = "advance"
    WORKER = "worker"
    WORKER_DLQ = "worker_dlq"


@dataclass(frozen=True, slots=True)
class Get:
    """Consistent reads of single items with these attributes; `many` of them in one request too."""

    item: Item
    attributes: tuple[str, ...]
    why: str
    many: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """Reads of one partition, of the table or of an index, with these attributes."""

    item: Item
    attributes: tuple[str, ...]
    why: str
    index: Index | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """Everything one function may touch.

    Whoever reads or registers workflows also reads or writes the blobs of large ones; the flags
    about payloads are about inputs and results. A function that `postpones` hides messages of the
    queue it consumes until their time.
    """

    function: Function
    operations: tuple[Operation, ...] = ()
    gets: tuple[Get, ...] = ()
    queries: tuple[Query, ...] = ()
    consumes: Queue | None = None
    sends_to: tuple[Queue, ...] = ()
    publishes: bool = False
    postpones: bool = False
    reads_payloads: bool = False
    writes_payloads: bool = False
    reads_stream: bool = False

    @property
    def tables(self) -> frozenset[Table]:
        """Tables that the function touches in any way."""
        items = {operation.item for operation in self.operations}
        items |= {get.item for get in self.gets} | {query.item for query in self.queries}
        return frozenset(
            Table.WORKFLOWS if item is Item.WORKFLOW else Table.EXECUTIONS for item in items
        )


FRONTIER: Final = (
    op.RESOLVE_TAKEN,
    op.RESOLVE_DECLINED,
    op.QUEUE_ROOT,
    op.QUEUE_SINGLE,
    op.QUEUE_JOIN,
    op.SKIP_SINGLE,
    op.SKIP_JOIN,
    op.PASS_SINGLE,
    op.PASS_JOIN,
    op.END_SINGLE_DECLINED,
    op.END_JOIN,
    op.START,
    op.COMPLETE_EXECUTION,
    op.FAIL_EXECUTION,
)
DRAIN: Final = (op.CANCEL_UNCLAIMED, op.CANCEL_STALLED)

_META = Get(Item.META, ExecutionView.CONTROL.value, "decisions read META consistently")
_META_FULL = Get(Item.META, ExecutionView.FULL.value, "answers show the whole execution")
_NODE_RESULTS = Get(Item.NODE, NodeView.RESULT.value, "a source's status and result")
_ALL_NODES = Query(Item.NODE, NodeView.CONTROL.value, "passes over a whole execution")
_WORKFLOW = Get(Item.WORKFLOW, WORKFLOW_VIEW, "the compiled graph of the pinned version")

ACCESS: Final[tuple[Access, ...]] = (
    Access(
        Function.COMMANDS,
        operations=(
            op.CREATE_EXECUTION,
            op.STORE_INPUT,
            op.CLAIM_IDEMPOTENCY,
            op.CANCEL_EXECUTION,
            op.RESUME,
            op.REGISTER_WORKFLOW,
        ),
        gets=(
            _META_FULL,
            _WORKFLOW,
            Get(Item.IDEMPOTENCY, IDEMPOTENCY_VIEW, "an earlier start of the same document"),
        ),
        queries=(Query(Item.WORKFLOW, KEY_ATTRIBUTES, "the latest version of a workflow"),),
        writes_payloads=True,
    ),
    Access(
        Function.QUERIES,
        gets=(
            _META_FULL,
            _WORKFLOW,
            Get(Item.NODE, NodeView.FULL.value, "nodes that an answer names", many=True),
            Get(Item.INPUT, INPUT_VIEW, "the input of an execution"),
        ),
        queries=(
            Query(Item.NODE, NodeView.FULL.value, "nodes and history, in pages"),
            Query(Item.WORKFLOW, KEY_ATTRIBUTES, "the latest version of a workflow"),
            Query(
                Item.META,
                (*KEY_ATTRIBUTES, BY_TENANT.partition, BY_TENANT.sort, *BY_TENANT.projected),
                "a tenant's executions, newest first",
                BY_TENANT,
            ),
            Query(
                Item.WORKFLOW,
                (*KEY_ATTRIBUTES, WORKFLOWS_BY_TENANT.partition, WORKFLOWS_BY_TENANT.sort),
                "a tenant's workflows",
                WORKFLOWS_BY_TENANT,
            ),
        ),
        reads_payloads=True,
    ),
    Access(
        Function.STEP_RUNNER,
        operations=(*FRONTIER, op.RESEND, *DRAIN),
        gets=(_META, _NODE_RESULTS, _WORKFLOW),
        queries=(_ALL_NODES,),
        consumes=Queue.ADVANCE,
        reads_payloads=True,
    ),
    Access(
        Function.WORKER,
        operations=(
            op.CLAIM,
            op.RENEW_LEASE,
            op.REPORT_PROGRESS,
            op.COMPLETE,
            op.RETRY,
            op.FAIL,
            op.CANCEL_CLAIMED,
        ),
        gets=(
            _META,
            replace(_NODE_RESULTS, many=True),
            _WORKFLOW,
            Get(Item.INPUT, INPUT_VIEW, "the input of an execution"),
        ),
        consumes=Queue.WORKER,
        postpones=True,
        reads_payloads=True,
        writes_payloads=True,
    ),
    Access(
        Function.WATCHDOG,
        operations=(
            *FRONTIER,
            op.RESEND,
            op.RETRY_STALLED,
            op.FAIL_STALLED,
            *DRAIN,
            op.PASS_DEADLINE,
            op.TIME_OUT,
            op.RETIRE,
            op.DEFER,
            op.PARK,
        ),
        gets=(_META, _NODE_RESULTS, _WORKFLOW),
        queries=(
            _ALL_NODES,
            Query(
                Item.META,
                (*KEY_ATTRIBUTES, DUE.partition, DUE.sort),
                "executions that are due",
                DUE,
            ),
        ),
        reads_payloads=True,
    ),
    Access(
        Function.OUTBOX_RELAY,
        sends_to=(Queue.WORKER,),
        publishes=True,
        reads_stream=True,
    ),
    Access(
        Function.DEAD_LETTERS,
        operations=(op.RETRY_UNDELIVERED, op.FAIL_UNDELIVERED),
        gets=(
            _META,
            Get(Item.NODE, NodeView.CONTROL.value, "whether a dispatch is still open"),
            _WORKFLOW,
        ),
        consumes=Queue.WORKER_DLQ,
    ),
)

BY_FUNCTION: Final = {access.function: access for access in ACCESS}
