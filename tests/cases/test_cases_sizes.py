"""Public failure cases, section E: size and encoding."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pytest

from bench.ledger import item_size
from piton.domain.compile import Need, NodeSpec, PoolLimits
from piton.domain.retry import RetryPolicy
from piton.domain.rows import ExecutionRef, ExecutionRow, NodeRow
from piton.domain.settings import DAY, Settings
from piton.domain.status import EdgeOn, ExecutionStatus, NodeStatus, Reason
from piton.ports import Applied
from piton.storage import keys
from piton.storage import operations as op
from piton.storage.attributes import decode_item, encode
from piton.storage.sqlite import FeedRecord
from piton.storage.views import ExecutionView, NodeView
from piton.tasks import Context, Inputs, Registry, Task
from tests.support.actors import Fault
from tests.support.cases import (
    chain,
    go,
    go_with_fault,
    is_dispatch,
    parcels,
    sweep_when_due,
    transitions,
)
from tests.support.chaos import Script, check_end, drive, settle
from tests.support.embedded import OPERATOR, Embedded
from tests.support.engine import Engine
from tests.support.plans import Behaviour, Plan, join_of

DYNAMODB_ITEM_BYTES = 400 * 1024


@dataclass
class Ran:
    """An execution at its end, and what its bodies were given."""

    execution: ExecutionRow
    nodes: dict[str, NodeRow]
    given: dict[str, list[dict[str, Any]]]
    feed: list[FeedRecord] = field(repr=False)

    @property
    def largest_item(self) -> int:
        return max(item_size(record.new) for record in self.feed)


@contextmanager
def bodies(**results: Callable[[], object]) -> Iterator[tuple[Embedded, dict[str, list[Any]]]]:
    """An engine with tasks that return what these functions return."""
    given: dict[str, list[Any]] = {}
    tasks = Registry()
    for name, result in results.items():

        def body(context: Context, inputs: Inputs, result: Callable[[], object] = result) -> object:
            given.setdefault(context.node_id, []).append(dict(inputs))
            return result()

        tasks.add(Task(name, body, RetryPolicy(5, 0.0, 0.0), None))
    with Embedded(tasks, {"default": PoolLimits(50)}) as engine:
        yield engine, given


def run(nodes: Sequence[tuple[str, str, Sequence[str]]], **results: Callable[[], object]) -> Ran:
    """Run a workflow of `(id, task, needs)`."""
    listed = [{"id": id_, "task": task, "needs": list(needs)} for id_, task, needs in nodes]
    with bodies(**results) as (engine, given):
        engine.register(json.dumps({"id": "w", "nodes": listed}))
        ref = ExecutionRef(str(OPERATOR.tenant), engine.start("w", {}))
        engine.run_to_end()
        execution = engine.rows.get_execution(ref, ExecutionView.FULL)
        assert execution is not None
        rows = engine.rows.query_nodes(ref, NodeView.FULL)
        return Ran(
            execution,
            {row.node_id: row for row in rows},
            given,
            engine.rows.read_feed(0, 100_000),
        )


@pytest.mark.usefixtures("metrics_named")
def test_case_49_no_item_grows_with_the_number_of_nodes() -> None:
    """220 nodes of 2 KB, all of which one node needs."""
    roots = [(f"r{i}", "text", ()) for i in range(220)]
    ran = run(
        [*roots, ("join", "done", [id_ for id_, _, _ in roots])],
        text=lambda: "x" * 2048,
        done=lambda: None,
    )
    assert ran.execution.status is ExecutionStatus.COMPLETED
    [given] = ran.given["join"]
    assert given["nodes"] == {id_: "x" * 2048 for id_, _, _ in roots}
    assert ran.largest_item < 8 * 1024


@pytest.mark.usefixtures("metrics_named")
@pytest.mark.parametrize("excess", [-2, -1, 0, 1, 1000 * 1024])
def test_case_49_a_result_beyond_the_set_size_is_stored_apart_with_its_hash(excess: int) -> None:
    settings = Settings()
    quotes = 2
    text = "x" * (settings.inline_bytes - quotes + excess)
    ran = run([("a", "text", ()), ("b", "done", ["a"])], text=lambda: text, done=lambda: None)
    row = ran.nodes["a"]
    assert bool(row.result_ref) is (excess > 0)
    assert bool(row.result) is (excess <= 0)
    assert row.result_hash
    assert ran.given["b"][0]["nodes"] == {"a": text}
    assert ran.largest_item < settings.inline_bytes + 4096


@pytest.mark.usefixtures("metrics_named")
@pytest.mark.parametrize("excess", [0, 1, 1024 * 1024])
def test_case_50_what_is_too_large_fails_at_once_and_for_good(excess: int) -> None:
    """The task would be allowed five attempts."""
    text = "é" + "x" * (Settings().result_limit_bytes - 4 + excess)
    ran = run([("a", "text", ()), ("b", "done", ["a"])], text=lambda: text, done=lambda: None)
    assert len(ran.given["a"]) == 1
    if excess == 0:
        assert ran.execution.status is ExecutionStatus.COMPLETED
    else:
        row = ran.nodes["a"]
        assert (row.status, row.attempt) == (NodeStatus.FAILED, 1)
        assert row.reason == ran.execution.reason == Reason.RESULT_TOO_LARGE
        assert "b" not in ran.given


@pytest.mark.parametrize("fault", [f for f in Fault if f is not Fault.NONE])
@pytest.mark.parametrize("step", range(12))
def test_case_52_a_large_result_is_recorded_once(step: int, fault: Fault) -> None:
    """It lies under its content, so whatever is repeated repeats neither body nor transition."""
    with Engine(chain(Behaviour(), Behaviour()), Settings(inline_bytes=1)) as engine:
        [parcel] = settle(engine, held=is_dispatch)
        go_with_fault(engine, engine.deliver(parcel), step, fault)
        drive(engine, Script())
        row = engine.nodes()["n0"]
        assert not row.result
        assert row.result_ref
        assert transitions(engine, "n0").count("N6") == 1
        check_end(engine)
        # One body for the input and one for each node, however many attempts there were.
        stored = [key for (key,) in engine.rows.database.read("SELECT key FROM blobs", ())]
        results = {node.result_ref for node in engine.nodes().values() if node.result_ref}
        assert len(results) == 2
        assert results <= set(stored)
        assert len(stored) == 3


def test_case_53_history_lies_with_its_node_and_not_with_the_execution() -> None:
    """Three and sixty nodes: the row that all share is as long, and so is each other."""
    sizes = {}
    for width in (3, 60):
        with Engine(join_of(width)) as engine:
            settle(engine, held=lambda _: False)
            assert engine.execution().status is ExecutionStatus.COMPLETED
            sizes[width] = (
                len(engine.execution().log),
                {len(row.log) for row in engine.nodes().values()},
            )
    assert sizes[3] == sizes[60]


def test_case_53_the_longest_history_of_a_node_fits_its_row() -> None:
    """As many attempts as can be asked for, each with heartbeats and repeated dispatches."""
    with Engine(chain(Behaviour(stumbles=99))) as engine:
        settle(engine, held=lambda _: False)
        row = engine.nodes()["n0"]
        assert (row.status, row.attempt) == (NodeStatus.COMPLETED, 100)
        assert len(row.log) == 201
        assert max(item_size(record.new) for record in engine.feed) < DYNAMODB_ITEM_BYTES // 10
        check_ended(engine)


def test_case_53_what_goes_on_and_on_leaves_no_history() -> None:
    """A day of sweeps, repeated dispatches and hourly resumes, and many heartbeats."""
    with Engine(chain(Behaviour())) as engine:
        settle(engine, held=is_dispatch)
        until = engine.clock.now + DAY
        while engine.clock.now < until:
            engine.flight.clear()
            for _ in range(4):
                sweep_when_due(engine)
            go(engine, engine.start_resume())
            settle(engine, held=is_dispatch)
        assert engine.execution().resumes >= 24
        row = engine.nodes()["n0"]
        worker = engine.deliver(parcels(engine, is_dispatch)[-1])
        while not engine.bodies_run:
            go(engine, worker, 1)
        claimed = engine.nodes()["n0"]
        for _ in range(300):
            engine.clock.now += engine.settings.heartbeat_ms
            args = {"fence": 1, "lease_until": engine.clock.now + engine.settings.lease_ms}
            assert engine.rows.apply(op.RENEW_LEASE, keys.node(engine.ref, 0), args) == Applied()
        assert engine.nodes()["n0"].log == claimed.log == (*row.log, claimed.log[-1])
        assert transitions(engine, "n0") == ["N1", "N4"]
        assert len(engine.execution().log) == 2
        assert max(item_size(record.new) for record in engine.feed) < 2048


def check_ended(engine: Engine) -> None:
    drive(engine, Script())
    check_end(engine)


VALUES: list[Any] = [
    0.1,
    2.0,
    2,
    -0.0,
    1e300,
    5e-324,
    12345678901234567890.0,
    2**53 + 1,
    10**40,
    True,
    1,
    None,
    {},
    {"a": None},
    [],
    "",
    "0",
    "ünï😀",
    {"rows": [{"n": 3, "net": 19.99, "vat": 0.19}], "total": -0.5},
]


@pytest.mark.usefixtures("metrics_named")
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_case_55_a_value_arrives_as_it_was_returned(value: Any) -> None:
    """Type, sign and all, and in a form that DynamoDB's attributes carry."""
    ran = run([("a", "value", ()), ("b", "done", ["a"])], value=lambda: value, done=lambda: None)
    assert ran.execution.status is ExecutionStatus.COMPLETED
    arrived = ran.given["b"][0]["nodes"]["a"]
    assert repr(arrived) == repr(value)
    for record in ran.feed:
        assert decode_item({name: encode(each) for name, each in record.new.items()}) == record.new


@pytest.mark.usefixtures("metrics_named")
@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, {1: "x"}, {None: 1}, [math.nan], {"a": {"b": {2.0: 1}}}, b"x"],
    ids=repr,
)
def test_case_55_what_json_does_not_have_fails_by_name_and_is_not_tried_again(value: Any) -> None:
    ran = run([("a", "value", ()), ("b", "done", ["a"])], value=lambda: value, done=lambda: None)
    row = ran.nodes["a"]
    assert (row.status, row.reason) == (NodeStatus.FAILED, Reason.RESULT_NOT_JSON)
    assert len(ran.given["a"]) == 1
    assert ran.execution.status is ExecutionStatus.FAILED


def branches(taken: Sequence[bool], gate_width: int) -> Plan:
    """Roots that ask `flag`, a join of them, and a node behind the join."""
    ids = [f"r{i}" for i in range(len(taken))]
    specs = [NodeSpec(id_, task="body") for id_ in ids]
    needs = tuple(Need(id_, EdgeOn.SUCCESS, "flag") for id_ in ids)
    specs += [
        NodeSpec("join", task="body", needs=needs),
        NodeSpec("after", task="body", needs=(Need("join"),)),
    ]
    flags = {id_: Behaviour(flag=flag) for id_, flag in zip(ids, taken, strict=True)}
    return Plan(tuple(specs), {**flags, "join": Behaviour(), "after": Behaviour()}, gate_width)


@pytest.mark.parametrize("gate_width", [2, 256])
@pytest.mark.parametrize("taken", list(product([False, True], repeat=3)), ids=str)
def test_case_58_a_join_runs_if_one_edge_is_taken_and_is_skipped_if_none_is(
    taken: tuple[bool, ...], gate_width: int
) -> None:
    """And what is behind a skipped node is skipped too."""
    with Engine(branches(taken, gate_width)) as engine:
        settle(engine, held=lambda _: False)
        expected = NodeStatus.COMPLETED if any(taken) else NodeStatus.SKIPPED
        assert {engine.nodes()[id_].status for id_ in ("join", "after")} == {expected}
        ran = {node_id for node_id, _ in engine.bodies_run}
        assert ({"join", "after"} <= ran) is any(taken)
        assert engine.execution().status is ExecutionStatus.COMPLETED
        check_ended(engine)


def test_case_58_a_declined_edge_beside_a_skipped_predecessor_runs_nothing() -> None:
    """`a` does not reach `b`, so `b` is skipped; `c` needs `b` alone."""
    specs = (
        NodeSpec("a", task="body"),
        NodeSpec("b", task="body", needs=(Need("a", EdgeOn.SUCCESS, "flag"),)),
        NodeSpec("c", task="body", needs=(Need("b", EdgeOn.ALWAYS),)),
    )
    behaviours = {"a": Behaviour(flag=False), "b": Behaviour(), "c": Behaviour()}
    with Engine(Plan(specs, behaviours)) as engine:
        settle(engine, held=lambda _: False)
        statuses = {id_: engine.nodes()[id_].status for id_ in "abc"}
        assert statuses == {
            "a": NodeStatus.COMPLETED,
            "b": NodeStatus.SKIPPED,
            "c": NodeStatus.SKIPPED,
        }
        check_ended(engine)
