"""Replaying a row's history gives the row."""

import pytest

from piton.domain.errors import Bug
from piton.domain.replay import ExecutionState, NodeState, replay_execution, replay_node
from piton.domain.rows import LogEntry
from piton.domain.status import ExecutionStatus, NodeStatus

QUEUED = LogEntry("N1", 10, fence=1, attempt=1)
CLAIMED = LogEntry("N4", 20, fence=1, attempt=1, owner="w/1", code="c")
RETRIED = LogEntry("N7", 30, fence=2, attempt=2, reason="TASK_ERROR", not_before=35)
CLAIMED_AGAIN = LogEntry("N4", 40, fence=2, attempt=2, owner="w/2", code="d")


def test_a_retried_node_that_completes() -> None:
    log = [QUEUED, CLAIMED, RETRIED, CLAIMED_AGAIN, LogEntry("N6", 50, fence=2)]
    assert replay_node(log) == NodeState(
        NodeStatus.COMPLETED,
        fence=2,
        attempt=2,
        not_before=35,
        queued_at=30,
        claimed_at=40,
        finished_at=50,
        lease_owner="",
        code_hash="d",
        reason=None,
    )


def test_a_failure_keeps_its_reason_and_a_running_node_its_owner() -> None:
    running = replay_node([QUEUED, CLAIMED])
    assert (running.status, running.lease_owner) == (NodeStatus.RUNNING, "w/1")
    failed = replay_node([QUEUED, CLAIMED, LogEntry("N8", 30, fence=1, reason="NODE_TIMEOUT")])
    assert (failed.status, failed.reason) == (NodeStatus.FAILED, "NODE_TIMEOUT")


def test_an_undeliverable_dispatch_is_queued_again_or_fails() -> None:
    again = LogEntry("N10", 30, fence=2, attempt=2, reason="DELIVERY_EXHAUSTED", not_before=31)
    assert replay_node([QUEUED, again]).status is NodeStatus.QUEUED
    failed = LogEntry("N10", 30, fence=1, reason="DELIVERY_EXHAUSTED")
    assert replay_node([QUEUED, failed]).status is NodeStatus.FAILED


def test_cancelling_moves_the_fence() -> None:
    state = replay_node([QUEUED, LogEntry("N13", 30, fence=2, reason="EXECUTION_ENDED")])
    assert (state.status, state.fence) == (NodeStatus.CANCELLED, 2)


@pytest.mark.parametrize(
    "log",
    [
        [CLAIMED],
        [QUEUED, QUEUED],
        [QUEUED, CLAIMED, CLAIMED],
        [QUEUED, LogEntry("N4", 20, fence=2, attempt=1, owner="w")],
        [QUEUED, CLAIMED, LogEntry("N6", 30, fence=2)],
        [QUEUED, CLAIMED, LogEntry("N6", 30, fence=1), LogEntry("N8", 40, fence=1)],
        [QUEUED, CLAIMED, LogEntry("N7", 30, fence=2, attempt=3, not_before=31)],
        [QUEUED, CLAIMED, LogEntry("N5", 25, fence=1)],
        [QUEUED, LogEntry("N9", 25, fence=1)],
        [LogEntry("N99", 1)],
        [LogEntry("E1", 1)],
    ],
    ids=lambda log: "-".join(entry.transition for entry in log),
)
def test_an_illegal_history_is_refused(log: list[LogEntry]) -> None:
    with pytest.raises(Bug):
        replay_node(log)


def test_an_execution_from_start_to_end() -> None:
    log = [LogEntry("E1", 1, actor="me"), LogEntry("E2", 2), LogEntry("E4", 9, reason="X_Y")]
    assert replay_execution(log) == ExecutionState(ExecutionStatus.FAILED, 1, 2, 9, "X_Y")


def test_an_execution_may_be_cancelled_before_it_runs() -> None:
    log = [LogEntry("E1", 1), LogEntry("E5", 4, reason="CANCELLED_BY_CALLER")]
    assert replay_execution(log).status is ExecutionStatus.CANCELLED


@pytest.mark.parametrize(
    "transitions",
    [
        ["E2"],
        ["E1", "E1"],
        ["E1", "E3"],
        ["E1", "E2", "E2"],
        ["E1", "E2", "E3", "E4"],
        ["E1", "E2", "E8"],
        ["E1", "E2", "E3", "E9"],
        ["E1", "N1"],
    ],
    ids="-".join,
)
def test_an_illegal_history_of_an_execution_is_refused(transitions: list[str]) -> None:
    with pytest.raises(Bug):
        replay_execution(LogEntry(name, at) for at, name in enumerate(transitions))
