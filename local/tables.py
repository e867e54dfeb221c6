"""Tables and bucket as the stacks make them, created directly: a store alone needs no CDK."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

from piton.storage.algebra import Table
from piton.storage.keys import INDEXES, Index

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import (
        AttributeDefinitionTypeDef,
        CreateTableInputTypeDef,
        GlobalSecondaryIndexTypeDef,
    )
    from mypy_boto3_s3 import S3Client

TableNames = Mapping[Table, str]


def create_tables(client: DynamoDBClient) -> TableNames:
    """Create every table under a fresh name; `executions` gets its change stream."""
    suffix = uuid.uuid4().hex[:12]
    names = {table: f"{table.value}-{suffix}" for table in Table}
    for table, name in names.items():
        client.create_table(**_description(table, name))
    return names


def delete_tables(client: DynamoDBClient, names: TableNames) -> None:
    """Delete what `create_tables` made."""
    for name in names.values():
        client.delete_table(TableName=name)


def create_bucket(client: S3Client) -> str:
    """Create a bucket under a fresh name."""
    name = f"payloads-{uuid.uuid4().hex[:12]}"
    client.create_bucket(Bucket=name)
    return name


def _description(table: Table, name: str) -> CreateTableInputTypeDef:
    indexes = [index for index in INDEXES if index.table is table]
    types = {"pk": "S", "sk": "S"}
    for index in indexes:
        types |= {index.partition: "S", index.sort: "N" if index.sort_is_number else "S"}
    description: CreateTableInputTypeDef = {
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": [
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ],
        "AttributeDefinitions": [_attribute(*item) for item in types.items()],
    }
    if indexes:
        description["GlobalSecondaryIndexes"] = [_index(index) for index in indexes]
    if table is Table.EXECUTIONS:
        description["StreamSpecification"] = {
            "StreamEnabled": True,
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        }
    return description


def _attribute(name: str, kind: str) -> AttributeDefinitionTypeDef:
    return {"AttributeName": name, "AttributeType": "N" if kind == "N" else "S"}


def _index(index: Index) -> GlobalSecondaryIndexTypeDef:
    return {
        "IndexName": index.name,
        "KeySchema": [
            {"AttributeName": index.partition, "KeyType": "HASH"},
            {"AttributeName": index.sort, "KeyType": "RANGE"},
        ],
        "Projection": (
            {"ProjectionType": "INCLUDE", "NonKeyAttributes": list(index.projected)}
            if index.projected
            else {"ProjectionType": "KEYS_ONLY"}
        ),
    }
