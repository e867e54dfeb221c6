"""Stores over tables of their own, so that tests share nothing but the server."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from local.tables import TableNames, create_bucket, create_tables, delete_tables
from piton.adapters.blobs import S3Blobs
from piton.ports import BlobStore, Store
from piton.storage.dynamodb import DynamoStore
from piton.storage.sqlite import SqliteStore
from piton.storage.sqlite_blobs import SqliteBlobs
from tests.support.emulator import Clients

STORES: Final = ("dynamodb", "sqlite", "sqlite_group_commits")


@pytest.fixture
def tables(aws: Clients) -> Iterator[TableNames]:
    names = create_tables(aws.dynamodb)
    yield names
    delete_tables(aws.dynamodb, names)


@pytest.fixture
def dynamo(aws: Clients, tables: TableNames) -> DynamoStore:
    return DynamoStore(aws.dynamodb, tables)


@pytest.fixture(scope="session")
def bucket(aws: Clients) -> str:
    return create_bucket(aws.s3)


@contextmanager
def sqlite(*, group_commits: bool = False) -> Iterator[SqliteStore]:
    store = SqliteStore(group_commits=group_commits)
    try:
        yield store
    finally:
        store.close()


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """Each store in turn: what is tested with it holds for all of them."""
    if request.param == "dynamodb":
        yield request.getfixturevalue("dynamo")
    else:
        with sqlite(group_commits=request.param == "sqlite_group_commits") as embedded:
            yield embedded


@pytest.fixture
def blobs(request: pytest.FixtureRequest, store: Store) -> BlobStore:
    """The blob store of the same host as `store`."""
    if isinstance(store, SqliteStore):
        return SqliteBlobs(store.database)
    aws: Clients = request.getfixturevalue("aws")
    return S3Blobs(aws.s3, request.getfixturevalue("bucket"))
