"""All crash points of a workflow on the deployed stacks: one execution for each, all at a time."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from local.client import ApiError, ApiRejected
from local.crashtest.compare import changing_results
from local.crashtest.deployed.audit import Seen, collect, problem
from local.crashtest.deployed.proxy import Proxy
from local.crashtest.deployed.report import DeployedReport
from local.crashtest.deployed.rig import STEP_RUNNER, WATCHDOG, Rig, rigged
from local.crashtest.deployed.traps import Run, Spot, Trap
from local.crashtest.ending import Ending
from local.crashtest.points import Side
from local.crashtest.sweep import CrashtestError
from local.demo.clock import CLOCK, until
from local.demo.ledger import ENDS_OF_EXECUTIONS
from local.simulator.host import Violation
from piton.domain.canonical import Json
from piton.storage import operations as op

Advanced = Callable[[str, int, int], None]
"""Told of the phase, how many executions have ended in it, and how many there are."""

_CLEAN_RUNS: Final = 3
_ROUNDS: Final = 2
_STARTS: Final = 5
_END_DEADLINE_S: Final = 120.0
_MORE_FOR_EACH_S: Final = 10.0
_QUIET_DEADLINE_S: Final = 120.0
_LOOK_EVERY_S: Final = 0.5
_HIDDEN_LONGER_S: Final = 30


def run(
    rig: Rig,
    text: str,
    execution_input: Mapping[str, Json],
    *,
    advanced: Advanced = lambda _phase, _done, _total: None,
) -> DeployedReport:
    """Kill the process at each call of a workflow, before and after it, and judge what is left.

    Then kill the watchdog as well, at each kind of write that repairs what the first kill left.
    Raises `CrashtestError` when the workflow cannot be tested, `DeadlinePassed` when executions do
    not end.
    """
    began = CLOCK.monotonic_ms()
    with rigged(rig) as proxies:
        sweep = _Sweep(rig, proxies, text, execution_input, advanced)
        sweep.singly()
        sweep.in_pairs()
    sweep.report.wall_s = (CLOCK.monotonic_ms() - began) / 1000
    return sweep.report


@dataclass
class _Sweep:
    rig: Rig
    proxies: Sequence[Proxy]
    text: str
    input: Mapping[str, Json]
    advanced: Advanced
    report: DeployedReport = field(init=False)

    def __post_init__(self) -> None:
        try:
            self._workflow = self.rig.api.register(self.text)["id"]
        except ApiRejected as refusal:
            raise CrashtestError(str(refusal)) from refusal
        self._documents = (f"crash/{secrets.token_hex(4)}/{number}" for number in count())
        self._dead_before = self._dead_letters()
        # Processes that have yet to load make other calls, and keep messages for too long.
        self._to_the_end("warm-up", [Run(next(self._documents))])
        runs = [Run(next(self._documents)) for _ in range(_CLEAN_RUNS)]
        ids = self._to_the_end("without a crash", runs)
        endings = [_ending(seen) for seen in collect(self.rig, list(ids.values())).values()]
        self._clean = endings[0]
        self._unstable = frozenset(
            node for other in endings[1:] for node in changing_results(self._clean, other)
        )
        # In the order in which the first run made them, as far as the others did so too.
        self._calls = {
            spot: writes
            for spot, writes in runs[0].calls.items()
            if all(spot in other.calls for other in runs)
        }
        self.report = DeployedReport(self._workflow, str(self._clean), len(self._calls))

    def singly(self) -> None:
        """Kill at each call of the clean runs."""
        wanted = [
            (Trap(spot, side),)
            for spot, writes in self._calls.items()
            for side in _sides(writes=writes)
        ]
        self._crash("one kill", wanted)

    def in_pairs(self) -> None:
        """Kill the watchdog too, at each kind of write that repairs what the first kill left."""
        first_of_kind: dict[str, tuple[Trap, str]] = {}
        for spot, writes in self._calls.items():
            for side, repair in _repairs(spot) if writes else ():
                kind = repair.partition(" ")[0]
                first_of_kind.setdefault(kind, (Trap(spot, side), repair))
        wanted = [
            (first, Trap(Spot(WATCHDOG, repair), side))
            for first, repair in first_of_kind.values()
            for side in Side
        ]
        # The watchdog shall come before the message that the first process had taken.
        self.rig.hide_for(_HIDDEN_LONGER_S)
        self._crash("two kills", wanted)

    def _crash(self, phase: str, wanted: Sequence[tuple[Trap, ...]]) -> None:
        """Run one execution for each, and once more if its traps were not reached."""
        for _ in range(_ROUNDS):
            if not wanted:
                return
            runs = [Run(next(self._documents), traps) for traps in wanted]
            ids = self._to_the_end(phase, runs)
            seen = collect(self.rig, list(ids.values()))
            dead = self._dead_letters() - self._dead_before
            for each in runs:
                id_ = ids[each.document]
                found = problem(seen[id_], self._clean, self._unstable)
                if found is None and dead:
                    found = f"{dead} messages came to the dead letters meanwhile"
                self.report.add(each, id_, found)
            wanted = [tuple(each.traps) for each in runs if not each.is_through]
        self.report.unreached += [", then ".join(map(str, traps)) for traps in wanted]

    def _to_the_end(self, phase: str, runs: Sequence[Run]) -> Mapping[str, str]:
        """Start an execution for each run, see all of them to their end; ids by document.

        Nobody sweeps before each has lost its process: what is to be interrupted is not done by
        the watchdog then.
        """
        ids: dict[str, str] = {}
        for each in runs:
            self.rig.traps.watch(each)
            ids[each.document] = self._start(each.document)

        def all_have_ended() -> bool:
            ended = self._ended(ids.values())
            self.advanced(phase, len(ended), len(runs))
            if len(ended) == len(runs):
                return True
            if all(each.sprung or ids[each.document] in ended for each in runs):
                self._sweep_once()
            return False

        deadline_s = _END_DEADLINE_S + _MORE_FOR_EACH_S * len(runs)
        until(all_have_ended, deadline_s, "the end of all", every_s=_LOOK_EVERY_S)
        # What a dead process had taken comes back, and has to be of no consequence by now.
        until(self.rig.is_quiet, _QUIET_DEADLINE_S, "empty queues", every_s=_LOOK_EVERY_S)
        if errors := [error for proxy in self.proxies for error in proxy.errors]:
            raise CrashtestError(f"a call could not be dealt with: {errors[0]}")
        return ids

    def _start(self, document: str) -> str:
        asked = {
            "workflow": self._workflow,
            "input": self.input,
            "idempotency": {"document": document},
        }
        for again in reversed(range(_STARTS)):
            try:
                id_: str = self.rig.api.start(asked)["execution"]["id"]
            except ApiError as error:
                # The process that took it died: whoever asked asks again for the same document.
                if not again:
                    raise CrashtestError(str(error)) from error
            else:
                return id_
        raise AssertionError("unreachable")

    def _sweep_once(self) -> None:
        """Let the watchdog come by; it may die on its way."""
        stack = self.rig.stack
        stack.aws.functions.invoke(FunctionName=stack.function(WATCHDOG))

    def _ended(self, execution_ids: Iterable[str]) -> set[str]:
        ends = [fact for fact in self.rig.tap.facts() if fact.type in ENDS_OF_EXECUTIONS]
        return {fact.execution_id for fact in ends} & {*execution_ids}

    def _dead_letters(self) -> int:
        sqs = self.rig.stack.aws.sqs
        name: Final = "ApproximateNumberOfMessages"
        return sum(
            int(sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"][name])
            for url in self.rig.last_queues
        )


def _repairs(spot: Spot) -> Iterator[tuple[Side, str]]:
    """On which side of this call a crash leaves work for the watchdog, and its write."""
    kind, _, row = spot.what.partition(" ")
    if spot.function == STEP_RUNNER:
        yield Side.BEFORE, spot.what
    elif kind == op.CLAIM.name:
        yield Side.BEFORE, f"{op.RESEND.name} {row}"
        yield Side.AFTER, f"{op.RETRY_STALLED.name} {row}"


def _sides(*, writes: bool) -> tuple[Side, ...]:
    """The sides that differ in what they leave behind: a read leaves nothing."""
    return (Side.BEFORE, Side.AFTER) if writes else (Side.BEFORE,)


def _ending(seen: Seen) -> Ending:
    try:
        return seen.ending()
    except Violation as violation:
        raise CrashtestError(f"the run without a crash already fails: {violation}") from violation
