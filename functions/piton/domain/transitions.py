"""The state machine: every transition, who makes it, and what repairs it after a crash.

The table is rendered into the documentation. Operations name the row they carry out, and a test
keeps their guards inside `allowed_from`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from piton.domain.status import EventType, ExecutionStatus, NodeStatus


class Actor(StrEnum):
    """Who carries out a transition."""

    COMMANDS = "commands"
    FRONTIER = "frontier"
    STEP_RUNNER = "step runner"
    WORKER = "worker"
    SWEEP = "sweep"
    DEAD_LETTERS = "dead letters"
    DRAIN = "drain"


class Heals(StrEnum):
    """What repairs the system when the actor dies right before or right after the write."""

    LOST_FRONTIER = "lost frontier"
    LOST_DISPATCH = "lost dispatch"
    STALLED = "stalled node"
    LOST_FINALISE = "lost finalise"
    DRAIN = "drain"
    DUE = "due list"
    CALLER = "the caller repeats it"


DISPATCH: Final = "dispatch"


@dataclass(frozen=True, slots=True)
class Transition:
    """One row of the state machine. Statuses are those of nodes or of executions, not mixed."""

    id: str
    allowed_from: frozenset[NodeStatus] | frozenset[ExecutionStatus]
    to: NodeStatus | ExecutionStatus | None
    trigger: str
    actors: tuple[Actor, ...]
    messages: tuple[str, ...]
    heals: Heals


def _node(
    id_: str,
    allowed_from: set[NodeStatus],
    to: NodeStatus,
    trigger: str,
    actors: tuple[Actor, ...],
    messages: tuple[str, ...],
    heals: Heals,
) -> Transition:
    return Transition(id_, frozenset(allowed_from), to, trigger, actors, messages, heals)


def _execution(
    id_: str,
    allowed_from: set[ExecutionStatus],
    to: ExecutionStatus | None,
    trigger: str,
    actors: tuple[Actor, ...],
    messages: tuple[str, ...],
    heals: Heals,
) -> Transition:
    return Transition(id_, frozenset(allowed_from), to, trigger, actors, messages, heals)


_N, _E = NodeStatus, ExecutionStatus

TRANSITIONS: Final[tuple[Transition, ...]] = (
    _node(
        "N1",
        {_N.PENDING},
        _N.QUEUED,
        "all in-edges are resolved and one is taken",
        (Actor.FRONTIER,),
        (DISPATCH,),
        Heals.LOST_FRONTIER,
    ),
    _node(
        "N2",
        {_N.PENDING},
        _N.SKIPPED,
        "all in-edges are resolved and none is taken",
        (Actor.FRONTIER,),
        (EventType.NODE_SKIPPED,),
        Heals.LOST_FRONTIER,
    ),
    _node(
        "N3",
        {_N.PENDING},
        _N.COMPLETED,
        "a gate is ready",
        (Actor.FRONTIER,),
        (EventType.NODE_COMPLETED,),
        Heals.LOST_FRONTIER,
    ),
    _node(
        "N4",
        {_N.QUEUED},
        _N.RUNNING,
        "a worker claims the message of this fence, not before its time",
        (Actor.WORKER,),
        (),
        Heals.STALLED,
    ),
    _node(
        "N5",
        {_N.RUNNING},
        _N.RUNNING,
        "a third of the lease has passed, or the task reports progress",
        (Actor.WORKER,),
        (),
        Heals.STALLED,
    ),
    _node(
        "N6",
        {_N.RUNNING},
        _N.COMPLETED,
        "the task returned a result",
        (Actor.WORKER,),
        (EventType.NODE_COMPLETED,),
        Heals.LOST_FRONTIER,
    ),
    _node(
        "N7",
        {_N.RUNNING},
        _N.QUEUED,
        "a transient failure or a stall, with attempts and time left",
        (Actor.WORKER, Actor.SWEEP),
        (DISPATCH,),
        Heals.LOST_DISPATCH,
    ),
    _node(
        "N8",
        {_N.RUNNING},
        _N.FAILED,
        "a permanent failure, or attempts or time used up",
        (Actor.WORKER, Actor.SWEEP),
        (EventType.NODE_FAILED,),
        Heals.LOST_FRONTIER,
    ),
    _node(
        "N9",
        {_N.QUEUED},
        _N.QUEUED,
        "nobody claimed the dispatch in time, or an operator resumes",
        (Actor.SWEEP, Actor.STEP_RUNNER),
        (DISPATCH,),
        Heals.LOST_DISPATCH,
    ),
    _node(
        "N10",
        {_N.QUEUED},
        _N.QUEUED,
        "the dispatch reached the dead-letter queue and attempts are left (else as N8)",
        (Actor.DEAD_LETTERS,),
        (DISPATCH, EventType.NODE_FAILED),
        Heals.LOST_DISPATCH,
    ),
    _node(
        "N13",
        {_N.QUEUED, _N.WAITING},
        _N.CANCELLED,
        "the execution has ended",
        (Actor.DRAIN,),
        (),
        Heals.DRAIN,
    ),
    _node(
        "N14",
        {_N.RUNNING},
        _N.CANCELLED,
        "the execution has ended and the lease is over or the body hangs",
        (Actor.DRAIN,),
        (),
        Heals.DRAIN,
    ),
    _node(
        "N15",
        {_N.RUNNING},
        _N.CANCELLED,
        "the claim was won and the execution turns out to have ended",
        (Actor.WORKER,),
        (),
        Heals.DRAIN,
    ),
    _execution(
        "E1",
        set(),
        _E.PENDING,
        "startExecution",
        (Actor.COMMANDS,),
        (EventType.START_REQUESTED,),
        Heals.DUE,
    ),
    _execution(
        "E2",
        {_E.PENDING},
        _E.RUNNING,
        "the start request arrives, or the sweep finds it overdue",
        (Actor.STEP_RUNNER, Actor.SWEEP),
        (EventType.WORKFLOW_STARTED,),
        Heals.LOST_FRONTIER,
    ),
    _execution(
        "E3",
        {_E.RUNNING},
        _E.COMPLETED,
        "the end gate is completed",
        (Actor.FRONTIER,),
        (EventType.WORKFLOW_COMPLETED,),
        Heals.LOST_FINALISE,
    ),
    _execution(
        "E4",
        {_E.RUNNING},
        _E.FAILED,
        "a node failed and no failure edge is taken, or an edge condition cannot be evaluated",
        (Actor.FRONTIER,),
        (EventType.WORKFLOW_FAILED,),
        Heals.LOST_FINALISE,
    ),
    _execution(
        "E5",
        {_E.PENDING, _E.RUNNING},
        _E.CANCELLED,
        "cancelExecution",
        (Actor.COMMANDS,),
        (EventType.WORKFLOW_CANCELLED,),
        Heals.CALLER,
    ),
    _execution(
        "E6",
        {_E.PENDING, _E.RUNNING},
        _E.CANCELLED,
        "the caller's deadline has passed and what had finished was taken in first",
        (Actor.SWEEP,),
        (EventType.WORKFLOW_CANCELLED,),
        Heals.DUE,
    ),
    _execution(
        "E7",
        {_E.RUNNING},
        _E.FAILED,
        "the workflow's timeout has passed and what had finished was taken in first",
        (Actor.SWEEP,),
        (EventType.WORKFLOW_FAILED,),
        Heals.DUE,
    ),
    _execution(
        "E8",
        {_E.RUNNING},
        _E.RUNNING,
        "resumeExecution",
        (Actor.COMMANDS,),
        (EventType.RESUME_REQUESTED,),
        Heals.DUE,
    ),
    _execution(
        "E9",
        {_E.COMPLETED, _E.FAILED, _E.CANCELLED},
        None,
        "long after the end, a sweep finds nothing queued, running or waiting",
        (Actor.SWEEP,),
        (),
        Heals.DUE,
    ),
)

BY_ID: Final = {transition.id: transition for transition in TRANSITIONS}
