"""Bodies that follow a script, and the runner that gives them virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from local.simulator.generate import PERMANENT_CODE, TRANSIENT_CODE
from local.simulator.scenario import Behaviour, BodyPlan, NodePlan
from piton.domain import canonical
from piton.domain.canonical import Json
from piton.domain.errors import Retry
from piton.ports import BodyOutcome, Clock, LeaseLost, Raised, Returned, TimedOut
from piton.tasks import Context, Inputs, Permanent, Task, Transient

LARGE_PAD: Final = 300
RESULT_LIMIT: Final = 2000
_RENEWAL_RETRY_MS: Final = 1000
_PREFIX: Final = "body."

BodyStarts = Callable[[Context, Inputs], None]


class BrokenBodyError(Exception):
    """What a body raises that the engine knows nothing about."""


@dataclass(frozen=True, slots=True)
class Script:
    """What a scripted body hands to its runner: an outcome that takes virtual time to appear."""

    outcome: Returned | Raised
    duration_ms: int
    reports: tuple[Callable[[], None], ...] = ()
    hangs: bool = False


def result_of(node_id: str, behaviour: Behaviour, inputs: Json) -> Json:
    """The result of a body that returns: a pure function of what it was given."""
    seen = canonical.digest(canonical.dumps([node_id, inputs]))
    value: dict[str, Json] = {"v": int(seen[:8], 16) % 100, "seen": seen[:12]}
    if behaviour is Behaviour.RETURNS_LARGE:
        value["pad"] = "x" * LARGE_PAD
    return value


class ScriptedTasks:
    """`ports.TaskRegistry` of a scenario. `starts` is told of every body that starts."""

    def __init__(self, plans: Mapping[str, NodePlan], starts: BodyStarts) -> None:
        self._plans = plans
        self._starts = starts

    def find(self, name: str) -> Task | None:
        """Return the task, or None when the scenario wants it to be missing."""
        plan = self._plans.get(name.removeprefix(_PREFIX))
        if plan is None or not name.startswith(_PREFIX):
            return None
        return Task(name, partial(self._run, plan), None, None)

    def _run(self, plan: NodePlan, context: Context, inputs: Inputs) -> Script:
        self._starts(context, inputs)
        body = plan.attempt(context.attempt)
        outcome = _outcome(plan.id, body, inputs)
        _scribble(inputs)
        share = 1 / (body.reports + 1)
        reports = tuple(
            partial(context.progress, share * (number + 1)) for number in range(body.reports)
        )
        return Script(
            outcome,
            body.duration_ms if body.behaviour is not Behaviour.TIMES_OUT else 2**40,
            reports,
            hangs=body.behaviour is Behaviour.HANGS,
        )


def _scribble(value: object) -> None:
    """Change all of what a body was given, so that it shows when others were given the same."""
    match value:
        case dict():
            for part in value.values():
                _scribble(part)
            value.clear()
            value["scribbled"] = True
        case list():
            for part in value:
                _scribble(part)
            value.append("scribbled")
        case _:
            pass


def _outcome(node_id: str, body: BodyPlan, inputs: Inputs) -> Returned | Raised:
    match body.behaviour:
        case Behaviour.FAILS_FOR_NOW:
            return Raised(Transient(TRANSIENT_CODE))
        case Behaviour.FAILS_FOR_GOOD:
            return Raised(Permanent(PERMANENT_CODE))
        case Behaviour.BREAKS:
            return Raised(BrokenBodyError("broken"))
        case Behaviour.NOT_JSON:
            return Returned({"set"})
        case Behaviour.TOO_LARGE:
            return Returned("x" * (RESULT_LIMIT + 1))
        case _:
            return Returned(result_of(node_id, body.behaviour, dict(inputs)))


class VirtualRunner:
    """`ports.BodyRunner` in virtual time. Bodies that follow no script take none.

    `sleep` stops the calling strand for some milliseconds. `stall` tells for how long the process
    of the body that starts stands still, its lease with it.
    """

    def __init__(
        self, clock: Clock, sleep: Callable[[int], None], stall: Callable[[], int]
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._stall = stall

    def run(
        self,
        body: Callable[[], object],
        *,
        timeout_ms: int,
        heartbeat_ms: int,
        renew: Callable[[], bool],
    ) -> BodyOutcome:
        """Run `body`; see the port."""
        try:
            value = body()
        except Exception as error:  # noqa: BLE001
            # Named outcome: whatever a body raises is the attempt's failure.
            return Raised(error)
        if not isinstance(value, Script):
            return Returned(value)
        return self._follow(value, timeout_ms, heartbeat_ms, renew)

    def _follow(
        self, script: Script, timeout_ms: int, heartbeat_ms: int, renew: Callable[[], bool]
    ) -> BodyOutcome:
        start = self._clock.monotonic_ms()
        marks = _marks(script, start)
        end = 2**62 if script.hangs else start + script.duration_ms
        limit = 2**62 if script.hangs else start + timeout_ms
        beat = start + heartbeat_ms
        if stands_still := self._stall():
            self._sleep(stands_still)
        while True:
            mark = marks[0][0] if marks else end
            self._sleep(max(0, min(beat, end, limit, mark) - self._clock.monotonic_ms()))
            now = self._clock.monotonic_ms()
            if marks and now >= marks[0][0]:
                try:
                    marks.pop(0)[1]()
                except Exception as error:  # noqa: BLE001
                    # Named outcome: the body does not catch what a report raises.
                    return Raised(error)
            elif now >= end:
                return script.outcome
            elif now >= limit:
                return TimedOut()
            elif now >= beat:
                try:
                    if not renew():
                        return LeaseLost()
                    beat = now + heartbeat_ms
                except Retry:
                    beat = now + _RENEWAL_RETRY_MS


def _marks(script: Script, start: int) -> list[tuple[int, Callable[[], None]]]:
    apart = min(script.duration_ms, 60_000) // (len(script.reports) + 1)
    return [(start + apart * (i + 1), report) for i, report in enumerate(script.reports)]
