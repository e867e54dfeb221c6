"""Does a run with crashes end as the clean one did?"""

from __future__ import annotations

from typing import Final

from local.crashtest.ending import Ending, NodeEnd
from local.simulator.audit import INTERFERENCE
from piton.domain.status import ExecutionStatus, NodeStatus, Reason

_NOT_REACHED: Final = NodeEnd(NodeStatus.PENDING)
_LEFT_OVER: Final = frozenset({NodeStatus.PENDING, NodeStatus.CANCELLED})
"""Where a node may stand, instead of its end, once another one has ended the execution."""


def difference(
    clean: Ending, crashed: Ending, unstable: frozenset[str] = frozenset()
) -> str | None:
    """Say how the end with crashes differs from the clean one, or None when it does not.

    When a node ended the execution, which of its neighbours got how far by then is a matter of
    time, so only what they came to is compared. Results of `unstable` nodes are not.
    """
    if lost := _lost_attempt(clean, crashed):
        return lost
    if crashed.reason != clean.reason and crashed.reason == Reason.TIMED_OUT:
        return "the execution timed out: recovery took longer than its timeout_s allows"
    stopped = clean.status is not ExecutionStatus.COMPLETED
    for node_id in sorted({*clean.nodes, *crashed.nodes}):
        was = clean.nodes.get(node_id, _NOT_REACHED)
        found = crashed.nodes.get(node_id, _NOT_REACHED)
        if stopped and (was.status in _LEFT_OVER or found.status in _LEFT_OVER):
            continue
        if (was.status, was.reason) != (found.status, found.reason):
            return f"{node_id} is {_text(found)}, in the clean run {_text(was)}"
        if was.result != found.result and node_id not in unstable:
            return f"{node_id} has another result than in the clean run"
    same = (crashed.status, crashed.reason, crashed.node) == (
        clean.status,
        clean.reason,
        clean.node,
    )
    if same or (stopped and crashed.status is clean.status and _by_itself(crashed)):
        return None
    return f"the execution is {crashed}, in the clean run {clean}"


def changing_results(one: Ending, other: Ending) -> frozenset[str]:
    """Nodes that completed in both of two clean runs with different results."""
    return frozenset(
        node_id
        for node_id, end in one.nodes.items()
        if node_id in other.nodes
        and end.status is other.nodes[node_id].status is NodeStatus.COMPLETED
        and end.result != other.nodes[node_id].result
    )


def _lost_attempt(clean: Ending, crashed: Ending) -> str | None:
    for node_id, found in crashed.nodes.items():
        lost = found.status is NodeStatus.FAILED and found.reason in INTERFERENCE
        if lost and clean.nodes.get(node_id, _NOT_REACHED).reason != found.reason:
            return (
                f"{node_id} failed with {found.reason}: a crash took the last of its "
                f"{found.attempt} attempt(s), and a higher max_attempts would let it survive"
            )
    return None


def _by_itself(ending: Ending) -> bool:
    """True when the node that ended the execution did so by its own failure."""
    node = ending.nodes.get(ending.node or "", _NOT_REACHED)
    own = node.status is NodeStatus.FAILED and node.reason == ending.reason
    return own or ending.reason == Reason.EDGE_CONDITION_ERROR


def _text(node: NodeEnd) -> str:
    return f"{node.status} with {node.reason}" if node.reason else node.status.value
