"""What each AWS error means to the engine."""

import socket
from typing import Any

import pytest
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
    ReadTimeoutError,
)

from piton.adapters.aws_errors import ConditionFailed, translated
from piton.adapters.blobs import S3Blobs
from piton.domain.errors import Bug, Retry
from piton.ports import BlobStore
from piton.storage.algebra import Table
from piton.storage.dynamodb import DynamoStore
from tests.support.emulator import Clients
from tests.support.store import make_ref


def client_error(code: str, status: int = 400, *reasons: str) -> ClientError:
    response: Any = {
        "Error": {"Code": code, "Message": "told by the service"},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    if reasons:
        response["CancellationReasons"] = [{"Code": reason} for reason in reasons]
    return ClientError(response, "UpdateItem")


CANCELED = "TransactionCanceledException"


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (client_error("ConditionalCheckFailedException"), ConditionFailed),
        (client_error(CANCELED, 400, "None", "ConditionalCheckFailed"), ConditionFailed),
        (client_error(CANCELED, 400, "ConditionalCheckFailed", "None"), ConditionFailed),
        (client_error(CANCELED, 400, "TransactionConflict", "None"), Retry),
        (client_error(CANCELED, 400, "ConditionalCheckFailed", "TransactionConflict"), Retry),
        (client_error(CANCELED, 400, "ThrottlingError"), Retry),
        (client_error(CANCELED, 400, "ProvisionedThroughputExceeded"), Retry),
        (client_error(CANCELED, 400, "ValidationError", "None"), Bug),
        (client_error(CANCELED, 400, "ConditionalCheckFailed", "ValidationError"), Bug),
        (client_error(CANCELED, 400, "ItemCollectionSizeLimitExceeded"), Bug),
        (client_error(CANCELED), Bug),
        (client_error("TransactionConflictException"), Retry),
        (client_error("TransactionInProgressException"), Retry),
        (client_error("ProvisionedThroughputExceededException"), Retry),
        (client_error("ThrottlingException"), Retry),
        (client_error("RequestLimitExceeded"), Retry),
        (client_error("ExpiredTokenException"), Retry),
        (client_error("SlowDown", 503), Retry),
        (client_error("InternalServerError", 500), Retry),
        (client_error("SomethingNew", 502), Retry),
        (client_error("SomethingNew", 429), Retry),
        (client_error("ValidationException"), Bug),
        (client_error("AccessDeniedException"), Bug),
        (client_error("ResourceNotFoundException"), Bug),
        (client_error("IdempotentParameterMismatchException"), Bug),
        (client_error("SomethingNew"), Bug),
        (ConnectTimeoutError(endpoint_url="x"), Retry),
        (ReadTimeoutError(endpoint_url="x"), Retry),
        (ConnectionClosedError(endpoint_url="x"), Retry),
        (EndpointConnectionError(endpoint_url="x"), Retry),
        (CredentialRetrievalError(provider="x", error_msg="y"), Retry),
        (NoCredentialsError(), Bug),
        (ParamValidationError(report="x"), Bug),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else str(value)[:60],
)
def test_meanings(error: ClientError | BotoCoreError, meaning: type[Exception]) -> None:
    with pytest.raises(meaning, match=r"node\.claim") as raised, translated("node.claim"):
        raise error
    assert type(raised.value) is meaning
    assert raised.value.__cause__ is error


def test_other_errors_pass_through() -> None:
    with pytest.raises(KeyError), translated("x"):
        raise KeyError


def test_nobody_listening_asks_for_a_retry() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    nowhere = Clients(f"http://127.0.0.1:{port}")
    store = DynamoStore(nowhere.dynamodb, dict.fromkeys(Table, "table"))
    blobs: BlobStore = S3Blobs(nowhere.s3, "bucket")
    for call in (
        lambda: store.get_execution(make_ref()),
        lambda: blobs.get("x"),
        lambda: blobs.put("x", b""),
    ):
        with pytest.raises(Retry):
            call()
