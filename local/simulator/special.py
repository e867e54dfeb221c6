"""Worlds in which less can go wrong, so that more can be demanded."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final

from local.simulator.faults import Fault, Kind, Place
from local.simulator.randomness import chance
from local.simulator.scenario import Behaviour, BodyPlan, Recovery, Scenario, Tempo

_MOST_LOST: Final = 4
_SMALL: Final = 4
_ALL: Final = 40
_SHORT_MS: Final = 2000
_LOST: Final = BodyPlan(Behaviour.FAILS_FOR_GOOD, 500)
_AGAIN: Final = BodyPlan(Behaviour.FAILS_FOR_NOW, 50)


def unwatched(scenario: Scenario) -> Scenario:
    """Without a watchdog, and without anything that only a watchdog would end or repair."""
    return replace(
        scenario,
        nodes=tuple(replace(node, attempts=_ending(node.attempts)) for node in scenario.nodes),
        faults=(),
        timeout_s=None,
        deadline_s=None,
        tempo=Tempo.USUAL if scenario.tempo is Tempo.UNEVEN else scenario.tempo,
        skews={place: tuple(0 for _ in skews) for place, skews in scenario.skews.items()},
        recovery=Recovery.NOBODY,
    )


def troubled(scenario: Scenario, random: Random) -> Scenario:
    """With one node that fails for good while others often wait for their next attempt."""
    lost = random.randrange(len(scenario.nodes))
    nodes = tuple(
        replace(
            node,
            attempts=(_LOST,) if number == lost else (_AGAIN, _AGAIN, *node.attempts),
            max_attempts=node.max_attempts + (number != lost) * 2,
        )
        for number, node in enumerate(scenario.nodes)
    )
    return replace(scenario, nodes=nodes)


def resumed(scenario: Scenario, random: Random) -> Scenario:
    """As `unwatched`, but messages get lost and an operator makes up for them.

    Never the first event: a start that got lost is the watchdog's alone.
    """
    numbers = [
        (place, random.randint(1, 2 * len(scenario.nodes) + 2) + (place is Place.EVENT))
        for place in random.choices((Place.DISPATCH, Place.EVENT), k=random.randint(1, _MOST_LOST))
    ]
    return replace(
        unwatched(scenario),
        executions=1,
        faults=tuple(Fault(Kind.MESSAGE_LOST, place, number) for place, number in numbers),
        recovery=Recovery.OPERATOR,
    )


def overdue(scenario: Scenario, random: Random) -> Scenario:
    """A small workflow whose events get lost from some moment on, and whose time is short.

    Most of them finish, and what has finished is first taken in by the sweep that comes to end
    them.
    """
    quiet = unwatched(scenario)
    nodes = tuple(
        replace(
            node,
            attempts=tuple(
                replace(body, duration_ms=min(body.duration_ms, _SHORT_MS))
                for body in node.attempts
            ),
        )
        for node in quiet.nodes[: random.randint(1, _SMALL)]
    )
    first, limit_s = random.randint(2, 3 + 2 * len(nodes)), float(random.randint(5, 60))
    by_caller = chance(random, 0.5)
    return replace(
        quiet,
        nodes=nodes,
        faults=tuple(
            Fault(Kind.MESSAGE_LOST, Place.EVENT, number) for number in range(first, first + _ALL)
        ),
        deadline_s=limit_s if by_caller else None,
        timeout_s=None if by_caller else limit_s,
        recovery=Recovery.WATCHDOG,
    )


def _ending(attempts: tuple[BodyPlan, ...]) -> tuple[BodyPlan, ...]:
    return tuple(
        replace(body, behaviour=Behaviour.RETURNS) if body.behaviour is Behaviour.HANGS else body
        for body in attempts
    )
