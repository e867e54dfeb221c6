"""Stored rows: what is written is what is read, and anything else is a bug."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piton.domain.errors import Bug
from piton.domain.retry import RetryPolicy
from piton.domain.rows import (
    NODE_SK_END,
    AttemptPolicy,
    ExecutionRef,
    ExecutionRow,
    LogEntry,
    NodeRow,
    Value,
    node_ordinal,
    node_sk,
)
from piton.domain.status import ExecutionStatus, NodeStatus
from piton.storage.views import ExecutionView, NodeView

NODE: dict[str, Value] = {
    "pk": "EX#acme#01K",
    "sk": "NODE#00007",
    "node_id": "extract",
    "node_status": "running",
    "node_resolved": frozenset({1, 2}),
    "node_declined": frozenset({2}),
    "node_pool": "large",
    "node_attempt": 2,
    "node_fence": 3,
    "node_sends": 1,
    "node_not_before": 10,
    "node_queued_at": 11,
    "node_sent_at": 12,
    "node_claimed_at": 13,
    "node_finished_at": 14,
    "node_lease_owner": "host/1",
    "node_lease_until": 15,
    "node_policy": [900_000, 3, 1000, 60_000],
    "node_result": "{}",
    "node_result_ref": "acme/01K/hash",
    "node_result_hash": "hash",
    "node_reason": "TASK_ERROR",
    "node_scope": "scope",
    "node_code_hash": "code",
    "node_progress": 40,
    "node_progress_note": "half-way",
    "node_log": [{"t": "N1", "at": 11, "f": 1, "a": 1}],
}
EXECUTION: dict[str, Value] = {
    "pk": "EX#acme#01K",
    "sk": "META",
    "exec_status": "cancelled",
    "exec_workflow_id": "invoices",
    "exec_workflow_version": 4,
    "exec_definition_hash": "hash",
    "exec_root_id": "01J",
    "exec_scope": "{}",
    "exec_created_at": 1,
    "exec_ends_by": 2,
    "expires_at": 3,
    "exec_deadline": 4,
    "exec_started_at": 5,
    "exec_finished_at": 6,
    "exec_reason": "DEADLINE_PASSED",
    "exec_node": "extract",
    "exec_actor": "someone",
    "exec_note": "because",
    "exec_resumes": 2,
    "exec_resumed_at": 7,
    "exec_resumed_by": "operator",
    "exec_parked": "SWEEP_FAILED",
    "due_at": 8,
    "exec_log": [{"t": "E1", "at": 1, "by": "someone"}],
}


def test_every_stored_attribute_of_a_node_is_read() -> None:
    row = NodeRow.from_attributes(NODE)
    assert row.status is NodeStatus.RUNNING
    assert row.taken == {1}
    assert row.policy == AttemptPolicy(900_000, RetryPolicy(3, 1.0, 60.0))
    assert row.log == (LogEntry("N1", 11, fence=1, attempt=1),)
    blank = NodeRow(7)
    unread = [f.name for f in fields(row) if getattr(row, f.name) == getattr(blank, f.name)]
    assert unread == ["ordinal"]


def test_every_stored_attribute_of_an_execution_is_read() -> None:
    row = ExecutionRow.from_attributes(EXECUTION)
    assert row.ref == ExecutionRef("acme", "01K")
    assert row.status is ExecutionStatus.CANCELLED
    assert row.log == (LogEntry("E1", 1, actor="someone"),)
    assert all(getattr(row, f.name) for f in fields(row))


def test_views_name_every_attribute_that_rows_read() -> None:
    assert set(NODE) == set(NodeView.FULL.value)
    assert set(EXECUTION) == set(ExecutionView.FULL.value)


def test_a_row_that_has_only_resolved_edges_is_pending() -> None:
    row = NodeRow.from_attributes({"pk": "EX#a#b", "sk": "NODE#00001", "node_id": "n"})
    assert (row.status, row.terminal, row.taken) == (NodeStatus.PENDING, False, frozenset())
    assert row.policy is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sk", "META"),
        ("sk", "NODE#"),
        ("sk", "NODE#x"),
        ("node_id", 1),
        ("node_status", "done"),
        ("node_status", None),
        ("node_resolved", [1]),
        ("node_fence", "1"),
        ("node_fence", True),
        ("node_progress", "40"),
        ("node_policy", [1, 2]),
        ("node_policy", [900_000, 0, 1000, 60_000]),
        ("node_policy", "text"),
        ("node_log", {}),
        ("node_log", ["N1"]),
        ("node_log", [{"t": "N1", "at": "now"}]),
        ("node_log", [{"t": "N1", "at": 1, "f": "1"}]),
    ],
)
def test_a_malformed_node_is_a_bug(name: str, value: Value) -> None:
    with pytest.raises(Bug):
        NodeRow.from_attributes({**NODE, name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pk", "EX#acme"),
        ("pk", "WF#acme#w"),
        ("pk", "EX##01K"),
        ("exec_status", "done"),
        ("exec_status", ""),
        ("exec_created_at", None),
        ("exec_deadline", "soon"),
        ("exec_log", None),
    ],
)
def test_a_malformed_execution_is_a_bug(name: str, value: Value) -> None:
    with pytest.raises(Bug):
        ExecutionRow.from_attributes({**EXECUTION, name: value})


# --- Keys ----------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 99_999), min_size=2, max_size=5))
def test_sort_keys_of_nodes_order_as_their_ordinals(ordinals: list[int]) -> None:
    keys = [node_sk(ordinal) for ordinal in ordinals]
    assert [node_ordinal(key) for key in sorted(keys)] == sorted(ordinals)
    assert max(keys) < NODE_SK_END


@given(st.from_regex(r"[a-z][a-z0-9-]{1,32}", fullmatch=True), st.text(min_size=1))
def test_partition_keys_read_back(tenant: str, execution_id: str) -> None:
    ref = ExecutionRef(tenant, execution_id)
    assert ExecutionRef.from_pk(ref.pk) == ref


# --- History -------------------------------------------------------------------------------

TEXTS = st.none() | st.text()
NUMBERS = st.none() | st.integers(0)
ENTRIES = st.builds(
    LogEntry,
    transition=st.text(min_size=1),
    at=st.integers(0),
    fence=NUMBERS,
    attempt=NUMBERS,
    reason=TEXTS,
    owner=TEXTS,
    code=TEXTS,
    not_before=NUMBERS,
    actor=TEXTS,
)


@given(ENTRIES)
def test_history_entries_read_back(entry: LogEntry) -> None:
    stored = entry.to_value()
    assert LogEntry.from_value(stored) == entry
    assert None not in stored.values()


def test_a_history_entry_is_stored_without_what_it_does_not_say() -> None:
    assert LogEntry("N2", 5).to_value() == {"t": "N2", "at": 5}


@given(st.integers(1, 10**9), st.integers(1, 100), st.integers(0, 10**6), st.integers(0, 10**6))
def test_attempt_policies_read_back_to_the_millisecond(
    timeout_ms: int, attempts: int, base_ms: int, more_ms: int
) -> None:
    retry = RetryPolicy(attempts, base_ms / 1000, (base_ms + more_ms) / 1000)
    policy = AttemptPolicy(timeout_ms, retry)
    assert policy.to_value() == [timeout_ms, attempts, base_ms, base_ms + more_ms]
    stored: Any = policy.to_value()
    assert AttemptPolicy.from_value(stored) == policy
