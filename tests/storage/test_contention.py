"""Many processes, one row: exactly one of them wins, and only because of the guard."""

from collections.abc import Iterator
from typing import Final

import pytest

from local.tables import TableNames
from piton.domain.names import Tenant
from piton.domain.rows import NodeRow, Value
from piton.ports import Applied, Write
from piton.storage import keys
from piton.storage import operations as op
from piton.storage.algebra import NotExists, Operation
from piton.storage.dynamodb import DynamoStore
from piton.storage.views import NodeView
from tests.support.emulator import Clients
from tests.support.race import CALLERS, Attempt, Race, start_line
from tests.support.store import LOG, NOW, creation, make_ref, sample_args

KEYS: Final = 40
REF: Final = make_ref()
QUEUE: Final[dict[str, Value]] = {
    "node_id": "join",
    "expires_at": 1,
    "pool": "pool-{caller}",
    "scope": "s",
    "now": NOW,
    "log": LOG,
}


@pytest.fixture(scope="module")
def race(aws: Clients) -> Iterator[Race]:
    with start_line(aws.endpoint_url) as race:
        yield race


def make_ready(store: DynamoStore, ordinal: int) -> None:
    for source in (100, 101):
        args: dict[str, Value] = {"node_id": "join", "expires_at": 1, "source": source}
        assert isinstance(store.apply(op.RESOLVE_TAKEN, keys.node(REF, ordinal), args), Applied)


def make_queued(store: DynamoStore, ordinal: int) -> None:
    assert store.apply(op.QUEUE_ROOT, keys.node(REF, ordinal), QUEUE) == Applied()


def make_running(store: DynamoStore, ordinal: int) -> None:
    make_queued(store, ordinal)
    claim = {**sample_args(op.CLAIM), "fence": 1}
    assert store.apply(op.CLAIM, keys.node(REF, ordinal), claim) == Applied()


def rows(store: DynamoStore) -> list[NodeRow]:
    return store.query_nodes(REF, NodeView.FULL)


def test_case_01_a_ready_join_is_queued_by_one_of_all_finishers(
    race: Race, dynamo: DynamoStore, tables: TableNames
) -> None:
    for ordinal in range(KEYS):
        make_ready(dynamo, ordinal)
    args = {**QUEUE, "in_degree": 2}
    winners = race.run(
        tables,
        [Attempt.of(op.QUEUE_JOIN, keys.node(REF, ordinal), args) for ordinal in range(KEYS)],
    )
    assert [len(each) for each in winners] == [1] * KEYS
    assert [row.pool for row in rows(dynamo)] == [f"pool-{won}" for [won] in winners]
    assert all(len(row.log) == 1 for row in rows(dynamo))


def test_case_03_an_attempt_is_claimed_by_one_worker(
    race: Race, dynamo: DynamoStore, tables: TableNames
) -> None:
    for ordinal in range(KEYS):
        make_queued(dynamo, ordinal)
    claim = {**sample_args(op.CLAIM), "fence": 1, "owner": "worker-{caller}"}
    winners = race.run(
        tables, [Attempt.of(op.CLAIM, keys.node(REF, ordinal), claim) for ordinal in range(KEYS)]
    )
    assert [len(each) for each in winners] == [1] * KEYS
    assert [row.lease_owner for row in rows(dynamo)] == [f"worker-{won}" for [won] in winners]


def test_case_41_an_outcome_is_recorded_once(
    race: Race, dynamo: DynamoStore, tables: TableNames
) -> None:
    for ordinal in range(KEYS):
        make_running(dynamo, ordinal)
    outcome = {**sample_args(op.COMPLETE), "fence": 1, "result": "result of {caller}"}
    winners = race.run(
        tables,
        [Attempt.of(op.COMPLETE, keys.node(REF, ordinal), outcome) for ordinal in range(KEYS)],
    )
    assert [len(each) for each in winners] == [1] * KEYS
    assert [row.result for row in rows(dynamo)] == [f"result of {won}" for [won] in winners]


def test_a_document_starts_one_execution_however_many_ask(
    race: Race, dynamo: DynamoStore, tables: TableNames
) -> None:
    documents = [keys.idempotency(Tenant("acme"), f"invoice-{n}", 1) for n in range(KEYS)]
    attempts = []
    for number, document in enumerate(documents):
        ref = make_ref(execution_id=f"E{number:02d}-{{caller}}")
        claim = {**sample_args(op.CLAIM_IDEMPOTENCY), "execution_id": ref.execution_id}
        stored = Write(op.STORE_INPUT, keys.execution_input(ref), sample_args(op.STORE_INPUT))
        writes = (creation(ref), stored, Write(op.CLAIM_IDEMPOTENCY, document, claim))
        attempts.append(Attempt(writes))

    winners = race.run(tables, attempts)

    assert [len(each) for each in winners] == [1] * KEYS
    for number, [won] in enumerate(winners):
        claimed = dynamo.get_raw(documents[number], ["idem_execution_id"])
        assert claimed == {"idem_execution_id": f"E{number:02d}-{won}"}
        created = [
            caller
            for caller in range(CALLERS)
            if dynamo.get_execution(make_ref(execution_id=f"E{number:02d}-{caller}"))
        ]
        assert created == [won]


def test_without_the_guard_a_ready_join_is_queued_more_than_once(
    race: Race, dynamo: DynamoStore, tables: TableNames
) -> None:
    """The same write and a careful look before it: what the guard is there for."""
    unguarded = Operation(
        "test.unguarded", op.QUEUE_JOIN.item, (NotExists("never"),), op.QUEUE_JOIN.changes
    )
    for ordinal in range(KEYS):
        make_ready(dynamo, ordinal)
    attempts = [Attempt.of(unguarded, keys.node(REF, ordinal), QUEUE) for ordinal in range(KEYS)]
    winners = race.run_on_trust(tables, REF, 2, attempts)
    assert all(len(each) == CALLERS for each in winners)
    assert all(len(row.log) == CALLERS for row in rows(dynamo))
