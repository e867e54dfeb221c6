"""Every transition of an execution, as its rows recorded it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from piton.domain.canonical import Json
from piton.domain.rows import ExecutionRow
from piton.ports import Store
from piton.services.pages import decode_token, encode_token, page
from piton.services.views import history_view
from piton.storage.views import NodeView

_EXECUTION: Final = -1
"""Stands for the execution's own log where a node's log has its ordinal."""

_ROWS_AT_ONCE: Final = 100

Position = tuple[int, int]
"""An ordinal, or `_EXECUTION`, and the number of an entry within that row's log."""


def read_history(store: Store, row: ExecutionRow, size: int, token: str | None) -> dict[str, Json]:
    """Return a page of transitions: the execution's own first, then those of node by node.

    Rows are read in the order of ordinals and no further than the page needs, so within a page
    only the entries of one row are in the order of time. Raises `Rejected` on a foreign token.
    """
    execution_id = row.ref.execution_id
    start = decode_token(token, execution_id) if token else (_EXECUTION, 0)
    rows_at_once = min(size + 1, _ROWS_AT_ONCE)
    # One more than asked for: it is where the next page begins.
    found = list(islice(_entries(store, row, start, rows_at_once), size + 1))
    following = encode_token(execution_id, found[size][0]) if len(found) > size else None
    return page([entry for _, entry in found[:size]], following)


def _entries(
    store: Store, row: ExecutionRow, start: Position, rows_at_once: int
) -> Iterator[tuple[Position, Json]]:
    first, skip = start
    if first == _EXECUTION:
        for number, entry in enumerate(row.log[skip:], skip):
            yield (_EXECUTION, number), history_view(None, entry)
        first, skip = 0, 0
    after = first - 1
    while True:
        nodes = store.query_nodes(row.ref, NodeView.FULL, after=after, limit=rows_at_once)
        for node in nodes:
            begin = skip if node.ordinal == first else 0
            for number, entry in enumerate(node.log[begin:], begin):
                yield (node.ordinal, number), history_view(node.node_id, entry)
        if len(nodes) < rows_at_once:
            return
        after = nodes[-1].ordinal
