"""From what a function may do (`piton.access`) to the statements of its role.

Nothing here is written by hand per function: a statement's attributes are those that the declared
operations name, so an operation that touches a new attribute changes the roles that carry it out
and no others.

Operations of one function on one kind of item share a statement, because a role's policies may
hold 10,240 characters and one statement each would need several times that. The price: the role
may combine attributes of different operations in one write. It gains no attribute and no item
that it could not write anyway.

What IAM cannot do: it compares no values, so it enforces no fence; it cannot demand that a write
is conditional; and it sees partition keys but not sort keys, so META and nodes of an execution are
told apart by their attributes alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from aws_cdk import Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from infra.findings import acknowledge
from infra.rulebook import exempt
from infra.rules import Rule
from infra.statements import Conditions, Statement, allow
from piton.access import Access, Get, Query
from piton.storage.algebra import Item, Operation, Table
from piton.storage.keys import (
    BY_TENANT,
    DUE,
    LEADING_KEYS,
    PAYLOAD_PREFIX,
    WORKFLOW_PREFIX,
    Index,
)
from piton.storage.views import KEY_ATTRIBUTES

INDEX_LEADING_KEYS: Final[Mapping[Index, str]] = {DUE: "due-*", BY_TENANT: "T#*"}
"""Partition keys of the indexes whose values have a fixed beginning."""


@dataclass(frozen=True, slots=True)
class Stores:
    """Where executions, workflows and payloads live.

    `bucket_export` is the name under which the bucket's ARN reaches other stacks.
    """

    tables: Mapping[Table, dynamodb.ITable]
    bucket: s3.IBucket
    bucket_export: str
    key: kms.IKey | None

    def grant(self, access: Access, role: iam.Role) -> None:
        """Add to `role` what `access` declares about tables and payloads, and nothing else."""
        arns = {name: table.table_arn for name, table in self.tables.items()}
        statements = [
            *table_statements(access, arns),
            *payload_statements(access, self.bucket.bucket_arn),
        ]
        if self.key:
            statements += key_statements(access, self.key.key_arn, Stack.of(role).region)
        allow(role, statements)
        why = (
            "Objects of all tenants and executions begin like this; the rest of a key is known "
            "only from the row that refers to it."
        )
        for prefix in (PAYLOAD_PREFIX, WORKFLOW_PREFIX):
            acknowledge(role, f"IAM5[Resource::{self.bucket_export}/{prefix}*]", why)
        exempt(role, Rule.WILDCARD, why)


def table_statements(access: Access, arns: Mapping[Table, str]) -> list[Statement]:
    """Return the DynamoDB statements of a function, given each table's ARN."""
    return [
        *_write_statements(access.operations, arns),
        *_get_statements(access.gets, arns),
        *_query_statements(access.queries, arns),
    ]


def payload_statements(access: Access, bucket_arn: str) -> Iterator[Statement]:
    """Yield the S3 statements. Large workflows are for those who read or register workflows.

    Nobody may list: payload keys end in a content hash, so a key that was not handed over through
    a row cannot be guessed.
    """
    read_items = {get.item for get in access.gets}
    written_items = {operation.item for operation in access.operations}
    for sid, action, payloads, workflows in (
        ("ReadPayloads", "s3:GetObject", access.reads_payloads, Item.WORKFLOW in read_items),
        ("WritePayloads", "s3:PutObject", access.writes_payloads, Item.WORKFLOW in written_items),
    ):
        places = {
            PAYLOAD_PREFIX: ("inputs and results", payloads),
            WORKFLOW_PREFIX: ("workflows", workflows),
        }
        wanted = {prefix: what for prefix, (what, granted) in places.items() if granted}
        if wanted:
            yield Statement(
                sid,
                [action],
                [f"{bucket_arn}/{prefix}*" for prefix in wanted],
                f"{' and '.join(wanted.values())} too large for a row",
            )


def key_statements(access: Access, key_arn: str, region: str) -> Iterator[Statement]:
    """Yield the use of a key of the account, by the stores and in the function's name only."""
    if not (access.tables or access.reads_stream):
        return
    writes = bool(access.operations) or access.writes_payloads
    yield Statement(
        "UseKey",
        [
            "kms:Decrypt",
            "kms:DescribeKey",
            *(("kms:Encrypt", "kms:GenerateDataKey") if writes else ()),
        ],
        [key_arn],
        "tables and payloads are encrypted under it",
        {
            "StringEquals": {
                "kms:ViaService": [
                    f"{service}.{region}.amazonaws.com" for service in ("dynamodb", "s3")
                ]
            }
        },
    )


def _write_statements(
    operations: Iterable[Operation], arns: Mapping[Table, str]
) -> Iterator[Statement]:
    """Yield one statement per kind of item and way of writing.

    A transactional update has no ReturnValues of its own. IAM sees there what it would return if
    its condition failed, which has to be nothing. Every other update names its ReturnValues.
    """
    groups: dict[tuple[Item, str | None], list[Operation]] = defaultdict(list)
    for operation in operations:
        returns = None if operation.transactional else operation.returns.value
        groups[operation.item, returns].append(operation)
    for (item, returns), group in groups.items():
        attributes = {name for operation in group for name in operation.attributes}
        conditions = _conditions(attributes, LEADING_KEYS[item])
        if returns is None:
            suffix = "InTransaction"
            conditions["StringEquals"] = {"dynamodb:EnclosingOperation": "TransactWriteItems"}
            conditions["StringEqualsIfExists"] = {"dynamodb:ReturnValues": "NONE"}
        else:
            suffix = "" if returns == "NONE" else "Returning"
            conditions["StringEquals"] = {"dynamodb:ReturnValues": returns}
        yield Statement(
            f"Update{_title(item)}{suffix}",
            ["dynamodb:UpdateItem"],
            [arns[_table_of(item)]],
            ", ".join(operation.name for operation in group),
            conditions,
        )


def _get_statements(gets: Iterable[Get], arns: Mapping[Table, str]) -> Iterator[Statement]:
    for get in gets:
        conditions = _conditions(get.attributes, LEADING_KEYS[get.item])
        # A single read may come without Select, but never with one that asks for everything.
        conditions["StringEqualsIfExists"] = {"dynamodb:Select": "SPECIFIC_ATTRIBUTES"}
        yield Statement(
            f"Get{_title(get.item)}",
            ["dynamodb:GetItem", *(["dynamodb:BatchGetItem"] if get.many else [])],
            [arns[_table_of(get.item)]],
            get.why,
            conditions,
        )


def _query_statements(queries: Iterable[Query], arns: Mapping[Table, str]) -> Iterator[Statement]:
    for query in queries:
        leading: str | None
        if query.index is None:
            name, arn = "", arns[_table_of(query.item)]
            leading = LEADING_KEYS[query.item]
        else:
            name = "By" + "".join(part.capitalize() for part in query.index.name.split("_"))
            arn = f"{arns[query.index.table]}/index/{query.index.name}"
            leading = INDEX_LEADING_KEYS.get(query.index)
        conditions = _conditions(query.attributes, leading)
        conditions["StringEquals"] = {"dynamodb:Select": "SPECIFIC_ATTRIBUTES"}
        sid = f"Query{_title(query.item)}{name}"
        yield Statement(sid, ["dynamodb:Query"], [arn], query.why, conditions)


def _conditions(attributes: Iterable[str], leading: str | None) -> Conditions:
    """Limit a request to these attributes and partition keys.

    `ForAllValues` also holds for a request that names none at all, hence `Null`.
    """
    conditions: Conditions = {
        "ForAllValues:StringEquals": {
            "dynamodb:Attributes": sorted({*KEY_ATTRIBUTES, *attributes}),
        },
        "Null": {"dynamodb:Attributes": "false"},
    }
    if leading is not None:
        conditions["ForAllValues:StringLike"] = {"dynamodb:LeadingKeys": [leading]}
        conditions["Null"]["dynamodb:LeadingKeys"] = "false"
    return conditions


def _table_of(item: Item) -> Table:
    return Table.WORKFLOWS if item is Item.WORKFLOW else Table.EXECUTIONS


def _title(item: Item) -> str:
    return item.value.capitalize()
