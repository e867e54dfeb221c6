"""Rows in DynamoDB tables. Every write is an UpdateItem, alone or inside a transaction."""

from __future__ import annotations

import heapq
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from piton.adapters.aws_errors import ConditionFailed, translated
from piton.domain.errors import Bug
from piton.domain.rows import (
    META_SK,
    NODE_SK_END,
    Attributes,
    ExecutionRef,
    ExecutionRow,
    NodeRow,
    node_sk,
)
from piton.ports import Applied, DueExecution, Outcome, Page, Refused, Write
from piton.storage import keys, tokens
from piton.storage.algebra import Args, Operation, Table
from piton.storage.attributes import decode_item
from piton.storage.expressions import expressions
from piton.storage.keys import BY_TENANT, DUE, DUE_SHARDS, WORKFLOWS_BY_TENANT, Key
from piton.storage.reads import Meter, OnCapacity, Query, Reads, wire_key
from piton.storage.views import ExecutionView, NodeView

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import UpdateTypeDef

_FILTERED_PAGE: Final = 1000
_MAX_PAGES: Final = 25
"""A filtered list looks through this many pages of an index before it answers with what it has."""


class DynamoStore:
    """`ports.Store` and `adapters.workflows.WorkflowRows` on DynamoDB.

    `tables` names each table. `on_capacity` is told what every answered request consumed; refused
    writes are charged too, but their answers do not say how much. `pause` waits for a number of
    seconds. Every method raises `Retry` and `Bug` as `aws_errors.translated` does.
    """

    def __init__(
        self,
        client: DynamoDBClient,
        tables: Mapping[Table, str],
        *,
        on_capacity: OnCapacity | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._tables = tables
        self._meter = Meter(on_capacity)
        self._reads = Reads(client, tables, self._meter, pause)

    # --- Writes ----------------------------------------------------------------------------

    def apply(self, operation: Operation, key: Key, args: Args) -> Outcome:
        """Carry out one guarded write."""
        if operation.transactional:
            raise Bug(f"operation {operation.name} is part of a transaction only")
        update = self._update(operation, key, args)
        try:
            with translated(operation.name):
                answer = self._client.update_item(
                    **update,
                    ReturnValues=operation.returns.value,
                    ReturnConsumedCapacity=self._meter.detail,
                )
        except ConditionFailed:
            return Refused()
        self._meter.add("UpdateItem", answer.get("ConsumedCapacity"))
        return Applied(decode_item(answer.get("Attributes", {})))

    def transact(self, writes: Sequence[Write]) -> Outcome:
        """Carry out writes on distinct items together, or none of them.

        A request that the SDK repeats after a lost answer is not refused by its own first
        success: both carry one token.
        """
        for write in writes:
            if not write.operation.transactional:
                raise Bug(f"operation {write.operation.name} is no part of a transaction")
        updates = [self._update(write.operation, write.key, write.args) for write in writes]
        try:
            with translated("+".join(write.operation.name for write in writes)):
                answer = self._client.transact_write_items(
                    TransactItems=[{"Update": update} for update in updates],
                    ClientRequestToken=uuid.uuid4().hex,
                    ReturnConsumedCapacity=self._meter.detail,
                )
        except ConditionFailed:
            return Refused()
        self._meter.add("TransactWriteItems", *answer.get("ConsumedCapacity", ()))
        return Applied()

    def _update(self, operation: Operation, key: Key, args: Args) -> UpdateTypeDef:
        if key.table is not operation.table:
            raise Bug(f"operation {operation.name} is not for the table {key.table.value}")
        texts = expressions(operation, args)
        update: UpdateTypeDef = {
            "TableName": self._tables[key.table],
            "Key": wire_key(key),
            "UpdateExpression": texts.update,
            "ConditionExpression": texts.condition,
        }
        if values := texts.values(args):
            update["ExpressionAttributeValues"] = values
        return update

    # --- Reads by key and by execution -----------------------------------------------------

    def get_execution(
        self, ref: ExecutionRef, view: ExecutionView = ExecutionView.CONTROL
    ) -> ExecutionRow | None:
        """Read META."""
        attributes = self._reads.get(keys.meta(ref), view.value)
        return None if attributes is None else ExecutionRow.from_attributes(attributes)

    def get_nodes(
        self, ref: ExecutionRef, ordinals: Iterable[int], view: NodeView = NodeView.RESULT
    ) -> dict[int, NodeRow]:
        """Read some node rows by ordinal; missing rows are left out."""
        wanted = [keys.node(ref, ordinal) for ordinal in dict.fromkeys(ordinals)]
        found: Iterable[Attributes]
        if len(wanted) == 1:
            attributes = self._reads.get(wanted[0], view.value)
            found = [] if attributes is None else [attributes]
        else:
            found = self._reads.get_many(Table.EXECUTIONS, wanted, view.value)
        rows = map(NodeRow.from_attributes, found)
        return {row.ordinal: row for row in rows}

    def query_nodes(
        self,
        ref: ExecutionRef,
        view: NodeView = NodeView.CONTROL,
        *,
        after: int = -1,
        limit: int | None = None,
    ) -> list[NodeRow]:
        """Read rows in the order of ordinals, from beyond `after`; every page if no `limit`."""
        query = Query(
            table=Table.EXECUTIONS,
            condition="pk = :pk AND sk BETWEEN :first AND :end",
            values={":pk": ref.pk, ":first": node_sk(after + 1), ":end": NODE_SK_END},
            attributes=view.value,
            page_size=limit,
        )
        return [NodeRow.from_attributes(item) for item in islice(self._reads.items(query), limit)]

    def get_raw(self, key: Key, attributes: Sequence[str]) -> Attributes | None:
        """Read some attributes of one item of any table."""
        found = self._reads.get(key, attributes)
        if found is None:
            return None
        return {name: value for name, value in found.items() if name in attributes}

    # --- Reads of indexes ------------------------------------------------------------------

    def list_executions(
        self,
        tenant: str,
        *,
        status: str | None,
        workflow_id: str | None,
        limit: int,
        token: str | None,
    ) -> Page[str]:
        """List ids of a tenant's executions, newest first.

        A page may be shorter than `limit`, even empty, and still have a next one: a filter that
        matches little is given up for this page after a bounded search. Raises `Rejected` when
        `token` did not come from an earlier page of this list.
        """
        scope = ("executions", tenant, status, workflow_id)
        filters = {"exec_status": status, "exec_workflow_id": workflow_id}
        wanted = {name: value for name, value in filters.items() if value is not None}
        partition = keys.tenant_partition(tenant)
        start: dict[str, str] | None = None
        if token is not None:
            sort, last_id = tokens.position(scope, token, parts=2)
            start = {
                "pk": ExecutionRef(tenant, last_id).pk,
                "sk": META_SK,
                BY_TENANT.partition: partition,
                BY_TENANT.sort: sort,
            }
        query = Query(
            table=BY_TENANT.table,
            index=BY_TENANT,
            condition=f"{BY_TENANT.partition} = :partition",
            matching=" AND ".join(f"{name} = :{name}" for name in wanted) or None,
            values={":partition": partition, **{f":{name}": wanted[name] for name in wanted}},
            attributes=(BY_TENANT.sort,),
            descending=True,
            start=start,
            page_size=_FILTERED_PAGE if wanted else limit + 1,
        )
        found, last = self._first(query, limit)
        return Page(
            [_execution_id(entry) for entry in found],
            tokens.issue(scope, (str(last[BY_TENANT.sort]), _execution_id(last))) if last else None,
        )

    def due(self, now: int, limit: int) -> Iterator[DueExecution]:
        """Executions whose `due_at` is at most `now`, the longest overdue first."""
        shards = [
            self._reads.items(
                Query(
                    table=DUE.table,
                    index=DUE,
                    condition=f"{DUE.partition} = :shard AND {DUE.sort} <= :now",
                    values={":shard": shard, ":now": now},
                    attributes=(DUE.sort,),
                    page_size=limit,
                )
            )
            for shard in DUE_SHARDS
        ]
        found = (_due_execution(item) for item in heapq.merge(*shards, key=_due_at))
        return islice(found, limit)

    # --- Workflows -------------------------------------------------------------------------

    def latest_workflow(
        self, tenant: str, workflow_id: str, attributes: Sequence[str]
    ) -> Attributes | None:
        """Read some attributes of a workflow's highest version, its key included."""
        query = Query(
            table=Table.WORKFLOWS,
            condition="pk = :pk",
            values={":pk": keys.workflow_partition(tenant, workflow_id)},
            attributes=attributes,
            descending=True,
            page_size=1,
        )
        return next(self._reads.items(query), None)

    def list_workflows(self, tenant: str, *, limit: int, token: str | None) -> Page[str]:
        """List a tenant's workflow ids in order. Eventually consistent.

        Raises `Rejected` when `token` did not come from an earlier page of this list.
        """
        index = WORKFLOWS_BY_TENANT
        scope = ("workflows", tenant)
        start: dict[str, str] | None = None
        if token is not None:
            (workflow_id,) = tokens.position(scope, token, parts=1)
            first = keys.workflow(tenant, workflow_id, 1)
            start = {
                "pk": first.pk,
                "sk": first.sk,
                index.partition: tenant,
                index.sort: workflow_id,
            }
        query = Query(
            table=index.table,
            index=index,
            condition=f"{index.partition} = :tenant",
            values={":tenant": tenant},
            attributes=(index.sort,),
            start=start,
            page_size=limit + 1,
        )
        found, last = self._first(query, limit)
        return Page(
            [str(entry[index.sort]) for entry in found],
            tokens.issue(scope, (str(last[index.sort]),)) if last else None,
        )

    def _first(self, query: Query, limit: int) -> tuple[list[Attributes], Attributes | None]:
        """Return up to `limit` entries and where to go on, None at the end of the range."""
        found: list[Attributes] = []
        last: Attributes | None = None
        for page in islice(self._reads.pages(query), _MAX_PAGES):
            found += page.items
            if len(found) > limit:
                return found[:limit], found[limit - 1]
            last = page.last
        return found, last


def _execution_id(entry: Attributes) -> str:
    return ExecutionRef.from_pk(str(entry["pk"])).execution_id


def _due_execution(item: Attributes) -> DueExecution:
    return DueExecution(ExecutionRef.from_pk(str(item["pk"])), _due_at(item))


def _due_at(item: Attributes) -> int:
    value = item[DUE.sort]
    if not isinstance(value, int):
        raise Bug("an entry of the due list has no time")
    return value
