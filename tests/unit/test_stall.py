"""When an attempt counts as dead, a dispatch as lost, and an execution as due."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piton.domain.retry import RetryPolicy
from piton.domain.rows import AttemptPolicy, ExecutionRef, ExecutionRow, NodeRow
from piton.domain.settings import DAY, MINUTE, SECOND, Settings
from piton.domain.stall import next_due_at, resend_due_at, stall_reason
from piton.domain.status import ExecutionStatus, NodeStatus, Reason

SETTINGS = Settings()
NOW = 1_760_000_000_000


def running(**changes: int) -> NodeRow:
    policy = AttemptPolicy(changes.pop("timeout_ms", 60 * SECOND), RetryPolicy())
    row = NodeRow(0, status=NodeStatus.RUNNING, claimed_at=NOW, lease_until=NOW, policy=policy)
    return replace(row, **changes)  # type: ignore[arg-type]


def queued(**changes: int) -> NodeRow:
    row = NodeRow(0, status=NodeStatus.QUEUED, not_before=NOW, sent_at=NOW)
    return replace(row, **changes)  # type: ignore[arg-type]


EXECUTION = ExecutionRow(
    ref=ExecutionRef("acme", "01K"),
    status=ExecutionStatus.RUNNING,
    workflow_id="w",
    workflow_version=1,
    definition_hash="d",
    root_id="01K",
    scope="{}",
    created_at=NOW,
    ends_by=NOW + DAY,
    expires_at=1,
)


# --- Attempts ------------------------------------------------------------------------------


def test_an_attempt_is_dead_once_its_lease_has_run_out() -> None:
    row = running(lease_until=NOW + 30 * SECOND)
    assert stall_reason(row, NOW + 30 * SECOND, SETTINGS) is None
    assert stall_reason(row, NOW + 30 * SECOND + 1, SETTINGS) is Reason.LEASE_EXPIRED


def test_a_body_hangs_after_its_timeout_times_the_factor_though_its_lease_lives() -> None:
    row = running(timeout_ms=10 * SECOND, lease_until=NOW + DAY)
    assert stall_reason(row, NOW + 20 * SECOND, SETTINGS) is None
    assert stall_reason(row, NOW + 20 * SECOND + 1, SETTINGS) is Reason.NODE_HUNG


def test_an_attempt_without_a_recorded_policy_has_the_settings_timeout() -> None:
    row = replace(running(lease_until=NOW + DAY), policy=None)
    limit = SETTINGS.node_timeout_ms * SETTINGS.stall_factor
    assert limit == 1800 * SECOND
    assert stall_reason(row, NOW + limit, SETTINGS) is None
    assert stall_reason(row, NOW + limit + 1, SETTINGS) is Reason.NODE_HUNG


# --- Dispatches ----------------------------------------------------------------------------


def test_the_wait_for_a_lost_dispatch_doubles_up_to_the_slowest_sweep() -> None:
    waits = [SETTINGS.resend_after_ms(sends) // MINUTE for sends in range(7)]
    assert waits == [1, 2, 4, 8, 15, 15, 15]
    assert SETTINGS.resend_after_ms(10**6) == SETTINGS.sweep_slowest_ms


def test_the_wait_begins_when_the_node_may_run_or_with_the_last_send() -> None:
    assert resend_due_at(queued(not_before=NOW + DAY), SETTINGS) == NOW + DAY + MINUTE
    assert resend_due_at(queued(sent_at=NOW + 5, sends=1), SETTINGS) == NOW + 5 + 2 * MINUTE


# --- Executions ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "wait_ms"),
    [
        ([], 55 * SECOND),
        ([running(lease_until=NOW + 45 * SECOND)], 45 * SECOND + 1),
        ([running(lease_until=NOW + 1)], 30 * SECOND),
        ([running(lease_until=NOW + DAY)], 55 * SECOND),
        ([queued(not_before=NOW - 20 * SECOND, sent_at=NOW - 20 * SECOND)], 40 * SECOND),
        ([queued(not_before=NOW + DAY)], 55 * SECOND),
        ([NodeRow(0, status=NodeStatus.COMPLETED)], 55 * SECOND),
        ([NodeRow(0, status=NodeStatus.WAITING)], 15 * MINUTE),
        ([NodeRow(0, status=NodeStatus.WAITING), running(lease_until=NOW + DAY)], 55 * SECOND),
    ],
)
def test_a_live_execution_is_due_at_its_next_event_within_the_interval(
    rows: list[NodeRow], wait_ms: int
) -> None:
    assert next_due_at(EXECUTION, rows, NOW, SETTINGS) - NOW == wait_ms


def test_the_end_of_an_execution_is_an_event_too() -> None:
    ending = replace(EXECUTION, ends_by=NOW + 50 * SECOND)
    assert next_due_at(ending, [], NOW, SETTINGS) == NOW + 50 * SECOND
    waiting = [NodeRow(0, status=NodeStatus.WAITING)]
    assert next_due_at(ending, waiting, NOW, SETTINGS) == NOW + 50 * SECOND


def test_a_parked_execution_is_looked_at_in_the_slowest_interval() -> None:
    parked = replace(EXECUTION, parked="SWEEP_FAILED")
    assert next_due_at(parked, [running()], NOW, SETTINGS) == NOW + SETTINGS.sweep_slowest_ms
    ending = replace(parked, ends_by=NOW + MINUTE)
    assert next_due_at(ending, [], NOW, SETTINGS) == NOW + MINUTE


ROWS = st.lists(
    st.builds(
        NodeRow,
        ordinal=st.just(0),
        status=st.sampled_from(NodeStatus),
        not_before=st.integers(NOW - DAY, NOW + DAY),
        sent_at=st.integers(NOW - DAY, NOW + DAY),
        sends=st.integers(0, 9),
        lease_until=st.integers(NOW - DAY, NOW + DAY),
    ),
    max_size=4,
)


@given(ROWS, st.integers(NOW - DAY, NOW + DAY), st.none() | st.just("SWEEP_FAILED"))
def test_the_next_look_is_never_far_and_never_in_the_past(
    rows: list[NodeRow], ends_by: int, parked: str | None
) -> None:
    execution = replace(EXECUTION, ends_by=ends_by, parked=parked)
    due_at = next_due_at(execution, rows, NOW, SETTINGS)
    assert NOW <= due_at <= NOW + SETTINGS.sweep_slowest_ms


# --- Settings ------------------------------------------------------------------------------


def test_a_lease_outlives_two_failed_renewals() -> None:
    assert 3 * SETTINGS.heartbeat_ms <= SETTINGS.lease_ms


def test_a_finished_execution_is_kept_due_longer_than_a_straggling_write_can_come() -> None:
    """The end is noted by a clock that is behind; the sweep goes by one that is ahead."""
    ended_at, skew = NOW, SETTINGS.clock_skew_ms
    noted = ended_at - skew
    latest_write = ended_at + 2 * SETTINGS.handler_timeout_ms
    assert noted + SETTINGS.drain_ms == latest_write + skew
