"""One embedded AWS per test process, and typed clients of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.config import Config

from local.emulator import REGION, Emulator

if TYPE_CHECKING:
    from mypy_boto3_cognito_idp import CognitoIdentityProviderClient
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodbstreams import DynamoDBStreamsClient
    from mypy_boto3_events import EventBridgeClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient


# Retries would hide a lost or repeated call, and proxies of the machine have no business here.
CLIENT_CONFIG = Config(
    retries={"mode": "standard", "total_max_attempts": 1},
    connect_timeout=5,
    read_timeout=30,
    max_pool_connections=32,
    proxies={},
)


@dataclass(frozen=True)
class Clients:
    """Clients of the AWS at `endpoint_url`, each made on first use. Threads may share them."""

    endpoint_url: str

    @cached_property
    def session(self) -> boto3.Session:
        return boto3.Session(
            aws_access_key_id="test", aws_secret_access_key="test", region_name=REGION
        )

    @cached_property
    def cognito(self) -> "CognitoIdentityProviderClient":
        return self.session.client(
            "cognito-idp", endpoint_url=self.endpoint_url, config=CLIENT_CONFIG
        )

    @cached_property
    def dynamodb(self) -> "DynamoDBClient":
        return self.session.client("dynamodb", endpoint_url=self.endpoint_url, config=CLIENT_CONFIG)

    @cached_property
    def events(self) -> "EventBridgeClient":
        return self.session.client("events", endpoint_url=self.endpoint_url, config=CLIENT_CONFIG)

    @cached_property
    def functions(self) -> "LambdaClient":
        return self.session.client("lambda", endpoint_url=self.endpoint_url, config=CLIENT_CONFIG)

    @cached_property
    def s3(self) -> "S3Client":
        return self.session.client("s3", endpoint_url=self.endpoint_url, config=CLIENT_CONFIG)

    @cached_property
    def sqs(self) -> "SQSClient":
        return self.session.client("sqs", endpoint_url=self.endpoint_url, config=CLIENT_CONFIG)

    @cached_property
    def streams(self) -> "DynamoDBStreamsClient":
        return self.session.client(
            "dynamodbstreams", endpoint_url=self.endpoint_url, config=CLIENT_CONFIG
        )


@pytest.fixture(scope="session")
def emulator() -> Iterator[Emulator]:
    """The embedded AWS of this test process; tests keep apart by the names they choose."""
    with Emulator() as running:
        yield running


@pytest.fixture(scope="session")
def aws(emulator: Emulator) -> Clients:
    return Clients(emulator.endpoint_url)
