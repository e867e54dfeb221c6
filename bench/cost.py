"""Write and read units per node, from what DynamoDB says it charges.

Runs the real services over the emulator's tables and writes `build/reports/cost.json`. Figures
cover an execution from its start to its end, with warm functions and no watchdog in between.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import shapes
from bench.engine import Engine
from local.emulator import Emulator
from piton.domain.canonical import Json

REPORT: Final = Path("build/reports/cost.json")
MOST_PER_CHAIN_NODE: Final = 3.2
MOST_PER_NODE: Final = 6.0
MOST_ITEMS_AT_START: Final = 5
_START_LENGTH: Final = 1000


@dataclass(frozen=True)
class Cost:
    """What one execution cost. `afterlife` is what its time on the due list adds."""

    nodes: int
    write_units: float
    read_units: float
    afterlife: float
    writes: dict[str, float]
    largest_row: int

    @property
    def per_node(self) -> float:
        return self.write_units / self.nodes

    def to_json(self) -> dict[str, Json]:
        return {
            "write_units": round(self.write_units, 3),
            "read_units": round(self.read_units, 3),
            "nodes": self.nodes,
            "write_units_per_node": round(self.per_node, 3),
        }


def cost_of(emulator: Emulator, definition: dict[str, Json]) -> Cost:
    """Run one execution to its end. Raises `RuntimeError` when it does not complete."""
    engine = Engine(emulator)
    workflow = engine.register(definition)
    ledger = engine.ledger
    ledger.reset()
    ref = engine.start(workflow)
    engine.settle()
    write_units, read_units, writes = ledger.write_units, ledger.read_units, dict(ledger.writes)
    engine.require_completed(ref, workflow)
    engine.retire()
    return Cost(
        nodes=len(workflow.graph.user_nodes),
        write_units=write_units,
        read_units=read_units,
        afterlife=ledger.write_units - write_units,
        writes=writes,
        largest_row=ledger.largest_row,
    )


def items_written_at_start(emulator: Emulator) -> int:
    """Count the item writes from a request until the one root of a long chain is queued."""
    engine = Engine(emulator)
    engine.start(engine.register(shapes.chain(_START_LENGTH)))
    created = engine.changes()
    engine.handle(created)
    return len(created) + len(engine.changes())


def main() -> int:
    """Measure every shape, write the report and return 0 when all targets are met."""
    logging.getLogger("piton").setLevel(logging.ERROR)
    report: dict[str, Json] = {}
    misses: list[str] = []
    with Emulator() as emulator:
        for name, definition, most in _shapes():
            if definition is None:
                print(f"{name}: skipped, its file is not in {shapes.PUBLISHED}")
                continue
            cost = cost_of(emulator, definition)
            report[name] = cost.to_json()
            print(_line(name, cost))
            if cost.per_node > most:
                misses.append(f"{name}: {cost.per_node:.3f} write units per node, at most {most}")
        written = items_written_at_start(emulator)
    report["start_1000_items_written"] = written
    print(f"starting {_START_LENGTH} nodes with one root: {written} items written")
    if written > MOST_ITEMS_AT_START:
        misses.append(f"a start writes {written} items, at most {MOST_ITEMS_AT_START}")
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=2) + "\n")
    print(f"written to {REPORT}")
    for miss in misses:
        print(f"MISSED {miss}", file=sys.stderr)
    return 1 if misses else 0


def _shapes() -> Iterator[tuple[str, dict[str, Json] | None, float]]:
    yield "chain_10", shapes.chain(10), MOST_PER_NODE
    yield "chain_100", shapes.chain(100), MOST_PER_CHAIN_NODE
    yield "chain_1000", shapes.chain(1000), MOST_PER_CHAIN_NODE
    yield "fan_100", shapes.fan(100), MOST_PER_NODE
    yield "rnaseq_197", shapes.published("rnaseq-197"), MOST_PER_NODE
    yield "seismology_1101", shapes.published("seismology-1101"), MOST_PER_NODE


def _line(name: str, cost: Cost) -> str:
    dearest = sorted(cost.writes.items(), key=lambda item: -item[1])[:6]
    shares = ", ".join(f"{purpose} {units:g}" for purpose, units in dearest)
    return (
        f"{name}: {cost.per_node:.3f} write units per node ({cost.write_units:g} for "
        f"{cost.nodes}), {cost.read_units:g} read units, {cost.afterlife:g} more write units "
        f"until it leaves the due list; largest row {cost.largest_row} bytes\n    {shares}"
    )


if __name__ == "__main__":
    sys.exit(main())
