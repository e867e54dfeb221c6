"""The whole way in, in this process: HTTP, a real user pool, the schema, the handlers, rows."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from handlers import commands, queries
from handlers.graphql import QueryRefused
from local.appsync import AppSync, FunctionFailed
from local.emulator import REGION
from local.front import SCHEMA, Front
from local.target import Target
from local.tokens import TokenVerifier
from local.wiring import Wiring
from piton.services.caller import Group
from tests.support.api import ApiUnderTest
from tests.support.emulator import Clients

PASSWORD: Final = "Correct-Horse-9-Battery"


@dataclass(frozen=True)
class UserPool:
    """A pool as the stacks make it, without the stacks."""

    id: str
    client_id: str

    @classmethod
    def create(cls, aws: Clients) -> "UserPool":
        pool = aws.cognito.create_user_pool(
            PoolName=f"users-{secrets.token_hex(4)}",
            Schema=[
                {
                    "Name": "tenant",
                    "AttributeDataType": "String",
                    "Mutable": False,
                    "StringAttributeConstraints": {"MinLength": "2", "MaxLength": "33"},
                }
            ],
        )["UserPool"]["Id"]
        client = aws.cognito.create_user_pool_client(
            UserPoolId=pool, ClientName="cli", ExplicitAuthFlows=["ALLOW_USER_PASSWORD_AUTH"]
        )["UserPoolClient"]["ClientId"]
        for group in Group:
            aws.cognito.create_group(UserPoolId=pool, GroupName=group.value)
        return cls(pool, client)


@contextmanager
def open_front(api: ApiUnderTest, aws: Clients, pool: UserPool) -> Iterator[Target]:
    """Serve `api` to users of `pool`."""

    def invoke(function: str, event: dict[str, Any]) -> Any:
        del function
        try:
            return api.call(event)
        except QueryRefused as error:
            raise FunctionFailed(str(error)) from error

    wired = dict.fromkeys([*commands.fields.resolvers, *queries.fields.resolvers], "function")
    verifier = TokenVerifier.of_pool(aws.endpoint_url, REGION, pool.id, pool.client_id)
    with Front(AppSync(SCHEMA.read_text(), Wiring(wired, 8, 50), invoke), verifier) as front:
        yield Target(front.url, pool.id, pool.client_id, REGION, aws.endpoint_url)
