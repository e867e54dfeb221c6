"""What executions cost, counted by the bench's own means."""

import pytest

from bench import shapes
from bench.cost import (
    MOST_ITEMS_AT_START,
    MOST_PER_CHAIN_NODE,
    MOST_PER_NODE,
    cost_of,
    items_written_at_start,
)
from bench.ledger import item_size
from local.emulator import Emulator
from piton.domain.rows import Value


def test_a_node_of_a_chain_costs_three_writes(emulator: Emulator) -> None:
    short, long = cost_of(emulator, shapes.chain(20)), cost_of(emulator, shapes.chain(100))
    assert long.write_units - short.write_units == 3 * 80
    assert long.per_node <= MOST_PER_CHAIN_NODE
    assert not [purpose for purpose in long.writes if "refused" in purpose]


def test_a_node_costs_no_more_in_a_wider_graph(emulator: Emulator) -> None:
    narrow, wide = cost_of(emulator, shapes.fan(10)), cost_of(emulator, shapes.fan(60))
    assert (wide.write_units - narrow.write_units) / 50 <= 4
    assert wide.per_node <= MOST_PER_NODE


def test_starting_a_long_workflow_writes_a_handful_of_items(emulator: Emulator) -> None:
    assert items_written_at_start(emulator) <= MOST_ITEMS_AT_START


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("\u00e9a", 3),
        (b"abc", 3),
        (7, 2),
        (-12345, 5),
        (10**12, 2),
        (True, 1),
        (None, 1),
        (frozenset({1, 22}), 4),
        ([], 3),
        (["ab", 1], 9),
        ({"k": "v"}, 6),
    ],
)
def test_sizes_of_values(value: Value, size: int) -> None:
    assert item_size({"name": value}) == 4 + size
