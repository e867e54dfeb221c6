"""Generated regions are what the code says now, and nothing that it says is left out."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from infra.contract import ContextKey
from local.docs.__main__ import main
from local.docs.codes import ERRORS, REASONS
from local.docs.data import KEYS, MEANINGS, PURPOSES, attributes
from local.docs.deployment import CHOICES
from local.docs.documents import DOCUMENTS, RENDERERS, render
from local.docs.events import NEWS
from local.docs.figures import COUNTERS, TIMERS
from local.docs.machine import RECOVERY
from local.docs.markdown import seconds, size, table
from local.docs.regions import RegionError, fill, names
from piton.access import Function
from piton.domain.errors import ErrorCode
from piton.domain.settings import Settings
from piton.domain.status import EventType, Reason
from piton.domain.transitions import Heals
from piton.ports import Counter, Timer
from piton.storage import keys
from piton.storage.algebra import Item, Table
from piton.storage.keys import INDEXES
from tests.support.markdown import ROOT, name_of
from tests.support.store import key_of

DIAGRAM = ROOT / "docs" / "architecture.svg"


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_what_is_generated_is_up_to_date(document: Path) -> None:
    assert render(document) == document.read_text(), "run make docs"


def test_checking_writes_nothing_and_tells() -> None:
    assert main(["--check"]) == 0


def test_everything_that_can_be_rendered_is_shown_once() -> None:
    shown = [name for document in DOCUMENTS for name in names(document.read_text())]
    assert sorted(shown) == sorted(RENDERERS)


def test_nothing_is_left_without_a_meaning() -> None:
    assert REASONS.keys() == set(Reason)
    assert ERRORS.keys() == set(ErrorCode)
    assert COUNTERS.keys() == set(Counter)
    assert TIMERS.keys() == set(Timer)
    assert RECOVERY.keys() == set(Heals)
    assert NEWS.keys() == set(EventType)
    assert PURPOSES.keys() == set(INDEXES)
    assert KEYS.keys() == set(Item)
    assert CHOICES.keys() == set(ContextKey)
    assert MEANINGS.keys() == {name for item in Item for name in attributes(item)}


@pytest.mark.parametrize("item", Item, ids=str)
def test_keys_have_the_shown_form(item: Item) -> None:
    for shown, real in zip(KEYS[item], (key_of(item).pk, key_of(item).sk), strict=True):
        form = re.sub(r"\\\{\w+:0(\d)d\\\}", r"\\d{\1}", re.escape(shown))
        assert re.fullmatch(re.sub(r"\\\{\w+\\\}", ".+", form), real), (shown, real)


def test_the_picture_names_what_there_is() -> None:
    drawn = ET.parse(DIAGRAM).getroot()  # noqa: S314 - our own file
    texts = " ".join(filter(None, (element.text for element in drawn.iter())))
    for function in Function:
        assert function.value in texts
    for table_name in (Table.EXECUTIONS, Table.WORKFLOWS):
        assert table_name.value in texts
    assert keys.DUE.name in texts
    assert f"beyond {size(Settings().inline_bytes)}" in texts


# --- The tools -----------------------------------------------------------------------------


def test_a_region_is_replaced_and_the_rest_kept() -> None:
    text = "a\n<!-- generated: x -->\nold\n<!-- /generated -->\nb\n"
    filled = fill(text, {"x": lambda: "new"})
    assert filled == "a\n<!-- generated: x -->\n\nnew\n\n<!-- /generated -->\nb\n"
    assert fill(filled, {"x": lambda: "new"}) == filled


@pytest.mark.parametrize(
    "text",
    [
        "<!-- generated: y -->\n<!-- /generated -->",
        "<!-- generated: x -->\n",
        "<!-- /generated -->",
        "<!-- generated: x -->\n<!-- generated: x -->\n<!-- /generated -->",
    ],
)
def test_wrong_markers_are_refused(text: str) -> None:
    with pytest.raises(RegionError):
        fill(text, {"x": lambda: "new"})


def test_cells_cannot_break_a_table() -> None:
    assert table(["a"], [["x | y\nz"]]) == "| a |\n| --- |\n| x \\| y z |"


@pytest.mark.parametrize(
    ("milliseconds", "text"), [(0, "0 ms"), (1500, "1500 ms"), (90_000, "90 s"), (3_600_000, "1 h")]
)
def test_durations(milliseconds: int, text: str) -> None:
    assert seconds(milliseconds) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (8192, "8 KiB"), (1000, "1000 B")])
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text
