"""The local front over HTTP: who gets in, and what is answered to what."""

import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from local.client import Api, ApiRejected, ApiUnreachable
from local.front import MAX_BODY
from local.target import Target
from local.users import Users
from piton.domain.names import Tenant
from piton.services.caller import Group
from tests.support.api import ApiUnderTest
from tests.support.emulator import Clients
from tests.support.front import PASSWORD, UserPool, open_front
from tests.support.story import DIAMOND


@pytest.fixture(scope="module")
def pool(aws: Clients) -> UserPool:
    return UserPool.create(aws)


@pytest.fixture(scope="module")
def tokens(aws: Clients, pool: UserPool) -> dict[str, str]:
    """ID tokens by name."""
    users = Users(Target("", pool.id, pool.client_id, "us-east-1", aws.endpoint_url))
    people = {
        "olga": ("acme", [Group.OPERATORS]),
        "victor": ("acme", [Group.VIEWERS]),
        "gus": ("globex", [Group.OPERATORS]),
    }
    for name, (tenant, groups) in people.items():
        users.create(name, Tenant(tenant), groups, PASSWORD)
    return {name: users.sign_in(name, PASSWORD) for name in people}


@pytest.fixture
def front(api: ApiUnderTest, aws: Clients, pool: UserPool) -> Iterator[Target]:
    with open_front(api, aws, pool) as target:
        yield target


def post(
    target: Target, body: bytes, *, path: str = "/graphql", **headers: str
) -> tuple[int, dict[str, Any]]:
    address = urlsplit(target.api_url)
    connection = http.client.HTTPConnection(address.netloc, timeout=30)
    try:
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        return answer.status, json.load(answer)
    finally:
        connection.close()


QUERY = json.dumps({"query": '{ getExecution(id: "x") { id } }'}).encode()


def test_an_execution_from_registration_to_its_picture(
    front: Target, tokens: dict[str, str]
) -> None:
    olga, victor = Api(front.api_url, tokens["olga"]), Api(front.api_url, tokens["victor"])
    assert olga.register(DIAMOND)["nodeCount"] == 4
    started = olga.start({"workflow": "diamond", "input": {"n": 1.5, "text": "é"}})
    execution_id = started["execution"]["id"]
    seen = victor.execution(execution_id, payloads=True)
    assert seen is not None
    assert (seen["status"], seen["input"]) == ("PENDING", {"n": 1.5, "text": "é"})
    assert [node["id"] for node in victor.nodes(execution_id)] == ["top", "left", "right", "bottom"]
    assert [entry["transition"] for entry in victor.history(execution_id)] == ["E1"]
    assert olga.cancel(execution_id, "done with it")["note"] == "done with it"


def test_a_viewer_changes_nothing(front: Target, tokens: dict[str, str]) -> None:
    with pytest.raises(ApiRejected) as caught:
        Api(front.api_url, tokens["victor"]).start({"workflow": "invoices"})
    assert caught.value.code == "FORBIDDEN"


def test_another_tenant_sees_nothing(front: Target, tokens: dict[str, str]) -> None:
    mine = Api(front.api_url, tokens["olga"]).start({"workflow": "invoices"})["execution"]["id"]
    gus = Api(front.api_url, tokens["gus"])
    assert gus.execution(mine) is None
    assert gus.nodes(mine) == []
    with pytest.raises(ApiRejected) as caught:
        gus.cancel(mine)
    assert caught.value.code == "EXECUTION_NOT_FOUND"


def test_a_refused_query_has_a_code(front: Target, tokens: dict[str, str]) -> None:
    with pytest.raises(ApiRejected) as caught:
        Api(front.api_url, tokens["olga"]).execute(
            "{ listExecutions(limit: 0) { items { id } } }", {}
        )
    assert (caught.value.code, caught.value.message) == (
        "INVALID_INPUT",
        "limit must be between 1 and 100",
    )


def test_a_token_may_be_called_a_bearer_token(front: Target, tokens: dict[str, str]) -> None:
    status, answer = post(front, QUERY, Authorization=f"Bearer {tokens['olga']}")
    assert (status, answer) == (200, {"data": {"getExecution": None}})


@pytest.mark.parametrize("token", ["", "x", "Bearer ", "a.b.c"])
def test_nobody_gets_in_without_a_token(front: Target, token: str) -> None:
    status, answer = post(front, QUERY, Authorization=token)
    assert status == 401
    assert answer["errors"][0]["errorType"] == "UnauthorizedException"
    assert "data" not in answer


def test_an_access_token_does_not_get_in(
    front: Target, tokens: dict[str, str], aws: Clients
) -> None:
    del tokens
    result = aws.cognito.initiate_auth(
        ClientId=front.client_id,
        AuthFlow="USER_PASSWORD_AUTH",
        AuthParameters={"USERNAME": "olga", "PASSWORD": PASSWORD},
    )["AuthenticationResult"]
    assert post(front, QUERY, Authorization=result["AccessToken"])[0] == 401
    assert post(front, QUERY, Authorization=result["IdToken"])[0] == 200


def test_a_token_of_another_pool_does_not_get_in(
    front: Target, aws: Clients, pool: UserPool
) -> None:
    del pool
    other = UserPool.create(aws)
    users = Users(Target("", other.id, other.client_id, "us-east-1", aws.endpoint_url))
    users.create("olga", Tenant("acme"), [Group.OPERATORS], PASSWORD)
    foreign = users.sign_in("olga", PASSWORD)
    assert post(front, QUERY, Authorization=foreign)[0] == 401


@pytest.mark.parametrize(
    ("body", "path", "status"),
    [
        (b"", "/graphql", 400),
        (b"[", "/graphql", 400),
        (b"[]", "/graphql", 400),
        (b'{"query": 7}', "/graphql", 400),
        (b'{"query": "{x}", "variables": []}', "/graphql", 200),
        (b'{"query": "{x}", "variables": "v"}', "/graphql", 400),
        (b'{"query": "{x}", "operationName": 7}', "/graphql", 400),
        (b"[" * 100_000, "/graphql", 400),
        (QUERY, "/other", 404),
        (b" " * (MAX_BODY + 1), "/graphql", 413),
    ],
)
def test_a_faulty_request_has_a_status(
    front: Target, tokens: dict[str, str], body: bytes, path: str, status: int
) -> None:
    answered, answer = post(front, body, path=path, Authorization=tokens["olga"])
    assert answered == status
    assert answer["errors"]


def test_a_page_under_another_name_does_not_get_in(front: Target, tokens: dict[str, str]) -> None:
    status, _ = post(front, QUERY, Authorization=tokens["olga"], Host="evil.example:80")
    assert status == 403


def test_a_connection_serves_many_requests(front: Target, tokens: dict[str, str]) -> None:
    connection = http.client.HTTPConnection(urlsplit(front.api_url).netloc, timeout=30)
    try:
        for token, status in ((tokens["olga"], 200), ("", 401), (tokens["olga"], 200)):
            connection.request("POST", "/graphql", QUERY, {"Authorization": token})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == status
    finally:
        connection.close()


def test_it_listens_on_loopback_only(front: Target) -> None:
    assert urlsplit(front.api_url).hostname == "127.0.0.1"


def test_a_front_that_is_gone_is_unreachable(
    api: ApiUnderTest, aws: Clients, pool: UserPool, tokens: dict[str, str]
) -> None:
    with open_front(api, aws, pool) as target:
        pass
    with pytest.raises(ApiUnreachable):
        Api(target.api_url, tokens["olga"]).execution("x")
