"""What a committed change lets out: exact shapes, stable ids, nothing that must stay inside."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piton.domain.messages import (
    MAX_SQS_DELAY_S,
    Dispatch,
    Event,
    Message,
    execution_messages,
    node_messages,
)
from piton.domain.retry import RetryPolicy
from piton.domain.rows import AttemptPolicy, ExecutionRef, ExecutionRow, LogEntry, NodeRow
from piton.domain.scope import Scope
from piton.domain.status import EventType, ExecutionStatus, NodeStatus

GOLDEN = Path(__file__).parent / "golden"
AT = 1_760_000_000_000
REF = ExecutionRef("acme", "01K7A3V5T2N8Q4R6W9X0Y1Z2B3")
SECRET = "words-of-a-document"  # in every field that holds what users or errors said


def node(status: NodeStatus, **changes: Any) -> NodeRow:
    fields: dict[str, Any] = {
        "ordinal": 7,
        "node_id": "extract",
        "status": status,
        "pool": "default",
        "attempt": 2,
        "fence": 3,
        "not_before": AT,
        "sent_at": AT,
        "scope": "5f1c0a9b3e7d2468",
        "result": SECRET,
        "result_ref": SECRET,
        "result_hash": SECRET,
        "lease_owner": SECRET,
        "code_hash": SECRET,
        "progress_note": SECRET,
        "policy": AttemptPolicy(1, RetryPolicy()),
        "log": (LogEntry("N1", AT, reason=SECRET, owner=SECRET),),
    }
    if status.terminal:
        fields["finished_at"] = AT + 5000
    return NodeRow(**fields | changes)


def execution(status: ExecutionStatus, **changes: Any) -> ExecutionRow:
    fields: dict[str, Any] = {
        "ref": REF,
        "status": status,
        "workflow_id": "invoices",
        "workflow_version": 4,
        "definition_hash": SECRET,
        "root_id": SECRET,
        "scope": Scope(scope_ids=frozenset({SECRET})).text,
        "created_at": AT,
        "ends_by": AT + 1,
        "expires_at": AT // 1000,
        "started_at": AT + 1000,
        "actor": SECRET,
        "note": SECRET,
        "resumed_by": SECRET,
        "parked": SECRET,
        "log": (LogEntry("E1", AT, actor=SECRET),),
    }
    if status.terminal:
        fields["finished_at"] = AT + 9000
    return ExecutionRow(**fields | changes)


N, E = NodeStatus, ExecutionStatus
RUNNING = node(N.RUNNING)
SENT: dict[EventType, Callable[[], list[Message]]] = {
    EventType.START_REQUESTED: lambda: execution_messages(
        None, execution(E.PENDING, started_at=None)
    ),
    EventType.WORKFLOW_STARTED: lambda: execution_messages(
        execution(E.PENDING), execution(E.RUNNING)
    ),
    EventType.RESUME_REQUESTED: lambda: execution_messages(
        execution(E.RUNNING, resumes=1), execution(E.RUNNING, resumes=2, resumed_at=AT + 7000)
    ),
    EventType.WORKFLOW_COMPLETED: lambda: execution_messages(
        execution(E.RUNNING), execution(E.COMPLETED)
    ),
    EventType.WORKFLOW_FAILED: lambda: execution_messages(
        execution(E.RUNNING), execution(E.FAILED, reason="XML_MALFORMED", node="extract")
    ),
    EventType.WORKFLOW_CANCELLED: lambda: execution_messages(
        execution(E.RUNNING), execution(E.CANCELLED, reason="CANCELLED_BY_CALLER")
    ),
    EventType.NODE_COMPLETED: lambda: node_messages(REF, RUNNING, node(N.COMPLETED)),
    EventType.NODE_FAILED: lambda: node_messages(
        REF, RUNNING, node(N.FAILED, reason="XML_MALFORMED")
    ),
    EventType.NODE_SKIPPED: lambda: node_messages(REF, None, node(N.SKIPPED, attempt=0, fence=0)),
}


def golden(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text())


def dispatched(old: NodeRow | None, new: NodeRow) -> Dispatch:
    [message] = node_messages(REF, old, new)
    assert isinstance(message, Dispatch)
    return message


# --- Shapes --------------------------------------------------------------------------------


@pytest.mark.parametrize("event_type", SENT, ids=lambda t: t.value)
def test_events_have_exactly_this_shape(event_type: EventType) -> None:
    [message] = SENT[event_type]()
    assert isinstance(message, Event)
    assert message.type is event_type
    assert dict(message.detail) == golden(event_type.value)
    assert message.event_id == message.detail["event_id"]


def test_every_event_type_that_the_engine_sends_has_a_shape() -> None:
    by_setting_only = {EventType.NODE_STARTED}
    assert set(SENT) == set(EventType) - by_setting_only
    assert {path.stem for path in GOLDEN.glob("*.json")} == {*map(str, SENT), "dispatch"}


def test_dispatches_have_exactly_this_shape() -> None:
    dispatch = dispatched(RUNNING, node(N.QUEUED, fence=4, attempt=3, not_before=AT + 1500))
    assert dispatch.to_json() == golden("dispatch")
    assert (dispatch.pool, dispatch.delay_s) == ("default", 2)


# --- When something is sent ----------------------------------------------------------------


def test_a_node_is_dispatched_when_it_is_queued_and_with_every_send() -> None:
    queued = node(N.QUEUED)
    assert dispatched(None, queued).fence == 3
    assert dispatched(node(N.PENDING, fence=0), queued).fence == 3
    assert dispatched(queued, node(N.QUEUED, sends=1)).fence == 3
    assert dispatched(queued, node(N.QUEUED, fence=4)).fence == 4
    assert node_messages(REF, queued, node(N.QUEUED, scope="other")) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (None, node(N.PENDING)),
        (node(N.PENDING), node(N.PENDING, resolved=frozenset({1}))),
        (node(N.QUEUED), node(N.RUNNING)),
        (node(N.RUNNING), node(N.RUNNING, lease_until=9)),
        (node(N.RUNNING), node(N.WAITING)),
        (node(N.RUNNING), node(N.CANCELLED)),
        (node(N.COMPLETED), node(N.COMPLETED, scope="other")),
    ],
)
def test_other_changes_of_a_node_let_nothing_out(old: NodeRow | None, new: NodeRow) -> None:
    assert node_messages(REF, old, new) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (execution(E.RUNNING), execution(E.RUNNING, due_at=1)),
        (execution(E.RUNNING, resumes=2), execution(E.RUNNING, resumes=2, parked=None)),
        (execution(E.COMPLETED), execution(E.COMPLETED, due_at=None)),
        (None, execution(E.COPYING)),
    ],
)
def test_other_changes_of_an_execution_let_nothing_out(
    old: ExecutionRow | None, new: ExecutionRow
) -> None:
    assert execution_messages(old, new) == []


@pytest.mark.parametrize(
    ("wait_ms", "delay_s"),
    [(-5, 0), (0, 0), (1, 1), (1000, 1), (1001, 2), (10**9, MAX_SQS_DELAY_S)],
)
def test_a_dispatch_stays_hidden_until_its_time_as_far_as_the_queue_can(
    wait_ms: int, delay_s: int
) -> None:
    assert dispatched(None, node(N.QUEUED, not_before=AT + wait_ms)).delay_s == delay_s


# --- Any change ----------------------------------------------------------------------------

NODES = st.builds(
    node,
    st.sampled_from(NodeStatus),
    ordinal=st.integers(0, 3),
    fence=st.integers(0, 3),
    attempt=st.integers(0, 3),
    sends=st.integers(0, 2),
    not_before=st.integers(AT, AT + 10**7),
    reason=st.none() | st.just("TASK_ERROR"),
)
EXECUTIONS = st.builds(
    execution, st.sampled_from(ExecutionStatus), resumes=st.integers(0, 3), reason=st.none()
)
EVENT_ID = re.compile(r"[0-9A-Z]{26}/(\d+|-)/\d+/[a-z.]+")


def check_messages(messages: list[Message]) -> None:
    for message in messages:
        text = json.dumps(message.to_json() if isinstance(message, Dispatch) else message.detail)
        assert SECRET not in text
        if isinstance(message, Event):
            assert EVENT_ID.fullmatch(message.event_id)
            assert message.event_id.endswith(f"/{message.type.value}")


@given(st.none() | NODES, NODES)
def test_node_messages_are_a_pure_function_and_hold_no_text(
    old: NodeRow | None, new: NodeRow
) -> None:
    messages = node_messages(REF, old, new)
    assert messages == node_messages(REF, old, new)
    assert len(messages) <= 1
    check_messages(messages)
    for message in messages:
        if isinstance(message, Event):
            assert message.event_id == f"{REF.execution_id}/{new.ordinal}/{new.fence}/" + str(
                message.type
            )


@given(st.none() | EXECUTIONS, EXECUTIONS)
def test_execution_messages_are_a_pure_function_and_hold_no_text(
    old: ExecutionRow | None, new: ExecutionRow
) -> None:
    messages = execution_messages(old, new)
    assert messages == execution_messages(old, new)
    check_messages(messages)
    assert len({m.event_id for m in messages if isinstance(m, Event)}) == len(messages)


@given(NODES, st.integers(1, 5))
def test_a_repeated_send_is_the_same_dispatch(row: NodeRow, sends: int) -> None:
    first = node(N.QUEUED, fence=row.fence, ordinal=row.ordinal)
    again = node(N.QUEUED, fence=row.fence, ordinal=row.ordinal, sends=sends)
    assert dispatched(None, first).to_json() == dispatched(first, again).to_json()
