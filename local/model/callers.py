"""What the guards hold together by themselves, without any service.

Anybody may try any operation at any time (`offers`). Whatever is written must still keep the
rules, follow the transition table, and rest on what stands in the row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from local.model.graphs import (
    FATAL_JOIN,
    GATED,
    GATED_SKIPPED,
    JOIN,
    MAX_ATTEMPTS,
    ONE,
    TWO_SINKS,
    Small,
)
from local.model.offers import Limits, Offer, Offers, Tried
from local.model.rows import ABSENT, RowTable
from local.model.space import META, Space
from local.simulator.host import Violation
from piton.domain.rows import Value
from piton.domain.status import ExecutionStatus, NodeStatus
from piton.domain.transitions import BY_ID
from piton.storage import operations as op
from piton.storage.algebra import Item, Operation

WORKLOADS: Final[tuple[tuple[Small, Limits], ...]] = (
    (ONE, Limits(times=2, attempts=MAX_ATTEMPTS, attempts_in_depth=True)),
    (ONE, Limits(times=1, ends_in_depth=True)),
    (JOIN, Limits()),
    (FATAL_JOIN, Limits()),
    (TWO_SINKS, Limits()),
    (GATED, Limits()),
    (GATED_SKIPPED, Limits()),
)

_READ_BEFORE: Final = {"fence": "fence", "seen_lease": "lease_until", "seen_sends": "sends"}
"""Arguments that name what was read, and where it stands in a node's row."""


@dataclass(frozen=True, slots=True)
class Tries:
    """How many states and steps there were, and the first thing that went wrong."""

    states: int
    steps: int
    violation: str | None = None


def try_all(mutations: Mapping[str, Operation]) -> Tries:
    """Try everything on every workload. Stops at the first violation."""
    states = steps = 0
    if violation := written_twice(mutations):
        return Tries(0, 0, violation)
    for small, limits in WORKLOADS:
        tries = try_everything(Space(small, RowTable(mutations), thrifty=False), limits)
        states, steps = states + tries.states, steps + tries.steps
        if tries.violation is not None:
            return Tries(states, steps, f"{small.name}: {tries.violation}")
    return Tries(states, steps)


def try_everything(space: Space, limits: Limits) -> Tries:
    """Breadth first through every state that operations alone can reach."""
    callers = _Callers(space, limits)
    rows, _ = space.created()
    first = Tried(rows, (frozenset(),) * (len(rows) - 1), 0)
    seen, level, steps = {first}, [first], 0
    try:
        while level:
            following = []
            for state in level:
                for after in callers.steps(state):
                    steps += 1
                    if after not in seen:
                        seen.add(after)
                        following.append(after)
            level = following
    except Violation as found:
        return Tries(len(seen), steps, str(found))
    return Tries(len(seen), steps)


def written_twice(mutations: Mapping[str, Operation]) -> str | None:
    """Tell which of the rows that are written once can be written again, None if none can."""
    once = [o for o in op.OPERATIONS if o.item not in (Item.META, Item.NODE)]
    for operation in once:
        table = RowTable(mutations)
        first = table.apply(operation, ABSENT, _arguments(operation, 1))
        if first is None or table.apply(operation, first.row, _arguments(operation, 2)):
            return f"{operation.name} does not write exactly once"
    return None


class _Callers:
    def __init__(self, space: Space, limits: Limits) -> None:
        self._space = space
        self._limits = limits
        self._offers = Offers(space, limits)

    def steps(self, state: Tried) -> Iterator[Tried]:
        if state.time < self._limits.times:
            yield state._replace(time=state.time + 1)
        for offer in self._offers.of(state):
            row = state.rows[offer.place]
            applied = self._space.table.apply(offer.operation, row, offer.args)
            if applied is None:
                continue
            self._check(state, offer)
            rows, _ = self._space.commit(state.rows, offer.place, applied.row)
            yield state._replace(rows=rows, claimed=_claimed(state, offer))

    def _check(self, state: Tried, offer: Offer) -> None:
        name = offer.operation.name
        status: ExecutionStatus | NodeStatus
        if offer.place == META:
            execution = self._space.execution(state.rows[META])
            status = execution.status
            if offer.args.get("seen_due_at") not in (None, execution.due_at):
                raise Violation(f"{name} rests on another due_at")
        else:
            node = self._offers.node(state, offer.place - 1)
            status = node.status
            for argument, attribute in _READ_BEFORE.items():
                if offer.args.get(argument) not in (None, getattr(node, attribute)):
                    raise Violation(f"{name} rests on another {attribute}")
        transition = BY_ID.get(offer.operation.transition or "")
        if transition is not None and status not in transition.allowed_from:
            raise Violation(f"{name} leads away from {status}")


def _claimed(state: Tried, offer: Offer) -> tuple[frozenset[int], ...]:
    fence = offer.args.get("fence")
    if offer.operation.name != op.CLAIM.name or not isinstance(fence, int):
        return state.claimed
    ordinal = offer.place - 1
    with_fence = state.claimed[ordinal] | {fence}
    return (*state.claimed[:ordinal], with_fence, *state.claimed[ordinal + 1 :])


def _arguments(operation: Operation, number: int) -> dict[str, Value]:
    return dict.fromkeys(operation.arguments, number)
