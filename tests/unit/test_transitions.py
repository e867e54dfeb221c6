"""The transition table against the operations that carry it out."""

from __future__ import annotations

import pytest

from piton.domain.messages import Dispatch, execution_messages, node_messages
from piton.domain.rows import ExecutionRow, NodeRow, Value
from piton.domain.status import ExecutionStatus, NodeStatus
from piton.domain.transitions import BY_ID, DISPATCH, TRANSITIONS, Transition
from piton.storage import evaluate
from piton.storage import operations as op
from piton.storage.algebra import (
    AddToSet,
    Append,
    AtMost,
    Const,
    Eq,
    In,
    Increment,
    Item,
    NotExists,
    Operation,
    Remove,
    Set,
    SetIfMissing,
)
from piton.storage.operations import OPERATIONS
from tests.support.store import key_of, sample_args, satisfying

Status = NodeStatus | ExecutionStatus

STATUS_OF = {Item.NODE: "node_status", Item.META: "exec_status"}
PREFIXES = {
    Item.NODE: ("node_", "dead_", "expires_at"),
    Item.META: ("exec_", "due_", "tenant_", "expires_at"),
    Item.INPUT: ("input_", "expires_at"),
    Item.IDEMPOTENCY: ("idem_", "expires_at"),
    Item.WORKFLOW: ("wf_",),
}
REPEATABLE = {"N5", "N9", "E8", "E9"}
"""Heartbeats, re-sends and resumes come any number of times; retiring is no news."""

STATUS_WRITES = tuple(o for o in OPERATIONS if o.transition is not None)


def name_of(operation: Operation) -> str:
    return operation.name


def status_named(item: Item, text: object) -> Status:
    return NodeStatus(str(text)) if item is Item.NODE else ExecutionStatus(str(text))


def froms(operation: Operation) -> set[Status]:
    """Statuses under which the operation's guard can hold."""
    attribute = STATUS_OF[operation.item]
    [guard] = [g for g in operation.guard if g.attribute == attribute]
    match guard:
        case NotExists():
            return {NodeStatus.PENDING} if operation.item is Item.NODE else set()
        case Eq(operand=Const(value)):
            return {status_named(operation.item, value)}
        case In(values=values):
            return {status_named(operation.item, value) for value in values}
        case _:
            raise AssertionError(f"{operation.name} does not fix the status it starts from")


def target(operation: Operation) -> Status | None:
    """The status that the operation writes, None when it leaves it as it is."""
    attribute = STATUS_OF[operation.item]
    written = [c for c in operation.changes if c.attribute == attribute]
    if not written:
        return None
    [change] = written
    assert isinstance(change, Set)
    assert isinstance(change.operand, Const)
    return status_named(operation.item, change.operand.value)


def transition_of(operation: Operation) -> Transition:
    return BY_ID[str(operation.transition)]


def messages_of(operation: Operation) -> list[str]:
    """What one sample application of the operation lets out, by name."""
    key, args = key_of(operation.item), sample_args(operation)
    before: dict[str, Value] = satisfying(operation.guard, args)
    after = evaluate.apply(operation, before, args)
    assert after is not None
    place: dict[str, Value] = {"pk": key.pk, "sk": key.sk}
    if operation.item is Item.NODE:
        row = NodeRow.from_attributes({**after, **place})
        old = NodeRow.from_attributes({**before, **place}) if before else None
        ref = ExecutionRow.from_attributes(META | place).ref
        found = node_messages(ref, old, row)
    else:
        had = ExecutionRow.from_attributes({**META, **before, **place}) if before else None
        found = execution_messages(had, ExecutionRow.from_attributes({**META, **after, **place}))
    return [DISPATCH if isinstance(m, Dispatch) else m.type.value for m in found]


META: dict[str, Value] = {
    "exec_status": "running",
    "exec_workflow_id": "w",
    "exec_workflow_version": 1,
    "exec_definition_hash": "h",
    "exec_root_id": "r",
    "exec_scope": "{}",
    "exec_created_at": 1,
    "exec_ends_by": 2,
    "expires_at": 3,
}


# --- The table itself ----------------------------------------------------------------------


def test_ids_are_unique() -> None:
    assert len(BY_ID) == len(TRANSITIONS)


@pytest.mark.parametrize("transition", TRANSITIONS, ids=lambda t: t.id)
def test_a_terminal_status_never_changes(transition: Transition) -> None:
    if transition.id == "E9":
        assert transition.to is None
    else:
        assert not any(status.terminal for status in transition.allowed_from)


@pytest.mark.parametrize("transition", TRANSITIONS, ids=lambda t: t.id)
def test_every_transition_is_carried_out_by_an_operation(transition: Transition) -> None:
    operations = [o for o in STATUS_WRITES if o.transition == transition.id]
    assert operations
    reached = frozenset[Status]().union(*(froms(o) for o in operations))
    assert reached == frozenset[Status](transition.allowed_from)


# --- Operations that move a status ---------------------------------------------------------


@pytest.mark.parametrize("operation", OPERATIONS, ids=name_of)
def test_whoever_writes_a_status_names_its_transition(operation: Operation) -> None:
    writes_status = any(c.attribute in STATUS_OF.values() for c in operation.changes)
    assert not writes_status or operation.transition is not None


@pytest.mark.parametrize("operation", STATUS_WRITES, ids=name_of)
def test_the_guard_stays_inside_the_transition(operation: Operation) -> None:
    assert froms(operation) <= transition_of(operation).allowed_from


@pytest.mark.parametrize("operation", STATUS_WRITES, ids=name_of)
def test_the_written_status_is_the_transitions(operation: Operation) -> None:
    transition, written = transition_of(operation), target(operation)
    if written is None:
        assert transition.to is None or froms(operation) == {transition.to}
    elif operation is op.FAIL_UNDELIVERED:
        # N10 has two ends: the next attempt, or this one where none is left.
        assert written is NodeStatus.FAILED
    else:
        assert written is transition.to


@pytest.mark.parametrize("transition", TRANSITIONS, ids=lambda t: t.id)
def test_a_transition_lets_out_the_messages_that_the_table_names(transition: Transition) -> None:
    operations = [o for o in STATUS_WRITES if o.transition == transition.id]
    sent = [messages_of(operation) for operation in operations]
    assert {message for messages in sent for message in messages} == set(transition.messages)
    # An operation lets out one message or, where the table names none, nothing.
    assert all(len(messages) == min(1, len(transition.messages)) for messages in sent)


@pytest.mark.parametrize("operation", STATUS_WRITES, ids=name_of)
def test_every_transition_is_recorded_unless_it_may_be_repeated(operation: Operation) -> None:
    log = "node_log" if operation.item is Item.NODE else "exec_log"
    recorded = any(isinstance(c, Append) and c.attribute == log for c in operation.changes)
    assert recorded is (operation.transition not in REPEATABLE)


@pytest.mark.parametrize("operation", [o for o in OPERATIONS if o.transition is None], ids=name_of)
def test_what_moves_no_status_leaves_no_history(operation: Operation) -> None:
    assert not any(isinstance(change, Append) for change in operation.changes)


# --- Fences, leases, edges, life -----------------------------------------------------------


@pytest.mark.parametrize(
    "operation", [o for o in STATUS_WRITES if o.item is Item.NODE], ids=name_of
)
def test_whoever_changes_an_attempt_holds_its_fence(operation: Operation) -> None:
    fenced = any(isinstance(g, Eq) and g.attribute == "node_fence" for g in operation.guard)
    assert fenced is (froms(operation) != {NodeStatus.PENDING})


@pytest.mark.parametrize(
    "operation", [o for o in STATUS_WRITES if o.item is Item.NODE], ids=name_of
)
def test_the_fence_grows_with_every_new_attempt_and_cancel_and_only_then(
    operation: Operation,
) -> None:
    grows = any(isinstance(c, Increment) and c.attribute == "node_fence" for c in operation.changes)
    renewed = target(operation) is NodeStatus.QUEUED and froms(operation) != {NodeStatus.PENDING}
    assert grows is (renewed or target(operation) is NodeStatus.CANCELLED)


@pytest.mark.parametrize(
    "operation", [o for o in STATUS_WRITES if o.item is Item.NODE], ids=name_of
)
def test_a_lease_ends_with_its_attempt(operation: Operation) -> None:
    leaves = NodeStatus.RUNNING in froms(operation) and target(operation) is not None
    removed = {c.attribute for c in operation.changes if isinstance(c, Remove)}
    if leaves:
        assert removed >= {"node_lease_owner", "node_lease_until"}


@pytest.mark.parametrize("operation", OPERATIONS, ids=name_of)
def test_edges_resolve_only_while_a_node_is_undecided(operation: Operation) -> None:
    if any(isinstance(change, AddToSet) for change in operation.changes):
        assert NotExists("node_status") in operation.guard


@pytest.mark.parametrize("operation", OPERATIONS, ids=name_of)
def test_whoever_queues_says_from_when_on(operation: Operation) -> None:
    # A claim asks for AtMost(node_not_before), which is false where the attribute is missing.
    assert any(isinstance(g, AtMost) for g in op.CLAIM.guard)
    if operation.item is Item.NODE and target(operation) is NodeStatus.QUEUED:
        assert any(c.attribute == "node_not_before" for c in operation.changes)


@pytest.mark.parametrize("operation", OPERATIONS, ids=name_of)
def test_a_row_is_born_with_its_end_of_life(operation: Operation) -> None:
    creates = evaluate.apply(operation, None, sample_args(operation)) is not None
    sets = {c.attribute for c in operation.changes if isinstance(c, Set | SetIfMissing)}
    if creates and operation.item is not Item.WORKFLOW:
        assert "expires_at" in sets


@pytest.mark.parametrize("operation", OPERATIONS, ids=name_of)
def test_an_operation_names_an_attribute_once_and_only_its_owners(operation: Operation) -> None:
    names = [change.attribute for change in operation.changes]
    assert len(names) == len(set(names))
    assert all(name.startswith(PREFIXES[operation.item]) for name in operation.attributes)
