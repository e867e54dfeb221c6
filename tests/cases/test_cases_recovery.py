"""Public failure cases, section C: recovery and resume."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations

import pytest

from handlers.step_runner import route
from piton.adapters.conditions import check_condition
from piton.contracts import StartExecutionInput
from piton.domain.compile import compile_graph
from piton.domain.errors import Bug, Rejected, Stale
from piton.domain.messages import Dispatch
from piton.domain.rows import ExecutionRef
from piton.domain.settings import MINUTE
from piton.domain.status import EventType, ExecutionStatus, NodeStatus, Reason
from piton.ports import Counter
from piton.storage import keys
from piton.storage.algebra import Item
from piton.tasks import Task
from tests.support.actors import Fault
from tests.support.cases import (
    about_to_record,
    chain,
    dispatches,
    envelope_of,
    go,
    go_with_fault,
    is_dispatch,
    is_event,
    let_out,
    parcels,
    runs_of,
    set_attributes,
    sweep_when_due,
    transitions,
)
from tests.support.chaos import Script, check_end, drive, settle
from tests.support.engine import OPERATOR, PLENTY_MS, Engine
from tests.support.plans import INPUT, POOLS, WORKFLOW_ID, Behaviour, Plan, join_of

ENDS = is_event(EventType.NODE_COMPLETED, EventType.NODE_FAILED, EventType.NODE_SKIPPED)


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.UNANSWERED, Fault.CRASH_AFTER])
@pytest.mark.parametrize("step", range(0, 40, 3))
def test_case_20_what_a_broken_sweep_leaves_the_next_one_takes(step: int, fault: Fault) -> None:
    """The store goes away in the midst of a sweep over several executions and stays away."""
    with Engine(chain(Behaviour())) as engine:
        asked = StartExecutionInput.model_validate({"workflow": WORKFLOW_ID, "input": INPUT})
        others = [engine.commands.start_execution(OPERATOR, asked).execution.ref for _ in range(4)]
        engine.collect()
        engine.flight.clear()
        engine.clock.now += 2 * MINUTE
        sweep = engine.start_sweep()
        go(engine, sweep, step)
        while not sweep.ended:
            engine.stage.step(sweep, fault)
        for _ in range(2):
            engine.clock.now += MINUTE
            engine.sweep.run(10, lambda: PLENTY_MS)
        for ref in [engine.ref, *others]:
            execution = engine.rows.get_execution(ref)
            assert execution is not None
            assert execution.status is ExecutionStatus.RUNNING
            assert execution.parked is None
            [row] = engine.rows.query_nodes(ref)
            assert row.status is NodeStatus.QUEUED


@pytest.mark.parametrize("died", range(3, 7))
def test_case_21_a_claim_belongs_to_one_claim_of_one_process(died: int) -> None:
    """A process takes the message of its former self: the name is the same, the lease is not."""
    with Engine(chain(Behaviour())) as engine:
        [parcel] = settle(engine, held=is_dispatch)
        former = engine.deliver(parcel, keep=True)
        go(engine, former, died)
        engine.stage.clear()
        assert isinstance(parcel.message, Dispatch)
        with pytest.raises(Stale):
            engine.work.run(parcel.message, PLENTY_MS)
        assert engine.figures.counts[Counter.CLAIM_REFUSED] == 1
        engine.collect()
        engine.flight.clear()
        engine.clock.now += engine.settings.lease_ms + 1
        sweep_when_due(engine)
        drive(engine, Script())
        owners = [entry.owner for entry in engine.nodes()["n0"].log if entry.owner]
        assert len(owners) == len(set(owners)) == 2
        assert {owner.split("/")[0] for owner in owners} == {"host"}
        check_end(engine)


@pytest.mark.parametrize("lost", range(4))
def test_case_22_one_sweep_finds_what_is_ready_while_nothing_runs(lost: int) -> None:
    """The news that would have woken the next node, or the end, is gone."""
    with Engine(chain(*[Behaviour()] * 4)) as engine:
        for _ in range(lost + 1):
            held = settle(engine, held=ENDS)
            for parcel in held:
                if len(engine.bodies_run) <= lost:
                    go(engine, engine.deliver(parcel))
                else:
                    engine.flight.remove(parcel)
        assert len(engine.bodies_run) == lost + 1
        before = engine.clock.now
        sweep_when_due(engine)
        assert engine.clock.now - before <= engine.settings.sweep_latest_ms
        if lost == 3:
            assert engine.execution().status is ExecutionStatus.COMPLETED
        else:
            assert engine.nodes()[f"n{lost + 1}"].status is NodeStatus.QUEUED
        settle(engine, held=lambda _: False)
        assert engine.execution().status is ExecutionStatus.COMPLETED
        drive(engine, Script())
        check_end(engine)


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("step", range(6))
def test_case_22_one_sweep_finds_what_a_dead_step_runner_left(step: int, nodes: int) -> None:
    """It died behind one of its writes, also between the last node's end and the execution's."""
    with Engine(chain(*[Behaviour()] * nodes)) as engine:
        [parcel] = settle(engine, held=ENDS)
        go_with_fault(engine, engine.deliver(parcel), step, Fault.CRASH_AFTER)
        engine.flight.clear()
        if not engine.execution().terminal:
            sweep_when_due(engine)
        if nodes == 1:
            assert engine.execution().status is ExecutionStatus.COMPLETED
        else:
            assert engine.nodes()["n1"].status is NodeStatus.QUEUED
        drive(engine, Script())
        check_end(engine)


def elsewhere(engine: Engine) -> ExecutionRef:
    """An execution of which nothing is stored any more."""
    return replace(engine.ref, execution_id="01K" + "Z" * 23)


@pytest.mark.parametrize("state", ["missing", "cancelled", "completed"])
def test_case_25_messages_about_what_is_gone_end_there(state: str) -> None:
    """Every message is taken from its queue and writes nothing."""
    with Engine(chain(Behaviour(), Behaviour())) as engine:
        if state == "cancelled":
            settle(engine, held=is_dispatch)
            go(engine, engine.start_cancel())
        settle(engine, held=lambda _: False)
        if state == "missing":
            with pytest.raises(Rejected):
                engine.commands.resume_execution(OPERATOR, elsewhere(engine).execution_id)
        ref = elsewhere(engine) if state == "missing" else engine.ref
        written = len(engine.feed)
        for message in list(engine.sent):
            if isinstance(message, Dispatch):
                with pytest.raises(Stale):
                    engine.work.run(replace(message, ref=ref), PLENTY_MS)
            elif message.type is EventType.WORKFLOW_CANCELLED and state == "cancelled":
                engine.advance.ended(ref)
            else:
                with pytest.raises(Stale):
                    route(engine.advance, envelope_of(message, ref))
        assert engine.collect() == []
        assert len(engine.feed) == written
        assert runs_of(engine, "n0") <= 1


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
@pytest.mark.parametrize("step", range(6))
@pytest.mark.parametrize("by", ["start", "advance", "retry", "sweep"])
def test_case_26_a_queued_node_has_its_dispatch_whoever_dies(
    by: str, step: int, fault: Fault
) -> None:
    """Nobody comes by afterwards: the stored change alone is what sends."""
    with Engine(chain(Behaviour(stumbles=int(by == "retry")), Behaviour())) as engine:
        held: Callable[..., bool] = {
            "start": is_event(EventType.START_REQUESTED),
            "advance": ENDS,
            "retry": is_dispatch,
            "sweep": ENDS,
        }[by]
        [parcel] = settle(engine, held=held)
        if by == "sweep":
            engine.flight.remove(parcel)
            engine.clock.now = max(engine.clock.now, engine.execution().due_at or 0)
            actor = engine.start_sweep()
        else:
            actor = engine.deliver(parcel)
        if by == "retry":
            about_to_record(engine, actor)
            go(engine, actor, 1, fault)
        else:
            go_with_fault(engine, actor, step, fault)
        engine.stage.clear()
        engine.collect()
        for row in engine.nodes().values():
            if row.status is NodeStatus.QUEUED:
                sent = {each.fence for each in dispatches(engine, row.node_id)}
                assert row.fence in sent
        assert [m for m in let_out(engine) if is_dispatch(m)] == [
            m for m in engine.sent if is_dispatch(m)
        ]


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
@pytest.mark.parametrize("path", ["message", "resume", "sweep"])
@pytest.mark.parametrize("gate_width", [2, 256])
def test_case_27_inputs_do_not_depend_on_who_dispatched(
    gate_width: int, path: str, order: tuple[int, ...]
) -> None:
    """A join behind three nodes that end in any order: the same input to the last byte.

    The engine under test compares what every body is given with a run in sequence.
    """
    with Engine(join_of(3, gate_width)) as engine:
        waiting = settle(engine, held=is_dispatch)
        for index in order:
            engine.clock.now += 1
            engine.deliver(waiting[index])
            settle(engine, held=lambda message: is_dispatch(message) or ENDS(message))
        for parcel in parcels(engine, ENDS):
            if path == "message":
                go(engine, engine.deliver(parcel))
            else:
                engine.flight.remove(parcel)
        if path == "resume":
            go(engine, engine.start_resume())
        drive(engine, Script())
        assert runs_of(engine, "join") == 1
        assert engine.violations == []
        check_end(engine)


def test_case_32_a_dispatch_that_names_another_node_runs_nothing() -> None:
    """The place in the definition and the name must agree, else it is a fault with a name."""
    with Engine(chain(Behaviour(), Behaviour())) as engine:
        [parcel] = settle(engine, held=is_dispatch)
        dispatch = parcel.message
        assert isinstance(dispatch, Dispatch)
        before = engine.nodes()
        for other in (
            replace(dispatch, node_id="n1"),
            replace(dispatch, ordinal=1),
            replace(dispatch, ordinal=engine.graph.end),
            replace(dispatch, ordinal=99),
            replace(dispatch, ordinal=-1),
        ):
            with pytest.raises(Bug, match="dispatch"):
                engine.work.run(other, PLENTY_MS)
        assert engine.nodes() == before
        assert engine.bodies_run == []


def test_case_32_a_task_that_the_code_lost_is_a_terminal_named_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Engine(chain(Behaviour(), Behaviour())) as engine:
        held = settle(engine, held=lambda m: isinstance(m, Dispatch) and m.node_id == "n1")

        def find(_: Engine, name: str) -> Task | None:
            del name
            return None

        monkeypatch.setattr(Engine, "find", find)
        go(engine, engine.deliver(held[0]))
        settle(engine, held=lambda _: False)
        execution, row = engine.execution(), engine.nodes()["n1"]
        assert (row.status, row.reason) == (NodeStatus.FAILED, Reason.TASK_NOT_FOUND)
        assert (row.result_hash, runs_of(engine, "n1")) == ("", 0)
        assert (execution.status, execution.reason) == (
            ExecutionStatus.FAILED,
            Reason.TASK_NOT_FOUND,
        )


@pytest.mark.parametrize("moment", range(1, 4))
def test_case_33_an_execution_keeps_the_definition_that_it_started_with(moment: int) -> None:
    """Every new version meanwhile is for those who start later."""
    with Engine(chain(*[Behaviour()] * 3)) as engine:
        held = settle(engine, held=lambda m: is_dispatch(m) and len(engine.bodies_run) >= moment)
        edited = chain(Behaviour(), Behaviour()).specs
        graph = compile_graph(WORKFLOW_ID, edited, pools=POOLS, check_condition=check_condition)
        later = engine.workflows.register(OPERATOR.tenant, '{"edited":1}', graph, 1, "me")
        assert later.version == 2
        assert held or moment == 3
        drive(engine, Script())
        execution = engine.execution()
        assert (execution.workflow_version, execution.status) == (1, ExecutionStatus.COMPLETED)
        assert [run for run, _ in engine.bodies_run] == ["n0", "n1", "n2"]
        check_end(engine)


def test_case_33_a_definition_that_changed_under_its_version_is_refused_by_name() -> None:
    with Engine(chain(Behaviour(), Behaviour())) as engine:
        [parcel] = settle(engine, held=is_dispatch)
        set_attributes(engine.rows, keys.meta(engine.ref), Item.META, exec_definition_hash="0" * 64)
        assert isinstance(parcel.message, Dispatch)
        with pytest.raises(Bug, match="is not the registered definition"):
            engine.work.run(parcel.message, PLENTY_MS)
        assert engine.bodies_run == []
        assert transitions(engine, "n0") == ["N1"]


@pytest.mark.parametrize("path", ["retry", "resume", "sweep"])
def test_case_35_the_failure_of_one_node_does_not_run_its_sibling_again(path: str) -> None:
    """Two roots and a join: the long one stumbles, then loses its message."""
    plan = join_of(2)
    plan = Plan(plan.specs, {**plan.behaviours, "r1": Behaviour(stumbles=2)})
    with Engine(plan) as engine:
        settle(engine, held=lambda m: isinstance(m, Dispatch) and m.attempt == 2)
        short = engine.nodes()["r0"]
        assert short.status is NodeStatus.COMPLETED
        if path != "retry":
            engine.flight.clear()
        if path == "resume":
            go(engine, engine.start_resume())
        drive(engine, Script())
        assert engine.nodes()["r0"] == short
        assert (runs_of(engine, "r0"), runs_of(engine, "r1"), runs_of(engine, "join")) == (1, 3, 1)
        check_end(engine)
