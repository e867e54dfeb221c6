"""startExecution: one transaction, once per idempotency key, whatever gets in between."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from piton.contracts import StartExecutionInput
from piton.domain import canonical
from piton.domain.errors import Retry
from piton.domain.names import Tenant, is_execution_id
from piton.domain.rows import ExecutionRef, ExecutionRow
from piton.domain.scope import Scope
from piton.domain.settings import DAY, Settings
from piton.domain.status import ExecutionStatus
from piton.ports import Outcome, Refused
from piton.services.caller import Caller, Group
from piton.services.start import Started
from piton.storage import keys
from piton.storage.sqlite import SqliteStore
from piton.storage.views import IDEMPOTENCY_VIEW, INPUT_VIEW, ExecutionView
from tests.support.api import START, ApiUnderTest, Event, error_of, recorded, with_claims

OLGA = Caller(Tenant("acme"), "olga", frozenset({Group.OPERATORS}))
REQUEST = StartExecutionInput.model_validate(recorded("start_execution")["arguments"]["input"])
KEY = keys.idempotency(Tenant("acme"), "inbox/a.xml", 1)


def asking(**fields: Any) -> Event:
    event = recorded("start_execution")
    event["arguments"]["input"] |= fields
    return event


def stored(api: ApiUnderTest, execution_id: str) -> ExecutionRow:
    row = api.rows.get_execution(ExecutionRef("acme", execution_id), ExecutionView.FULL)
    assert row is not None
    return row


def listed(api: ApiUnderTest, tenant: str = "acme") -> list[str]:
    page = api.rows.list_executions(tenant, status=None, workflow_id=None, limit=100, token=None)
    return list(page.items)


def test_an_execution_is_born_pending_and_due(api: ApiUnderTest) -> None:
    answer = api.call(asking())
    assert answer["created"] is True
    assert answer.get("error") is None
    execution = answer["execution"]
    assert is_execution_id(execution["id"])
    row = stored(api, execution["id"])
    assert row.status is ExecutionStatus.PENDING
    assert (row.workflow_id, row.workflow_version) == ("invoices", 1)
    assert row.root_id == execution["id"]
    assert row.actor == "olga"
    assert row.scope == Scope().text
    assert row.created_at == START
    assert row.due_at == START + api.settings.sweep_soonest_ms
    assert [due.ref for due in api.rows.due(row.due_at, 10)] == [row.ref]
    assert [entry.transition for entry in row.log] == ["E1"]
    assert listed(api) == [execution["id"]]


def test_the_answer_shows_the_execution(api: ApiUnderTest) -> None:
    execution = api.call(asking())["execution"]
    assert execution["status"] == "PENDING"
    assert execution["createdAt"] == "2026-01-01T00:00:00.000Z"
    assert execution["scope"] == {
        "sourceKind": "api",
        "resolutionStatus": "resolved",
        "visibility": "tenant",
        "scopeIds": [],
    }


def test_nothing_but_one_transaction_writes(api: ApiUnderTest) -> None:
    api.store.calls.clear()
    api.call(asking())
    assert api.store.calls == ["get_raw", "transact"]


def test_a_small_input_is_stored_inline(api: ApiUnderTest) -> None:
    ref = ExecutionRef("acme", api.call(asking())["execution"]["id"])
    row = api.rows.get_raw(keys.execution_input(ref), INPUT_VIEW)
    assert row is not None
    text = '{"amounts":[1,2.5],"file":"a.xml"}'
    assert (row["input_body"], row["input_hash"]) == (text, canonical.digest(text))
    assert "input_ref" not in row


def test_a_large_input_is_stored_under_its_hash(api: ApiUnderTest) -> None:
    content = {"text": "x" * api.settings.inline_bytes}
    ref = ExecutionRef("acme", api.call(asking(input=content))["execution"]["id"])
    row = api.rows.get_raw(keys.execution_input(ref), INPUT_VIEW)
    assert row is not None
    assert "input_body" not in row
    ref_text = row["input_ref"]
    assert isinstance(ref_text, str)
    body = api.blobs.get(ref_text)
    assert body is not None
    assert json.loads(body) == content
    hash_ = canonical.digest(canonical.dumps(content))
    assert row["input_hash"] == hash_
    assert ref_text.endswith(f"acme/{ref.execution_id}/{hash_}")


def test_a_missing_input_is_an_empty_object(api: ApiUnderTest) -> None:
    ref = ExecutionRef("acme", api.start())
    row = api.rows.get_raw(keys.execution_input(ref), INPUT_VIEW)
    assert row is not None
    assert row["input_body"] == "{}"


# --- How long it lives ---------------------------------------------------------------------


def test_without_deadline_or_timeout_the_settings_bound_its_life(api: ApiUnderTest) -> None:
    row = stored(api, api.start())
    assert (row.ends_by, row.deadline) == (START + api.settings.default_life_ms, None)
    assert row.expires_at == (row.ends_by + api.settings.retention_ms) // 1000


def test_the_workflows_timeout_bounds_its_life(api: ApiUnderTest) -> None:
    api.register(definition="id: short\ntimeout_s: 90.5\nnodes: [{id: a, task: t}]")
    assert stored(api, api.start(workflow="short")).ends_by == START + 90_500


def test_a_deadline_comes_before_the_timeout(api: ApiUnderTest) -> None:
    api.register(definition="id: short\ntimeout_s: 90\nnodes: [{id: a, task: t}]")
    row = stored(api, api.start(workflow="short", deadlineAt="2026-01-01T01:05:00+01:00"))
    assert row.ends_by == row.deadline == START + 300_000


@pytest.mark.parametrize(
    "deadline", ["2026-01-01T00:00:00Z", "2025-12-31T23:59:59Z", "2027-01-03T00:00:00Z"]
)
def test_a_deadline_lies_in_the_future_within_reach(api: ApiUnderTest, deadline: str) -> None:
    code, message = error_of(api.call(asking(deadlineAt=deadline)))
    assert (code, "future" in message) == ("INVALID_INPUT", True)
    assert listed(api) == []


def test_the_key_outlives_the_execution(api: ApiUnderTest) -> None:
    row = stored(api, api.call(asking())["execution"]["id"])
    claim = api.rows.get_raw(KEY, (*IDEMPOTENCY_VIEW, "expires_at"))
    assert claim is not None
    assert claim["idem_execution_id"] == row.ref.execution_id
    kept_s = api.settings.idempotency_retention_ms // 1000
    assert claim["expires_at"] == row.expires_at + kept_s


# --- What is refused -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"workflow": "unheard-of"}, "WORKFLOW_NOT_FOUND"),
        ({"version": 2}, "WORKFLOW_NOT_FOUND"),
        ({"workflow": "a#b"}, "INVALID_INPUT"),
        ({"input": [1]}, "INVALID_INPUT"),
        ({"input": {"text": "a\x00b"}}, "INVALID_INPUT"),
        ({"input": {"text": "\ud800"}}, "INVALID_INPUT"),
        ({"input": {"text": "x" * 1_000_000}}, "INPUT_TOO_LARGE"),
        ({"idempotency": {"document": "a#b", "operationVersion": 1}}, "INVALID_INPUT"),
        ({"idempotency": {"document": "a", "operationVersion": 0}}, "INVALID_INPUT"),
        ({"deadlineAt": "soon"}, "INVALID_INPUT"),
        ({"unheard": 1}, "INVALID_INPUT"),
    ],
)
def test_bad_input_is_refused_and_leaves_nothing(
    api: ApiUnderTest, fields: dict[str, Any], code: str
) -> None:
    assert error_of(api.call(asking(**fields)))[0] == code
    assert "transact" not in api.store.calls
    assert listed(api) == []


def test_the_size_of_an_input_is_that_of_its_canonical_text(store: SqliteStore) -> None:
    api = ApiUnderTest.embedded(store, Settings(input_limit_bytes=100))
    api.register()
    assert api.call(asking(input={"t": "x" * 92}))["created"] is True
    other = asking(input={"t": "x" * 93}, idempotency=None)
    code, message = error_of(api.call(other))
    assert code == "INPUT_TOO_LARGE"
    assert message.startswith("The input has 101 bytes and at most 100 are allowed; ")


def test_another_tenants_workflow_does_not_exist(api: ApiUnderTest) -> None:
    other = with_claims(asking(), tenant="globex")
    assert error_of(api.call(other))[0] == "WORKFLOW_NOT_FOUND"


def test_the_named_version_is_started(api: ApiUnderTest) -> None:
    api.register(definition="id: invoices\nnodes: [{id: other, task: t}]")
    assert stored(api, api.start()).workflow_version == 2
    assert stored(api, api.start(version=1)).workflow_version == 1


# --- Once per key --------------------------------------------------------------------------


def test_the_same_request_answers_with_the_execution_it_started(api: ApiUnderTest) -> None:
    first = api.call(asking())
    api.clock.now += DAY
    again = api.call(asking(input={"file": "a.xml", "amounts": [1, 2.5]}))
    assert again == {**first, "created": False}
    assert listed(api) == [first["execution"]["id"]]


def test_a_repetition_is_answered_even_after_its_deadline(api: ApiUnderTest) -> None:
    request = asking(deadlineAt="2026-01-01T00:01:00Z")
    first = api.call(request)
    api.clock.now += DAY
    assert api.call(request)["execution"]["id"] == first["execution"]["id"]


def test_a_repetition_is_answered_after_the_next_registration(api: ApiUnderTest) -> None:
    first = api.call(asking())
    api.register(definition="id: invoices\nnodes: [{id: other, task: t}]")
    again = api.call(asking())
    assert again["execution"] == first["execution"]


@pytest.mark.parametrize(
    "fields",
    [
        {"input": {"file": "b.xml"}},
        {"version": 1},
        {"workflow": "others"},
        {"scope": {"scopeIds": ["unit-7"]}},
    ],
)
def test_another_request_under_the_same_key_is_a_conflict(
    api: ApiUnderTest, fields: dict[str, Any]
) -> None:
    api.register(definition="id: others\nnodes: [{id: a, task: t}]")
    first = api.call(asking())
    code, message = error_of(api.call(asking(**fields)))
    assert code == "IDEMPOTENCY_CONFLICT"
    assert first["execution"]["id"] in message
    assert listed(api) == [first["execution"]["id"]]


def test_a_scope_of_the_same_meaning_is_the_same_request(api: ApiUnderTest) -> None:
    first = api.call(asking(scope={"scopeIds": ["b", "a", "b"], "visibility": "tenant"}))
    again = api.call(asking(scope={"scopeIds": ["a", "b"]}))
    assert (again["created"], again["execution"]) == (False, first["execution"])
    assert first["execution"]["scope"]["scopeIds"] == ["a", "b"]


def test_the_next_operation_version_starts_anew(api: ApiUnderTest) -> None:
    first = api.call(asking())
    second = api.call(asking(idempotency={"document": "inbox/a.xml", "operationVersion": 2}))
    assert second["created"] is True
    assert len({first["execution"]["id"], second["execution"]["id"]}) == 2


def test_a_key_is_of_one_tenant(api: ApiUnderTest) -> None:
    first = api.call(asking())
    api.register(tenant="globex")
    second = api.call(with_claims(asking(), tenant="globex"))
    assert second["created"] is True
    assert second["execution"]["id"] != first["execution"]["id"]
    assert listed(api, "globex") == [second["execution"]["id"]]


def test_of_two_that_race_to_the_transaction_one_creates(api: ApiUnderTest) -> None:
    won: list[Started] = []

    def overtake() -> None:
        won.append(api.commands.start_execution(OLGA, REQUEST))

    api.store.before_transaction = overtake
    answer = api.call(asking())
    assert answer["created"] is False
    assert answer["execution"]["id"] == won[0].execution.ref.execution_id
    assert listed(api) == [answer["execution"]["id"]]


def test_the_loser_of_a_race_with_another_request_gets_a_conflict(api: ApiUnderTest) -> None:
    other = REQUEST.model_copy(update={"input": {"file": "b.xml"}})

    def overtake() -> None:
        api.commands.start_execution(OLGA, other)

    api.store.before_transaction = overtake
    assert error_of(api.call(asking()))[0] == "IDEMPOTENCY_CONFLICT"
    assert len(listed(api)) == 1


def test_any_number_at_once_start_one(api: ApiUnderTest) -> None:
    with ThreadPoolExecutor(8) as pool:
        started = list(pool.map(lambda _: api.commands.start_execution(OLGA, REQUEST), range(16)))
    assert sum(each.created for each in started) == 1
    assert {each.execution.ref.execution_id for each in started} == set(listed(api))


def lost(outcome: Outcome) -> Outcome:
    del outcome
    raise Retry("no answer in time")


def refused(outcome: Outcome) -> Outcome:
    """A write that was stored, repeated by the SDK, and then met itself."""
    del outcome
    return Refused()


@pytest.mark.parametrize("key", [None, {"document": "a"}])
def test_a_write_that_meets_itself_is_mine(api: ApiUnderTest, key: dict[str, str] | None) -> None:
    api.store.after_write = refused
    answer = api.call(asking(idempotency=key))
    assert answer["created"] is True
    assert listed(api) == [answer["execution"]["id"]]


def test_after_a_lost_answer_the_key_leads_to_the_execution(api: ApiUnderTest) -> None:
    api.store.after_write = lost
    assert error_of(api.call(asking()))[0] == "BUSY"
    answer = api.call(asking())
    assert answer["created"] is False
    assert listed(api) == [answer["execution"]["id"]]


def test_a_refusal_without_a_cause_is_tried_again_by_the_caller(
    api: ApiUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api.store, "transact", lambda _: Refused())
    assert error_of(api.call(asking()))[0] == "BUSY"


def test_a_key_whose_execution_has_expired_says_so(
    api: ApiUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.call(asking())
    gone: Callable[..., None] = lambda *_: None  # noqa: E731
    monkeypatch.setattr(type(api.rows), "get_execution", gone)
    code, message = error_of(api.call(asking()))
    assert (code, "higher operationVersion" in message) == ("EXECUTION_ENDED", True)
