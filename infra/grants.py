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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aws_cdk import Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from infra.findings import acknowledge
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

Conditions = dict[str, dict[str, str | list[str]]]


@dataclass(frozen=True, slots=True)
class Statement:
    """One Allow statement."""

    sid: str
    actions: Sequence[str]
    resources: Sequence[str]
    conditions: Conditions

    def to_iam(self) -> iam.PolicyStatement:
        """Return the CDK form."""
        return iam.PolicyStatement(
            sid=self.sid,
            actions=list(self.actions),
            resources=list(self.resources),
            conditions=dict(self.conditions),
        )


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
            statements.extend(self._key_statements(access, self.key.key_arn, Stack.of(role)))
        for statement in statements:
            role.add_to_policy(statement.to_iam())
        for prefix in (PAYLOAD_PREFIX, WORKFLOW_PREFIX):
            acknowledge(
                role,
                f"IAM5[Resource::{self.bucket_export}/{prefix}*]",
                "Objects of all tenants and executions begin like this; the rest of a key is known "
                "only from the row that refers to it.",
            )

    @staticmethod
    def _key_statements(access: Access, arn: str, stack: Stack) -> Iterator[Statement]:
        if not access.tables:
            return
        writes = bool(access.operations) or access.writes_blobs
        through = [f"{service}.{stack.region}.amazonaws.com" for service in ("dynamodb", "s3")]
        yield Statement(
            "UseKey",
            [
                "kms:Decrypt",
                "kms:DescribeKey",
                *(("kms:Encrypt", "kms:GenerateDataKey") if writes else ()),
            ],
            [arn],
            {"StringEquals": {"kms:ViaService": through}},
        )


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
    read_items = {get.item for get in access.gets} | {query.item for query in access.queries}
    written_items = {operation.item for operation in access.operations}
    if access.reads_blobs:
        prefixes = [PAYLOAD_PREFIX, *([WORKFLOW_PREFIX] if Item.WORKFLOW in read_items else [])]
        yield _objects("ReadPayloads", "s3:GetObject", bucket_arn, prefixes)
    if access.writes_blobs:
        prefixes = [PAYLOAD_PREFIX, *([WORKFLOW_PREFIX] if Item.WORKFLOW in written_items else [])]
        yield _objects("WritePayloads", "s3:PutObject", bucket_arn, prefixes)


def _objects(sid: str, action: str, bucket_arn: str, prefixes: Iterable[str]) -> Statement:
    return Statement(sid, [action], [f"{bucket_arn}/{prefix}*" for prefix in prefixes], {})


def _write_statements(
    operations: Iterable[Operation], arns: Mapping[Table, str]
) -> Iterator[Statement]:
    """Yield one statement per kind of item and way of writing.

    A transactional update has no ReturnValues in its request, so nothing but the enclosing
    operation can be asked for there. Every other update names its ReturnValues.
    """
    groups: dict[tuple[Item, str | None], set[str]] = defaultdict(set)
    for operation in operations:
        returns = None if operation.transactional else operation.returns.value
        groups[operation.item, returns] |= operation.attributes
    for (item, returns), attributes in groups.items():
        conditions = _conditions(attributes, LEADING_KEYS[item])
        if returns is None:
            suffix = "InTransaction"
            conditions["StringEquals"] = {"dynamodb:EnclosingOperation": "TransactWriteItems"}
        else:
            suffix = "" if returns == "NONE" else "Returning"
            conditions["StringEquals"] = {"dynamodb:ReturnValues": returns}
        yield Statement(
            f"Update{_title(item)}{suffix}",
            ["dynamodb:UpdateItem"],
            [arns[_table_of(item)]],
            conditions,
        )


def _get_statements(gets: Iterable[Get], arns: Mapping[Table, str]) -> Iterator[Statement]:
    groups: dict[Item, set[str]] = defaultdict(set)
    for get in gets:
        groups[get.item] |= set(get.attributes)
    for item, attributes in groups.items():
        conditions = _conditions(attributes, LEADING_KEYS[item])
        # A single read may come without Select, but never with one that asks for everything.
        conditions["StringEqualsIfExists"] = {"dynamodb:Select": "SPECIFIC_ATTRIBUTES"}
        yield Statement(
            f"Get{_title(item)}",
            ["dynamodb:GetItem", "dynamodb:BatchGetItem"],
            [arns[_table_of(item)]],
            conditions,
        )


def _query_statements(queries: Iterable[Query], arns: Mapping[Table, str]) -> Iterator[Statement]:
    groups: dict[tuple[Item, Index | None], set[str]] = defaultdict(set)
    for query in queries:
        groups[query.item, query.index] |= set(query.attributes)
    for (item, index), attributes in groups.items():
        if index is None:
            name, arn, leading = "", arns[_table_of(item)], LEADING_KEYS[item]
        else:
            name = "By" + "".join(part.capitalize() for part in index.name.split("_"))
            arn = f"{arns[index.table]}/index/{index.name}"
            leading = INDEX_LEADING_KEYS.get(index, "*")
        conditions = _conditions(attributes, leading)
        conditions["StringEquals"] = {"dynamodb:Select": "SPECIFIC_ATTRIBUTES"}
        yield Statement(f"Query{_title(item)}{name}", ["dynamodb:Query"], [arn], conditions)


def _conditions(attributes: Iterable[str], leading: str) -> Conditions:
    """Limit a request to these attributes and partition keys.

    `ForAllValues` also holds for a request that names none at all, hence `Null`.
    """
    return {
        "ForAllValues:StringEquals": {
            "dynamodb:Attributes": sorted({*KEY_ATTRIBUTES, *attributes}),
        },
        "ForAllValues:StringLike": {"dynamodb:LeadingKeys": [leading]},
        "Null": {"dynamodb:Attributes": "false", "dynamodb:LeadingKeys": "false"},
    }


def _table_of(item: Item) -> Table:
    return Table.WORKFLOWS if item is Item.WORKFLOW else Table.EXECUTIONS


def _title(item: Item) -> str:
    return item.value.capitalize()
