"""What can never change any more, and therefore need not be tried in every order.

Statuses only go forward, fences only grow, rows that have ended stay as they are: the rules say
so, and every commit of the exploration is held against them.
"""

from __future__ import annotations

from local.model.calls import Calls
from local.model.questions import Act, Call, ReadsExecution, ReadsNodes, Writes
from local.model.rows import ABSENT
from local.model.space import META, RowNumbers, Space, place_of
from piton.domain.messages import Dispatch
from piton.domain.rows import NodeRow
from piton.domain.status import NodeStatus
from piton.storage import operations as op
from piton.storage.algebra import NotExists


def answer_is_settled(space: Space, rows: RowNumbers, calls: Calls, number: int) -> bool:
    """True when a call's next answer is the same now and at any later time."""
    match calls.question(number):
        case ReadsExecution():
            return space.execution(rows[META]).terminal and not calls.is_sweep(number)
        case ReadsNodes(tuple(ordinals)):
            return all(_has_ended(space, rows, ordinal) for ordinal in ordinals)
        case Writes() as question:
            row = rows[place_of(question.key.sk)]
            refused = space.table.apply(question.operation, row, question.args) is None
            return refused and _is_refused_for_good(space, rows, question)
        case _:
            return False


def message_is_dead(space: Space, rows: RowNumbers, call: Call) -> bool:
    """True when a message can have no effect any more, whenever it is delivered."""
    ended = space.execution(rows[META]).terminal
    match call:
        case Call(Act.WORK, ordinal, Dispatch() as dispatch):
            row = space.node(rows[1 + ordinal], ordinal)
            return row.fence > dispatch.fence or row.status is not NodeStatus.QUEUED
        case Call(Act.ADVANCE, ordinal):
            return ended or _leads_nowhere(space, rows, ordinal)
        case Call(Act.START | Act.RESUME):
            return ended
        case _:
            return False


def _is_refused_for_good(space: Space, rows: RowNumbers, question: Writes) -> bool:
    guards = question.operation.guard
    place = place_of(question.key.sk)
    if place == META:
        names_status = any(guard.attribute == "exec_status" for guard in guards)
        return names_status and space.execution(rows[META]).terminal
    if rows[place] == ABSENT:
        return False
    row = space.node(rows[place], place - 1)
    if row.terminal or _is_overtaken(row, question):
        return True
    wants_undecided = any(
        isinstance(guard, NotExists) and guard.attribute == "node_status" for guard in guards
    )
    return wants_undecided and row.status is not NodeStatus.PENDING


def _is_overtaken(row: NodeRow, question: Writes) -> bool:
    fence = question.args.get("fence")
    if not isinstance(fence, int):
        return False
    claims = question.operation.name == op.CLAIM.name
    return row.fence > fence or (claims and row.status is NodeStatus.RUNNING)


def _has_ended(space: Space, rows: RowNumbers, ordinal: int) -> bool:
    row = rows[1 + ordinal]
    return row != ABSENT and space.node(row, ordinal).terminal


def _leads_nowhere(space: Space, rows: RowNumbers, ordinal: int) -> bool:
    """True when every target of an ended node is decided and the end gate is none of them."""
    graph = space.small.graph
    targets = {edge.target for edge in graph.out_edges[ordinal]}
    source = space.node(rows[1 + ordinal], ordinal)
    return (
        source.status is not NodeStatus.FAILED
        and graph.end not in targets
        and all(
            rows[1 + target] != ABSENT
            and space.node(rows[1 + target], target).status is not NodeStatus.PENDING
            for target in targets
        )
    )
