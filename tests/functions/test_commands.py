"""resumeExecution, cancelExecution, registerWorkflow, and how any mutation fails."""

import json
from typing import Any

import pytest

from piton.domain.errors import Retry
from piton.domain.rows import ExecutionRef, ExecutionRow
from piton.domain.status import ExecutionStatus, Reason
from piton.ports import Outcome, Refused
from piton.services.yaml_reader import MAX_BYTES
from piton.storage.views import ExecutionView
from tests.support.api import (
    REQUEST_ID,
    START,
    ApiUnderTest,
    Event,
    error_of,
    recorded,
    with_claims,
)

ON_AN_EXECUTION = ["resume_execution", "cancel_execution"]


def about(name: str, execution_id: str, **arguments: Any) -> Event:
    event = recorded(name)
    event["arguments"] |= {"executionId": execution_id, **arguments}
    return event


def stored(api: ApiUnderTest, ref: ExecutionRef) -> ExecutionRow:
    row = api.rows.get_execution(ref, ExecutionView.FULL)
    assert row is not None
    return row


def refused(outcome: Outcome) -> Outcome:
    del outcome
    return Refused()


def lost(outcome: Outcome) -> Outcome:
    del outcome
    raise Retry("no answer in time")


# --- Ownership -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ON_AN_EXECUTION)
def test_a_foreign_execution_answers_exactly_like_a_missing_one(
    api: ApiUnderTest, name: str
) -> None:
    foreign = api.start()
    missing = recorded(name)["arguments"]["executionId"]
    api.run(foreign)
    answers, calls = [], []
    for execution_id in (foreign, missing):
        api.store.calls.clear()
        event = with_claims(about(name, execution_id), tenant="globex")
        answers.append(json.dumps(api.call(event)))
        calls.append(list(api.store.calls))
    assert answers[0] == answers[1]
    assert calls[0] == calls[1]
    assert json.loads(answers[0])["error"]["code"] == "EXECUTION_NOT_FOUND"
    row = stored(api, ExecutionRef("acme", foreign))
    assert (row.status, row.resumes) == (ExecutionStatus.RUNNING, 0)


@pytest.mark.parametrize("name", ON_AN_EXECUTION)
@pytest.mark.parametrize(
    "execution_id",
    ["", "x", "01KDV4QZ8M6X3T9B2C7R5W1YHN#META", "01kdv4qz8m6x3t9b2c7r5w1yhn", "é" * 26],
)
def test_what_cannot_be_an_id_is_refused_before_any_read(
    api: ApiUnderTest, name: str, execution_id: str
) -> None:
    api.store.calls.clear()
    assert error_of(api.call(about(name, execution_id)))[0] == "INVALID_INPUT"
    assert api.store.calls == []


# --- Resume --------------------------------------------------------------------------------


def test_resume_counts_and_touches_nothing_else(api: ApiUnderTest) -> None:
    ref = api.run(api.start())
    before = stored(api, ref)
    api.clock.now += 1000
    answer = api.call(about("resume_execution", ref.execution_id))
    assert answer.get("error") is None
    assert (answer["execution"]["resumes"], answer["execution"]["status"]) == (1, "RUNNING")
    assert answer["execution"]["resumedBy"] == "olga"
    assert answer["execution"]["resumedAt"] == "2026-01-01T00:00:01.000Z"
    after = stored(api, ref)
    assert (after.resumes, after.log, after.due_at) == (1, before.log, before.due_at)


def test_resume_may_be_repeated(api: ApiUnderTest) -> None:
    ref = api.run(api.start())
    for count in (1, 2, 3):
        answer = api.call(about("resume_execution", ref.execution_id))
        assert answer["execution"]["resumes"] == count


def test_a_pending_execution_has_nothing_to_resume(api: ApiUnderTest) -> None:
    code, _ = error_of(api.call(about("resume_execution", api.start())))
    assert code == "EXECUTION_NOT_STARTED"


def test_an_ended_execution_stays_ended(api: ApiUnderTest) -> None:
    ref = api.run(api.start())
    api.complete(ref)
    assert error_of(api.call(about("resume_execution", ref.execution_id))) == (
        "EXECUTION_ENDED",
        "The execution has completed. Start a new one with a higher operationVersion",
    )
    cancelled = api.start()
    api.call(about("cancel_execution", cancelled))
    code, message = error_of(api.call(about("resume_execution", cancelled)))
    assert (code, "been cancelled" in message) == ("EXECUTION_ENDED", True)
    assert stored(api, ref).resumes == 0


def test_resume_looks_again_when_the_execution_started_meanwhile(api: ApiUnderTest) -> None:
    execution_id = api.start()

    def start_now(outcome: Outcome) -> Outcome:
        api.run(execution_id)
        return outcome

    api.store.after_write = start_now
    answer = api.call(about("resume_execution", execution_id))
    assert answer["execution"]["resumes"] == 1


# --- Cancel --------------------------------------------------------------------------------


@pytest.mark.parametrize("running", [False, True])
def test_cancel_ends_an_execution_for_good(api: ApiUnderTest, *, running: bool) -> None:
    ref = ExecutionRef("acme", api.start())
    if running:
        api.run(ref.execution_id)
    api.clock.now += 5
    execution = api.call(about("cancel_execution", ref.execution_id))["execution"]
    assert (execution["status"], execution["reason"]) == ("CANCELLED", "CANCELLED_BY_CALLER")
    assert (execution["note"], execution["finishedAt"]) == (
        "sent twice",
        "2026-01-01T00:00:00.005Z",
    )
    row = stored(api, ref)
    assert row.due_at == START + 5 + api.settings.drain_ms
    last = row.log[-1]
    assert (last.transition, last.actor, last.reason) == ("E5", "olga", Reason.CANCELLED_BY_CALLER)


def test_cancelling_again_changes_nothing(api: ApiUnderTest) -> None:
    ref = ExecutionRef("acme", api.start())
    first = api.call(about("cancel_execution", ref.execution_id))
    row = stored(api, ref)
    api.clock.now += 1000
    again = api.call(about("cancel_execution", ref.execution_id, reason="another note"))
    assert again == first
    assert stored(api, ref) == row


def test_a_completed_execution_is_not_cancelled(api: ApiUnderTest) -> None:
    ref = api.run(api.start())
    api.complete(ref)
    code, _ = error_of(api.call(about("cancel_execution", ref.execution_id)))
    assert code == "EXECUTION_ENDED"
    assert stored(api, ref).status is ExecutionStatus.COMPLETED


def test_a_cancellation_that_meets_itself_is_done(api: ApiUnderTest) -> None:
    execution_id = api.start()
    api.store.after_write = refused
    answer = api.call(about("cancel_execution", execution_id))
    assert answer["execution"]["status"] == "CANCELLED"


@pytest.mark.parametrize("note", ["x" * 257, "two\nlines", "a\x00b", "\ud800"])
def test_a_note_is_short_and_printable(api: ApiUnderTest, note: str) -> None:
    execution_id = api.start()
    assert error_of(api.call(about("cancel_execution", execution_id, reason=note)))[0] == (
        "INVALID_INPUT"
    )
    assert stored(api, ExecutionRef("acme", execution_id)).status is ExecutionStatus.PENDING


@pytest.mark.parametrize("note", [None, ""])
def test_a_note_may_be_left_out(api: ApiUnderTest, note: str | None) -> None:
    answer = api.call(about("cancel_execution", api.start(), reason=note))
    assert answer["execution"]["note"] is None


# --- Register ------------------------------------------------------------------------------


def test_versions_count_from_one_and_the_latest_again_is_answered(api: ApiUnderTest) -> None:
    again = api.register()["workflow"]
    assert (again["id"], again["version"], again["nodeCount"]) == ("invoices", 1, 2)
    changed = api.register(definition="id: invoices\nnodes: [{id: a, task: t}]")["workflow"]
    assert (changed["version"], changed["hash"] != again["hash"]) == (2, True)
    assert api.register()["workflow"]["version"] == 3


@pytest.mark.parametrize(
    ("definition", "place"),
    [
        ("id: w\nnodes: [", "line 3, column 1: not YAML"),
        ('{"id": "w",', "line 1, column 12: not JSON"),
        ("", "document: is empty"),
        ("id: w\nnodes: [{id: a, task: t, needs: [b]}]", "nodes[0].needs[0] (line 2): no node"),
        ("id: w\nnodes: [{id: a, task: t, timeout_s: 601}]", "nodes[0].timeout_s (line 2): 601 s"),
        ("x" * (MAX_BYTES + 1), f"document: {MAX_BYTES + 1} bytes"),
    ],
)
def test_a_faulty_definition_is_refused_with_the_place(
    api: ApiUnderTest, definition: str, place: str
) -> None:
    event = recorded("register_workflow")
    event["arguments"]["definition"] = definition
    code, message = error_of(api.call(event))
    assert code == "INVALID_DEFINITION"
    assert message.startswith(place)


# --- How any mutation fails ----------------------------------------------------------------


def test_a_slow_dependency_is_busy(api: ApiUnderTest) -> None:
    execution_id = api.run(api.start()).execution_id
    api.store.after_write = lost
    assert error_of(api.call(about("resume_execution", execution_id)))[0] == "BUSY"


def test_a_fault_of_ours_is_told_by_reference_alone(api: ApiUnderTest) -> None:
    def explode(outcome: Outcome) -> Outcome:
        raise RuntimeError(f"secret detail {outcome}")

    execution_id = api.start()
    api.store.after_write = explode
    answer = api.call(about("resume_execution", execution_id))
    code, message = error_of(answer)
    assert code == "INTERNAL"
    assert REQUEST_ID in message
    assert "secret" not in json.dumps(answer)
    (line,) = [json.loads(line) for line in api.log.getvalue().splitlines() if "secret" in line]
    assert line["correlation_id"] == execution_id
    assert line["function_request_id"] == REQUEST_ID
    assert "RuntimeError" in line["exception"]


def test_logs_and_answers_do_not_repeat_the_input(
    api: ApiUnderTest, capsys: pytest.CaptureFixture[str]
) -> None:
    event = recorded("start_execution")
    event["arguments"]["input"] |= {"input": {"iban": "DE02120300000000202051"}, "unheard": 1}
    answer = api.call(event)
    event["arguments"]["input"].pop("unheard")
    api.call(event)
    assert "DE0212" not in json.dumps(answer) + api.log.getvalue() + capsys.readouterr().out


def test_a_mutation_is_logged_under_the_execution_it_is_about(api: ApiUnderTest) -> None:
    execution_id = api.start()
    api.call(about("cancel_execution", execution_id))
    done = [json.loads(line) for line in api.log.getvalue().splitlines() if '"done"' in line]
    assert [(line["field"], line.get("correlation_id")) for line in done] == [
        ("registerWorkflow", None),
        ("startExecution", execution_id),
        ("cancelExecution", execution_id),
    ]
    assert {(line["tenant"], line["caller"]) for line in done} == {("acme", "olga")}


@pytest.mark.parametrize("name", ["resume_execution", "register_workflow", "start_execution"])
def test_an_event_without_its_arguments_is_a_fault_of_ours(api: ApiUnderTest, name: str) -> None:
    assert error_of(api.call({**recorded(name), "arguments": {}}))[0] == "INTERNAL"
