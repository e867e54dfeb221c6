"""What viewers see: executions, nodes with their attempts, output, history, workflows."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from handlers.graphql import QueryRefused
from piton.domain import canonical
from piton.domain.errors import Retry
from piton.ports import Page
from piton.services import queries
from piton.storage import operations as op
from tests.support.api import ApiUnderTest, recorded, with_claims
from tests.support.story import BOTTOM, LEFT, RIGHT, TOP, Story, asking


@pytest.fixture
def story(api: ApiUnderTest) -> Story:
    return Story(api)


def pages(api: ApiUnderTest, name: str, execution_id: str | None, limit: int) -> Iterator[Any]:
    token: str | None = None
    while True:
        page = api.call(asking(name, execution_id, limit=limit, nextToken=token))
        assert len(page["items"]) <= limit
        yield from page["items"]
        token = page["nextToken"]
        if token is None:
            return


# --- Executions ----------------------------------------------------------------------------


def test_an_execution_is_shown(api: ApiUnderTest, story: Story) -> None:
    shown = api.call(asking("get_execution", story.id))
    assert (shown["id"], shown["status"], shown["workflowId"]) == (story.id, "RUNNING", "diamond")
    assert shown["actor"] == "olga"
    assert shown["endsBy"] == "2026-01-31T00:00:00.000Z"


@pytest.mark.parametrize(
    "name",
    [
        "get_execution",
        "execution_nodes",
        "execution_input",
        "execution_output",
        "execution_history",
    ],
)
def test_a_foreign_execution_answers_exactly_like_a_missing_one(
    api: ApiUnderTest, story: Story, name: str
) -> None:
    missing = recorded("get_execution")["arguments"]["id"]
    answers, calls = [], []
    for execution_id in (story.id, missing):
        api.store.calls.clear()
        answers.append(
            json.dumps(api.call(with_claims(asking(name, execution_id), tenant="globex")))
        )
        calls.append(list(api.store.calls))
    assert answers == ["null", "null"]
    assert calls[0] == calls[1]


@pytest.mark.parametrize("execution_id", ["", "x", "01KDV4QZ8M6X3T9B2C7R5W1YHN#META", "é" * 26])
def test_what_cannot_be_an_id_is_missing_without_a_read(
    api: ApiUnderTest, execution_id: str
) -> None:
    api.store.calls.clear()
    assert api.call(asking("get_execution", execution_id)) is None
    assert api.store.calls == []


def test_executions_are_listed_newest_first_in_pages(api: ApiUnderTest) -> None:
    ids = []
    for _ in range(5):
        ids.append(api.start())
        api.clock.now += 1
    api.register(tenant="globex")
    api.start(tenant="globex")
    listed = [item["id"] for item in pages(api, "list_executions", None, 2)]
    assert listed == ids[::-1]


def test_a_list_can_be_narrowed(api: ApiUnderTest, story: Story) -> None:
    pending = api.start()
    running = api.call(asking("list_executions", status="RUNNING"))
    assert [item["id"] for item in running["items"]] == [story.id]
    diamonds = api.call(asking("list_executions", status=None, workflow="diamond"))
    assert [item["id"] for item in diamonds["items"]] == [story.id]
    everything = api.call(asking("list_executions", status=None))
    assert {item["id"] for item in everything["items"]} == {story.id, pending}


def test_one_that_left_the_asked_status_meanwhile_is_left_out(
    api: ApiUnderTest, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    def behind(*_: object, **__: object) -> Page[str]:
        return Page([story.id], "more")

    monkeypatch.setattr(type(api.rows), "list_executions", behind)
    answer = api.call(asking("list_executions", status="PENDING"))
    assert answer == {"items": [], "nextToken": "more"}


# --- Nodes ---------------------------------------------------------------------------------


def test_nodes_without_a_row_are_pending(api: ApiUnderTest, story: Story) -> None:
    page = api.call(asking("execution_nodes", story.id))
    assert [node["id"] for node in page["items"]] == ["top", "left", "right", "bottom"]
    assert {node["status"] for node in page["items"]} == {"PENDING"}
    assert (page["total"], page["nextToken"]) == (4, None)
    assert page["items"][BOTTOM]["needs"] == ["left", "right"]
    assert page["items"][TOP]["attempts"] == []


def test_a_node_is_shown_with_every_attempt(api: ApiUnderTest, story: Story) -> None:
    story.queue(TOP, "top")
    story.claim(TOP)
    story.retry(TOP, 1)
    story.claim(TOP, 2)
    story.complete(TOP, 2, {"sum": 2.5})
    node = api.call(asking("execution_nodes", story.id))["items"][TOP]
    assert (node["status"], node["attempt"], node["reason"]) == ("COMPLETED", 2, None)
    assert json.loads(node["result"]) == {"sum": 2.5}
    first, second = node["attempts"]
    assert first == {
        "number": 1,
        "queuedAt": "2026-01-01T00:00:00.010Z",
        "notBefore": None,
        "startedAt": "2026-01-01T00:00:00.020Z",
        "finishedAt": "2026-01-01T00:00:00.030Z",
        "outcome": "RETRIED",
        "reason": "FLAKY",
        "owner": "default:77/nonce-1",
        "codeHash": "c0de",
        "log": {
            "group": "/aws/lambda/worker",
            "filter": f'"{story.id}" "top"',
            "from": "2026-01-01T00:00:00.020Z",
            "until": "2026-01-01T00:00:00.030Z",
        },
    }
    assert (second["number"], second["outcome"]) == (2, "COMPLETED")
    assert second["notBefore"] == "2026-01-01T00:00:00.530Z"


def test_an_attempt_that_nobody_took_in_is_told_from_the_last_one(
    api: ApiUnderTest, story: Story
) -> None:
    story.queue(TOP, "top")
    story.retry(TOP, 1, op.RETRY_UNDELIVERED, "DELIVERY_EXHAUSTED")
    node = api.call(asking("execution_nodes", story.id))["items"][TOP]
    assert [each["outcome"] for each in node["attempts"]] == ["RETRIED", "QUEUED"]
    story.fail(TOP, 2, op.FAIL_UNDELIVERED)
    node = api.call(asking("execution_nodes", story.id))["items"][TOP]
    assert [each["outcome"] for each in node["attempts"]] == ["RETRIED", "FAILED"]
    assert [each["log"] for each in node["attempts"]] == [None, None]
    assert (node["status"], node["reason"]) == ("FAILED", "BROKEN")


def test_a_large_result_is_named_by_its_hash(api: ApiUnderTest, story: Story) -> None:
    result = "x" * api.settings.inline_bytes
    story.done(TOP, "top", result)
    node = api.call(asking("execution_nodes", story.id))["items"][TOP]
    assert node["result"] is None
    assert node["resultHash"] == canonical.digest(canonical.dumps(result))


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
def test_nodes_come_in_pages(api: ApiUnderTest, story: Story, limit: int) -> None:
    story.done(LEFT, "left", 1)
    nodes = list(pages(api, "execution_nodes", story.id, limit))
    assert [(node["id"], node["status"]) for node in nodes] == [
        ("top", "PENDING"),
        ("left", "COMPLETED"),
        ("right", "PENDING"),
        ("bottom", "PENDING"),
    ]


def test_a_join_through_gates_names_the_nodes_behind_them(api: ApiUnderTest) -> None:
    wide = {
        "id": "wide",
        "nodes": [
            *({"id": f"n{i}", "task": "t"} for i in range(600)),
            {"id": "join", "task": "t", "needs": [f"n{i}" for i in range(600)]},
        ],
    }
    story = Story(api, json.dumps(wide))
    nodes = list(pages(api, "execution_nodes", story.id, 100))
    assert len(nodes) == 601
    assert nodes[-1]["needs"] == [f"n{i}" for i in range(600)]


# --- Input and output ----------------------------------------------------------------------


def test_the_input_is_shown(api: ApiUnderTest, story: Story) -> None:
    assert api.call(asking("execution_input", story.id)) == {"n": 1}


def test_the_output_holds_completed_sinks(api: ApiUnderTest) -> None:
    story = Story(
        api,
        "id: sinks\nnodes: [{id: a, task: t}, {id: b, task: t}, {id: c, task: t, needs: [a]}]",
    )
    large = ["x" * api.settings.inline_bytes]
    story.done(0, "a", "not a sink")
    story.done(1, "b", large)
    assert api.call(asking("execution_output", story.id)) is None
    story.queue(2, "c")
    api.complete(story.ref)
    assert api.call(asking("execution_output", story.id)) == {"b": large}
    story.claim(2)
    story.complete(2, 1, None)
    assert api.call(asking("execution_output", story.id)) == {"b": large, "c": None}


def test_an_output_beyond_an_answer_is_refused(
    api: ApiUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "MAX_OUTPUT_BYTES", 10)
    story = Story(api, "id: one\nnodes: [{id: a, task: t}]")
    story.done(0, "a", "x" * 10)
    api.complete(story.ref)
    with pytest.raises(QueryRefused, match=r"^OUTPUT_TOO_LARGE: "):
        api.call(asking("execution_output", story.id))


def test_a_lost_payload_is_a_fault_of_ours(
    api: ApiUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(api, "id: one\nnodes: [{id: a, task: t}]")
    story.done(0, "a", "x" * api.settings.inline_bytes)
    api.complete(story.ref)
    monkeypatch.setattr(type(api.blobs), "get", lambda *_: None)
    with pytest.raises(QueryRefused, match=r"^INTERNAL: "):
        api.call(asking("execution_output", story.id))


# --- History -------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_history_has_every_transition_once(api: ApiUnderTest, story: Story, limit: int) -> None:
    story.queue(TOP, "top")
    story.claim(TOP)
    story.retry(TOP, 1)
    story.claim(TOP, 2)
    story.complete(TOP, 2, 1)
    story.done(RIGHT, "right", 2)
    story.tick()
    api.complete(story.ref)
    entries = list(pages(api, "execution_history", story.id, limit))
    assert [(entry["nodeId"], entry["transition"]) for entry in entries] == [
        (None, "E1"),
        (None, "E2"),
        (None, "E3"),
        ("top", "N1"),
        ("top", "N4"),
        ("top", "N7"),
        ("top", "N4"),
        ("top", "N6"),
        ("right", "N1"),
        ("right", "N4"),
        ("right", "N6"),
    ]
    for node in (None, "top", "right"):
        times = [entry["at"] for entry in entries if entry["nodeId"] == node]
        assert times == sorted(times)
    assert entries[5]["reason"] == "FLAKY"
    assert entries[0]["actor"] == "olga"


def test_a_page_of_history_reads_no_more_rows_than_it_needs(
    api: ApiUnderTest, story: Story
) -> None:
    story.done(TOP, "top", 1)
    api.store.calls.clear()
    api.call(asking("execution_history", story.id, limit=1))
    assert api.store.calls == ["get_execution"]


# --- Workflows -----------------------------------------------------------------------------


def test_a_workflow_is_shown_as_its_author_wrote_it(api: ApiUnderTest) -> None:
    shown = api.call(asking("get_workflow"))
    assert (shown["id"], shown["version"], shown["nodeCount"]) == ("invoices", 1, 2)
    assert (shown["createdAt"], shown["actor"]) == ("2026-01-01T00:00:00.000Z", "olga")
    assert shown["definition"]["nodes"][1] == {
        "id": "post",
        "task": "invoices.post",
        "needs": ["extract"],
    }


def test_a_version_can_be_named(api: ApiUnderTest) -> None:
    api.register(definition="id: invoices\nnodes: [{id: a, task: t}]")
    assert api.call(asking("get_workflow"))["version"] == 2
    assert api.call(asking("get_workflow", version=1))["nodeCount"] == 2
    assert api.call(asking("get_workflow", version=3)) is None


@pytest.mark.parametrize("workflow_id", ["unheard-of", "a#b", "", "x" * 5000])
def test_a_workflow_that_is_not_there_is_null(api: ApiUnderTest, workflow_id: str) -> None:
    assert api.call(asking("get_workflow", workflow_id)) is None


def test_a_foreign_workflow_is_null(api: ApiUnderTest) -> None:
    assert api.call(with_claims(asking("get_workflow"), tenant="globex")) is None


def test_workflows_are_listed_by_id_with_the_latest_version(api: ApiUnderTest) -> None:
    for name in ("b", "a", "c"):
        api.register(definition=f"id: {name}\nnodes: [{{id: x, task: t}}]")
    api.register(definition="id: b\nnodes: [{id: y, task: t}]")
    assert list(pages(api, "list_workflows", None, 2)) == [
        {"id": "a", "version": 1},
        {"id": "b", "version": 2},
        {"id": "c", "version": 1},
        {"id": "invoices", "version": 1},
    ]


# --- What is refused -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("execution_nodes", 100),
        ("execution_history", 1000),
        ("list_executions", 100),
        ("list_workflows", 100),
    ],
)
def test_a_page_has_a_bounded_size(api: ApiUnderTest, story: Story, name: str, most: int) -> None:
    named = story.id if name.startswith("execution") else None
    assert "items" in api.call(asking(name, named, limit=most))
    for limit in (0, -1, most + 1):
        with pytest.raises(
            QueryRefused, match=f"^INVALID_INPUT: limit must be between 1 and {most}"
        ):
            api.call(asking(name, named, limit=limit))


@pytest.mark.parametrize("name", ["execution_nodes", "execution_history"])
def test_a_token_is_good_for_its_own_list_alone(api: ApiUnderTest, story: Story, name: str) -> None:
    token = api.call(asking(name, story.id, limit=1))["nextToken"]
    other = Story(api)
    for foreign in (token, "", "x", "é", "W10", "bnVsbA", "A" * 5000):
        if foreign:
            with pytest.raises(QueryRefused, match=r"^INVALID_INPUT: nextToken"):
                api.call(asking(name, other.id, nextToken=foreign))


@pytest.mark.parametrize("name", ["list_executions", "list_workflows"])
@pytest.mark.parametrize("token", ["x", "é", "W10", "A" * 5000])
def test_lists_refuse_a_token_that_is_not_theirs(api: ApiUnderTest, name: str, token: str) -> None:
    with pytest.raises(QueryRefused, match=r"^INVALID_INPUT: "):
        api.call(asking(name, nextToken=token))


def test_a_slow_dependency_is_busy(
    api: ApiUnderTest, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*_: object) -> None:
        raise Retry("no answer in time")

    monkeypatch.setattr(type(api.rows), "get_execution", slow)
    with pytest.raises(QueryRefused, match=r"^BUSY: "):
        api.call(asking("get_execution", story.id))


def test_a_refusal_shows_no_cause(
    api: ApiUnderTest, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(type(api.rows), "get_execution", explode)
    with pytest.raises(QueryRefused, match=r"^INTERNAL: ") as caught:
        api.call(asking("get_execution", story.id))
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__
    assert "secret" in api.log.getvalue()
