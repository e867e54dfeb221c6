"""The same API on DynamoDB and S3 as the emulator has them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from local.tables import create_bucket, create_tables, delete_tables
from piton.adapters.blobs import S3Blobs
from piton.contracts import StartExecutionInput
from piton.domain.names import Tenant
from piton.services.caller import Caller, Group
from piton.storage.dynamodb import DynamoStore
from tests.support.api import ApiUnderTest, error_of, recorded, with_claims
from tests.support.emulator import Clients
from tests.support.story import TOP, Story, asking

OLGA = Caller(Tenant("acme"), "olga", frozenset({Group.OPERATORS}))


@pytest.fixture
def api(aws: Clients) -> Iterator[ApiUnderTest]:
    names = create_tables(aws.dynamodb)
    store = DynamoStore(aws.dynamodb, names)
    under_test = ApiUnderTest(store, store, S3Blobs(aws.s3, create_bucket(aws.s3)))
    under_test.register()
    yield under_test
    delete_tables(aws.dynamodb, names)


def test_a_start_a_repetition_and_a_conflict(api: ApiUnderTest) -> None:
    event = recorded("start_execution")
    event["arguments"]["input"]["input"] = {"text": "x" * api.settings.inline_bytes}
    first = api.call(event)
    again = api.call(event)
    assert (first["created"], again["created"]) == (True, False)
    assert again["execution"] == first["execution"]
    content = api.call(asking("execution_input", first["execution"]["id"]))
    assert content == event["arguments"]["input"]["input"]
    event["arguments"]["input"]["input"] = {}
    assert error_of(api.call(event))[0] == "IDEMPOTENCY_CONFLICT"
    listed = api.call(asking("list_executions"))["items"]
    assert [each["id"] for each in listed] == [first["execution"]["id"]]


def test_any_number_at_once_start_one(api: ApiUnderTest) -> None:
    asked = StartExecutionInput.model_validate(recorded("start_execution")["arguments"]["input"])
    with ThreadPoolExecutor(8) as pool:
        started = list(pool.map(lambda _: api.commands.start_execution(OLGA, asked), range(16)))
    assert sum(each.created for each in started) == 1
    assert len({each.execution.ref for each in started}) == 1


def test_a_story_is_read_back(api: ApiUnderTest) -> None:
    story = Story(api)
    story.queue(TOP, "top")
    story.claim(TOP)
    story.retry(TOP, 1)
    story.claim(TOP, 2)
    story.complete(TOP, 2, {"sum": 2.5})
    first = api.call(asking("execution_nodes", story.id, limit=3))
    assert [node["status"] for node in first["items"]] == ["COMPLETED", "PENDING", "PENDING"]
    assert [each["outcome"] for each in first["items"][TOP]["attempts"]] == [
        "RETRIED",
        "COMPLETED",
    ]
    rest = api.call(asking("execution_nodes", story.id, nextToken=first["nextToken"]))
    assert [node["id"] for node in rest["items"]] == ["bottom"]
    history = api.call(asking("execution_history", story.id))["items"]
    assert [entry["transition"] for entry in history] == ["E1", "E2", "N1", "N4", "N7", "N4", "N6"]


def test_resume_and_cancel(api: ApiUnderTest) -> None:
    story = Story(api)
    event = recorded("resume_execution")
    event["arguments"]["executionId"] = story.id
    assert api.call(event)["execution"]["resumes"] == 1
    foreign = with_claims(event, tenant="globex")
    assert error_of(api.call(foreign))[0] == "EXECUTION_NOT_FOUND"
    cancel = recorded("cancel_execution")
    cancel["arguments"]["executionId"] = story.id
    assert api.call(cancel)["execution"]["status"] == "CANCELLED"
    assert api.call(cancel)["execution"]["note"] == "sent twice"
    assert error_of(api.call(event))[0] == "EXECUTION_ENDED"


def test_workflows_are_listed(api: ApiUnderTest) -> None:
    api.register(definition="id: another\nnodes: [{id: a, task: t}]")
    api.register(definition="id: another\nnodes: [{id: b, task: t}]")
    assert api.call(asking("list_workflows"))["items"] == [
        {"id": "another", "version": 2},
        {"id": "invoices", "version": 1},
    ]
