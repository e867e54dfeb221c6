"""What only the DynamoDB store does: what it sends, how it pages, what it makes of failures."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest
from botocore.config import Config

from local.tables import TableNames
from piton.domain.errors import Bug, Retry
from piton.domain.rows import Value
from piton.ports import Applied, Refused
from piton.storage import keys
from piton.storage import operations as op
from piton.storage.algebra import Table
from piton.storage.dynamodb import DynamoStore
from piton.storage.views import KEY_ATTRIBUTES, NodeView
from tests.support.emulator import CLIENT_CONFIG, Clients
from tests.support.lossy import LossyWay
from tests.support.store import LOG, NOW, creation, make_ref, sample_args

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

REF: Final = make_ref()
QUEUE: Final[dict[str, Value]] = {
    "node_id": "n",
    "expires_at": 1,
    "pool": "default",
    "scope": "s",
    "now": NOW,
    "log": LOG,
}


def client_at(clients: Clients, endpoint_url: str, **config: Any) -> "DynamoDBClient":
    return clients.session.client(
        "dynamodb", endpoint_url=endpoint_url, config=CLIENT_CONFIG.merge(Config(**config))
    )


@pytest.fixture
def client(aws: Clients) -> "DynamoDBClient":
    """A client of this test alone, so that what is hooked to it stays here."""
    return client_at(aws, aws.endpoint_url)


def fill(store: DynamoStore, count: int, note: str = "") -> None:
    for ordinal in range(count):
        args = {**QUEUE, "node_id": f"n{ordinal}"}
        assert store.apply(op.QUEUE_ROOT, keys.node(REF, ordinal), args) == Applied()
        claim = {**sample_args(op.CLAIM), "fence": 1}
        assert store.apply(op.CLAIM, keys.node(REF, ordinal), claim) == Applied()
        result = {**sample_args(op.COMPLETE), "fence": 1, "result": note}
        assert store.apply(op.COMPLETE, keys.node(REF, ordinal), result) == Applied()


# --- What is sent --------------------------------------------------------------------------


def test_every_request_is_guarded_or_projected(
    client: "DynamoDBClient", tables: TableNames
) -> None:
    sent: list[tuple[str, dict[str, Any]]] = []

    def record(params: dict[str, Any], model: Any, **_: object) -> None:
        sent.append((model.name, params))

    client.meta.events.register("provide-client-params.dynamodb", record)
    store = DynamoStore(client, tables)
    store.transact([creation(REF)])
    fill(store, 2)
    store.get_execution(REF)
    store.get_nodes(REF, [0])
    store.get_nodes(REF, [0, 1])
    store.query_nodes(REF)
    list(store.due(NOW, 10))
    store.list_executions("acme", status="pending", workflow_id=None, limit=5, token=None)
    store.list_workflows("acme", limit=5, token=None)
    store.latest_workflow("acme", "w", ("wf_hash",))

    for action, params in sent:
        match action:
            case "UpdateItem":
                assert params["ConditionExpression"]
                assert params["ReturnValues"] in ("NONE", "UPDATED_NEW")
            case "TransactWriteItems":
                assert len(params["ClientRequestToken"]) <= 36
                for item in params["TransactItems"]:
                    assert item.keys() == {"Update"}
                    assert item["Update"]["ConditionExpression"]
            case "GetItem":
                assert params["ConsistentRead"]
                assert params["ProjectionExpression"]
            case "BatchGetItem":
                for request in params["RequestItems"].values():
                    assert request["ConsistentRead"]
                    assert request["ProjectionExpression"]
            case "Query":
                assert params["Select"] == "SPECIFIC_ATTRIBUTES"
                assert params["ProjectionExpression"]
                assert params["ConsistentRead"] is ("IndexName" not in params)
            case _:
                pytest.fail(f"{action} is none of the store's requests")
    assert {action for action, _ in sent} == {
        "UpdateItem",
        "TransactWriteItems",
        "GetItem",
        "BatchGetItem",
        "Query",
    }


def test_no_attribute_beyond_the_view_is_asked_for(
    client: "DynamoDBClient", tables: TableNames
) -> None:
    asked: list[str] = []

    def record(params: dict[str, Any], **_: object) -> None:
        asked.append(params["ProjectionExpression"])

    client.meta.events.register("provide-client-params.dynamodb.Query", record)
    store = DynamoStore(client, tables)
    for view in NodeView:
        store.query_nodes(REF, view)
    assert [set(names.split(", ")) for names in asked] == [set(view.value) for view in NodeView]
    assert all(set(KEY_ATTRIBUTES) <= set(names.split(", ")) for names in asked)


# --- Paging --------------------------------------------------------------------------------


def test_case_34_rows_beyond_one_megabyte_are_all_read(
    client: "DynamoDBClient", tables: TableNames
) -> None:
    requests: list[str] = []
    client.meta.events.register(
        "provide-client-params.dynamodb.Query", lambda **_: requests.append("Query")
    )
    store = DynamoStore(client, tables)
    fill(store, 300, note="x" * 8000)
    rows = store.query_nodes(REF, NodeView.RESULT)
    assert [row.ordinal for row in rows] == list(range(300))
    assert len(requests) > 2
    assert all(row.result == "x" * 8000 for row in rows)
    assert len(store.get_nodes(REF, range(300))) == 300


def test_a_limit_ends_the_reading(client: "DynamoDBClient", tables: TableNames) -> None:
    requests: list[int] = []

    def record(params: dict[str, Any], **_: object) -> None:
        requests.append(params["Limit"])

    client.meta.events.register("provide-client-params.dynamodb.Query", record)
    store = DynamoStore(client, tables)
    fill(store, 5)
    assert [row.ordinal for row in store.query_nodes(REF, limit=2)] == [0, 1]
    assert requests == [2]


def test_a_filter_that_matches_little_is_given_up_for_this_page(
    client: "DynamoDBClient", tables: TableNames, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("piton.storage.dynamodb._FILTERED_PAGE", 2)
    monkeypatch.setattr("piton.storage.dynamodb._MAX_PAGES", 3)
    store = DynamoStore(client, tables)
    for number in range(15):
        ref = make_ref(execution_id=f"E{number:02d}")
        store.transact([creation(ref, workflow_id="rare" if number in (0, 8) else "w")])
    seen: list[list[str]] = []
    token: str | None = None
    while True:
        page = store.list_executions("acme", status=None, workflow_id="rare", limit=5, token=token)
        seen.append(list(page.items))
        token = page.next_token
        if token is None:
            break
    assert seen == [[], ["E08"], ["E00"]]


def leave_unprocessed(client: "DynamoDBClient", kept: Iterator[int]) -> None:
    """Make the table answer only so many keys of each batch, as a throttled one does."""

    def shorten(parsed: dict[str, Any], **_: object) -> None:
        [(table, items)] = parsed["Responses"].items()
        number = next(kept)
        left = [{name: item[name] for name in KEY_ATTRIBUTES} for item in items[number:]]
        parsed["Responses"][table] = items[:number]
        parsed["UnprocessedKeys"] = {table: {"Keys": left}} if left else {}

    client.meta.events.register("after-call.dynamodb.BatchGetItem", shorten)


def test_keys_that_were_left_unprocessed_are_asked_for_again(
    client: "DynamoDBClient", tables: TableNames
) -> None:
    pauses: list[float] = []
    store = DynamoStore(client, tables, pause=pauses.append)
    fill(store, 9)
    leave_unprocessed(client, iter([4, 0, 0, 3, 2]))
    assert sorted(store.get_nodes(REF, range(9))) == list(range(9))
    assert pauses == [0.025, 0.05, 0.1, 0.025]


def test_keys_that_stay_unprocessed_end_in_a_retry(
    client: "DynamoDBClient", tables: TableNames
) -> None:
    pauses: list[float] = []
    store = DynamoStore(client, tables, pause=pauses.append)
    fill(store, 2)
    leave_unprocessed(client, iter([1, *[0] * 100]))
    with pytest.raises(Retry):
        store.get_nodes(REF, range(2))
    assert len(pauses) == 6


# --- Lost answers --------------------------------------------------------------------------


@pytest.fixture
def way(aws: Clients) -> Iterator[LossyWay]:
    with LossyWay(aws.endpoint_url).open() as way:
        yield way


def test_a_write_whose_answer_is_lost_asks_for_a_retry(
    aws: Clients, tables: TableNames, way: LossyWay, dynamo: DynamoStore
) -> None:
    store = DynamoStore(client_at(aws, way.endpoint_url), tables)
    way.lose(1)
    with pytest.raises(Retry, match=r"node\.queue_root"):
        store.apply(op.QUEUE_ROOT, keys.node(REF, 0), QUEUE)
    assert len(dynamo.query_nodes(REF)) == 1


def test_a_repeated_write_is_refused_by_its_own_success(
    aws: Clients, tables: TableNames, way: LossyWay, dynamo: DynamoStore
) -> None:
    retries = {"mode": "standard", "total_max_attempts": 3}
    store = DynamoStore(client_at(aws, way.endpoint_url, retries=retries), tables)
    way.lose(1)
    assert store.apply(op.QUEUE_ROOT, keys.node(REF, 0), QUEUE) == Refused()
    assert way.requests == 2
    assert len(dynamo.query_nodes(REF)) == 1


def test_a_repeated_transaction_is_known_by_its_token(
    aws: Clients, tables: TableNames, way: LossyWay, dynamo: DynamoStore
) -> None:
    retries = {"mode": "standard", "total_max_attempts": 3}
    store = DynamoStore(client_at(aws, way.endpoint_url, retries=retries), tables)
    way.lose(1)
    assert store.transact([creation(REF)]) == Applied()
    assert way.requests == 2
    row = dynamo.get_execution(REF)
    assert row is not None
    assert store.transact([creation(REF)]) == Refused()


def test_a_transaction_whose_answers_are_all_lost_asks_for_a_retry(
    aws: Clients, tables: TableNames, way: LossyWay, dynamo: DynamoStore
) -> None:
    store = DynamoStore(client_at(aws, way.endpoint_url), tables)
    way.lose(1)
    with pytest.raises(Retry):
        store.transact([creation(REF)])
    assert dynamo.get_execution(REF) is not None


def test_reads_whose_answer_is_lost_ask_for_a_retry(
    aws: Clients, tables: TableNames, way: LossyWay
) -> None:
    store = DynamoStore(client_at(aws, way.endpoint_url), tables)
    way.lose(4)
    for read in (
        lambda: store.get_execution(REF),
        lambda: store.get_nodes(REF, [1, 2]),
        lambda: store.query_nodes(REF),
        lambda: list(store.due(NOW, 1)),
    ):
        with pytest.raises(Retry):
            read()


def test_a_missing_table_is_a_bug(client: "DynamoDBClient", tables: TableNames) -> None:
    store = DynamoStore(client, {**tables, Table.EXECUTIONS: "never-created"})
    with pytest.raises(Bug, match="ResourceNotFoundException"):
        store.get_execution(REF)
    with pytest.raises(Bug, match=r"node\.queue_root"):
        store.apply(op.QUEUE_ROOT, keys.node(REF, 0), QUEUE)


# --- Consumed capacity ---------------------------------------------------------------------


def test_consumed_capacity_is_told_when_somebody_listens(
    client: "DynamoDBClient", tables: TableNames
) -> None:
    heard: list[tuple[str, float, set[str]]] = []

    def listen(action: str, charge: Any) -> None:
        indexes = charge.get("GlobalSecondaryIndexes", {})
        heard.append((action, charge["CapacityUnits"], set(indexes)))

    store = DynamoStore(client, tables, on_capacity=listen)
    store.transact([creation(REF)])
    store.apply(op.QUEUE_ROOT, keys.node(REF, 0), QUEUE)
    store.apply(op.QUEUE_ROOT, keys.node(REF, 0), QUEUE)
    store.get_execution(REF)
    assert heard == [
        ("TransactWriteItems", 4.0, {"due", "by_tenant"}),
        ("UpdateItem", 1.0, set()),
        ("GetItem", 1.0, set()),
    ]
