"""Random scenarios: from one seed to a workflow, its bodies and its faults."""

from __future__ import annotations

from random import Random
from typing import Final

from local.simulator.faults import CALL_FAULTS, MESSAGE_FAULTS, ROLES, Fault, Kind, Place
from local.simulator.randomness import chance, seeded
from local.simulator.scenario import Behaviour, BodyPlan, NodePlan, Scenario, Tempo
from local.simulator.special import overdue, resumed, troubled, unwatched
from piton.domain.compile import Need
from piton.domain.settings import MINUTE
from piton.domain.status import EdgeOn

MOST_NODES: Final = 12
MOST_FAULTS: Final = 9
LONGEST_OUTAGE: Final = 12
"""Dispatches that are lost, or calls without an answer, in a row."""

PERMANENT_CODE: Final = "REFUSED_BY_TASK"
TRANSIENT_CODE: Final = "TRY_LATER"

_PROCESSES: Final = {
    Place.COMMANDS: 1,
    Place.STEP_RUNNER: 2,
    Place.WORKER: 3,
    Place.WATCHDOG: 2,
    Place.RELAY: 2,
    Place.DEAD_LETTERS: 1,
}
_CALLS_PER_NODE: Final = {
    Place.COMMANDS: 1.0,
    Place.STEP_RUNNER: 8.0,
    Place.WORKER: 6.0,
    Place.WATCHDOG: 5.0,
    Place.RELAY: 3.0,
    Place.DEAD_LETTERS: 0.7,
    Place.DISPATCH: 1.3,
    Place.EVENT: 1.5,
    Place.COMMIT: 5.0,
    Place.BODY: 1.0,
}
"""About how many events of each kind a run has, so that most faults strike."""

_ENDS: Final = (
    (Behaviour.FAILS_FOR_GOOD, 9),
    (Behaviour.FAILS_FOR_NOW, 5),
    (Behaviour.BREAKS, 3),
    (Behaviour.TIMES_OUT, 2),
    (Behaviour.HANGS, 2),
    (Behaviour.NOT_JSON, 1),
    (Behaviour.TOO_LARGE, 1),
)
"""Ends other than a result, with their weights."""

_HAPPENINGS: Final = (
    Kind.RESUME,
    Kind.SWEEP,
    Kind.SWEEP,
    Kind.RELAY_AGAIN,
    Kind.RESTART,
    Kind.START_AGAIN,
)
_PASSING: Final = (
    Behaviour.FAILS_FOR_NOW,
    Behaviour.FAILS_FOR_NOW,
    Behaviour.BREAKS,
    Behaviour.TIMES_OUT,
)


_EVERY: Final = 16


def generate(seed: int) -> Scenario:
    """Return the scenario of a seed.

    Of 16 seeds in a row four are of a special kind: in two nothing goes wrong and nobody watches,
    in one an operator makes up for what gets lost, and in one the time is short.
    """
    scenario, random = _any(seed), seeded(f"special/{seed}")
    match seed % _EVERY:
        case 3:
            return unwatched(scenario)
        case 11:
            return troubled(unwatched(scenario), random)
        case 7:
            return resumed(scenario, random)
        case 15:
            return overdue(scenario, random)
        case _:
            return scenario


def _any(seed: int) -> Scenario:
    random = seeded(f"scenario/{seed}")
    size = min(random.randint(1, MOST_NODES), random.randint(1, MOST_NODES) + 2)
    failing = random.choice((0.0, 0.04, 0.25))
    nodes = tuple(
        _node(random, number, _sources(random, number), failing) for number in range(size)
    )
    return Scenario(
        seed=seed,
        nodes=nodes,
        faults=_faults(random, size),
        input={"n": random.randrange(1000), "more": {"list": [1, 2]}},
        executions=2 if chance(random, 0.08) else 1,
        rivals=1 if chance(random, 0.1) else 0,
        max_in_degree=random.choice((2, 3, 256)),
        inline_bytes=random.choice((8, 8192, 8192)),
        timeout_s=float(random.randint(2, 150)) if chance(random, 0.06) else None,
        deadline_s=float(random.randint(2, 150)) if chance(random, 0.06) else None,
        tempo=random.choice(tuple(Tempo)),
        skews=_skews(random),
    )


def _sources(random: Random, number: int) -> list[int]:
    """Choose predecessors among the earlier nodes: chains, fans and wide joins all occur."""
    if number == 0 or chance(random, 0.12):
        return []
    if chance(random, 0.35):
        return [number - 1]
    most = number if chance(random, 0.25) else min(number, 3)
    return random.sample(range(number), random.randint(1, most))


def _node(random: Random, number: int, sources: list[int], failing: float) -> NodePlan:
    needs = [need for source in sources for need in _needs(random, source)]
    timeout_s = random.choice((5.0, 20.0, 60.0, 300.0))
    end = Behaviour.RETURNS_LARGE if chance(random, 0.08) else Behaviour.RETURNS
    if chance(random, failing):
        [end] = random.choices([end for end, _ in _ENDS], [weight for _, weight in _ENDS])
    passing = random.choices((0, 1, 2), (80, 14, 6))[0]
    behaviours = [random.choice(_PASSING) for _ in range(passing)] + [end]
    return NodePlan(
        id=f"n{number}",
        attempts=tuple(_body(random, behaviour, timeout_s) for behaviour in behaviours),
        needs=tuple(needs),
        max_attempts=random.choices((1, 2, 3, 5), (15, 20, 50, 15))[0],
        timeout_s=timeout_s,
        missing_task=chance(random, 0.01),
        params={"opts": {"n": number, "all": [number]}} if number % 2 else {},
    )


def _needs(random: Random, source: int) -> list[Need]:
    edges = [_need(random, source)]
    if chance(random, 0.12):
        edges.append(_need(random, source))
    return edges


def _need(random: Random, source: int) -> Need:
    on = random.choices(tuple(EdgeOn), (75, 12, 13))[0]
    return Need(f"n{source}", on, _condition(random) if chance(random, 0.25) else None)


def _condition(random: Random) -> str:
    conditions = [
        f"v >= `{random.randrange(100)}`",
        f"v < `{random.randrange(100)}`",
        f"v < `{random.randrange(50, 100)}`",
        "nothing",
        f"reason == '{random.choice((PERMANENT_CODE, TRANSIENT_CODE))}'",
    ]
    if chance(random, 0.15):
        conditions.append("length(v)")
    return random.choice(conditions)


def _body(random: Random, behaviour: Behaviour, timeout_s: float) -> BodyPlan:
    duration = random.choice((1, 50, 400, 3000, 20_000, 80_000))
    return BodyPlan(
        behaviour,
        duration_ms=min(random.randint(0, duration), int(timeout_s * 900)),
        reports=random.choices((0, 1, 2), (85, 10, 5))[0],
    )


def _skews(random: Random) -> dict[Place, tuple[int, ...]]:
    widest = random.choice((2000, MINUTE, 5 * MINUTE)) if chance(random, 0.4) else 0
    # The worst is where nobody is right: one half behind, the other ahead.
    extreme = chance(random, 0.5)
    return {
        place: tuple(
            random.choice((-widest, widest)) if extreme else random.randint(-widest, widest)
            for _ in range(count)
        )
        for place, count in _PROCESSES.items()
    }


def _faults(random: Random, size: int) -> tuple[Fault, ...]:
    count = random.choices(range(MOST_FAULTS + 1), [14, 12, 12, 12, 10, 10, 8, 6, 4, 4])[0]
    # Some worlds have faults of one family only, so that exact outcomes can be demanded there.
    family = random.choice(
        (_call_fault, _call_fault, _message_fault, _happening, _stalled, None, None)
    )
    faults: list[Fault] = []
    for _ in range(count):
        make = family or random.choices(_FAMILIES, (6, 3, 3, 2))[0]
        faults.append(make(random, size))
    if chance(random, 0.25):
        faults.append(_cancel_or_resume(random, size))
    if chance(random, 0.1):
        faults += _outage(random, size)
    if any(fault.place is Place.DEAD_LETTERS for fault in faults):
        number = _number(random, Place.DISPATCH, size)
        faults.append(Fault(Kind.DEAD_LETTERED, Place.DISPATCH, number))
    return tuple(faults)


def _outage(random: Random, size: int) -> list[Fault]:
    """For a while no dispatch arrives, or the stores do not answer one kind of process."""
    kind, place = Kind.MESSAGE_LOST, Place.DISPATCH
    if chance(random, 0.5):
        kind, place = Kind.THROTTLED, random.choice(ROLES)
    first = _number(random, place, size)
    return [Fault(kind, place, first + n) for n in range(random.randint(3, LONGEST_OUTAGE))]


def _number(random: Random, place: Place, size: int) -> int:
    return random.randint(1, max(4, int(_CALLS_PER_NODE[place] * (size + 1))))


def _call_fault(random: Random, size: int) -> Fault:
    place = random.choices(ROLES, (1, 6, 6, 4, 3, 1))[0]
    kind = random.choice(CALL_FAULTS)
    amount = 0
    if kind is Kind.PAUSED:
        amount = random.choice((50, 1000, 20_000, 45_000, 100_000, 400_000))
    elif kind is Kind.LATE:
        amount = random.choice((5, 200, 3000))
    elif kind is Kind.STALE_INDEX:
        amount = random.randint(1, 12)
        place = Place.WATCHDOG
    return Fault(kind, place, _number(random, place, size), amount)


def _message_fault(random: Random, size: int) -> Fault:
    place = random.choice((Place.DISPATCH, Place.EVENT))
    kind = random.choice(MESSAGE_FAULTS)
    if place is Place.DISPATCH and chance(random, 0.15):
        kind = Kind.DEAD_LETTERED
    amount = 0 if kind is Kind.MESSAGE_LOST else random.choice((0, 10, 2000, 40_000, 500_000))
    return Fault(kind, place, _number(random, place, size), amount)


def _happening(random: Random, size: int) -> Fault:
    kind = random.choice(_HAPPENINGS)
    return Fault(kind, Place.COMMIT, _number(random, Place.COMMIT, size))


def _stalled(random: Random, size: int) -> Fault:
    amount = random.choice((32_000, 70_000, 100_000, 150_000, 400_000))
    return Fault(Kind.STALLED, Place.BODY, random.randint(1, size + 1), amount)


def _cancel_or_resume(random: Random, size: int) -> Fault:
    kind = random.choice((Kind.CANCEL, Kind.CANCEL, Kind.RESUME))
    return Fault(kind, Place.COMMIT, _number(random, Place.COMMIT, size))


_FAMILIES: Final = (_call_fault, _message_fault, _happening, _stalled)
