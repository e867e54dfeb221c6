"""What the demo shows: the board while it runs, the timeline and the picture file afterwards."""

from __future__ import annotations

import io
import re
from pathlib import Path

from defusedxml import ElementTree
from rich.console import Console, RenderableType

from local.demo.aim import Graph, is_in_the_middle
from local.demo.board import Board, Row
from local.demo.evidence import Sweeps
from local.demo.ledger import (
    AttemptRecord,
    BodyStart,
    Drop,
    ExecutionRecord,
    Kill,
    NodeRecord,
)
from local.demo.reading import Glance
from local.demo.timeline import WIDTH, Timeline, save_svg
from piton.domain.status import ExecutionStatus, NodeStatus

RUN = "01"
DONE = AttemptRecord(2, "COMPLETED", 30_000, 31_000, 40_000)
KILLED = AttemptRecord(1, "RETRIED", 0, 1000, 29_000)
NODES = (
    NodeRecord("first", NodeStatus.COMPLETED, (), 0, 40_000, None, (KILLED, DONE)),
    NodeRecord("second", NodeStatus.SKIPPED, ("first",), None, 41_000),
    NodeRecord("never", NodeStatus.PENDING, ("second",)),
)
KILL = Kill(5000, 77, (BodyStart(1000, 77, "acme", RUN, 0, "first", 1, 1),))
DROP = Drop(41_000, RUN, "first", ("second",))


def text_of(*parts: RenderableType) -> str:
    console = Console(width=WIDTH, file=io.StringIO(), record=True)
    console.print(*parts)
    return console.export_text()


def timeline(*nodes: NodeRecord) -> Timeline:
    record = ExecutionRecord(RUN, ExecutionStatus.COMPLETED, nodes)
    return Timeline([record], {RUN: "invoice.pdf"}, [KILL], [DROP])


def test_the_timeline_shows_attempts_and_what_was_done_to_them() -> None:
    lines = text_of(timeline(*NODES).render()).splitlines()
    assert lines[0].endswith("one column is 0.7 s")
    assert lines[1].split() == ["invoice.pdf", "completed"]
    # It waited a second, ran for 28 until it was given up, waited another and ran for nine.
    assert re.search("░█{42,43} {1,2}░{1,2}█{13,15}", lines[2])
    assert "attempt 1 died with process 77" in lines[2]
    assert "message was lost" in lines[3]
    assert lines[4].split() == ["second", "skipped"]
    assert len(lines) == 5


def test_a_long_timeline_keeps_the_nodes_with_a_story() -> None:
    quick = AttemptRecord(1, "COMPLETED", 0, 10, 20)
    many = [NodeRecord(f"n{i}", NodeStatus.COMPLETED, (), 0, 20, None, (quick,)) for i in range(90)]
    text = text_of(timeline(*many, *NODES).render())
    assert "attempt 1 died" in text
    assert "and 52 more" in text


def test_a_timeline_of_nothing_says_so() -> None:
    assert text_of(timeline(*NODES[1:]).render()).strip() == "Nothing ran."


def test_the_picture_is_whole_by_itself(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "demo.svg"
    save_svg(file, "a <title>", timeline(*NODES).render())
    picture = file.read_text()
    ElementTree.fromstring(picture)
    assert "died" in picture
    addresses = set(re.findall(r"https?://[^\"' )]+", picture))
    assert addresses == {"http://www.w3.org/2000/svg"}


def test_the_board_counts_nodes_by_status() -> None:
    console = Console(width=WIDTH, file=io.StringIO(), record=True)
    board = Board(console, "the title")
    seen, unseen = Row("seen.xml", "1"), Row("unseen.xml", "2")
    board.show([seen, unseen])
    states = {
        "a": (NodeStatus.COMPLETED, 1),
        "b": (NodeStatus.COMPLETED, 1),
        "c": (NodeStatus.RUNNING, 2),
        "d": (NodeStatus.PENDING, 0),
    }
    board.saw(seen, Glance(ExecutionStatus.RUNNING, states))
    text = text_of(board.picture())
    assert re.search(r"seen\.xml +running +████ +1 pending +1 running +2 completed", text)
    assert re.search(r"unseen\.xml +asked", text)
    assert re.search(r"The watchdog comes within (60|59) s", text)
    assert board.unfinished() == [seen, unseen]

    board.saw(seen, Glance(ExecutionStatus.COMPLETED, states))
    assert board.unfinished() == [unseen]


def test_the_board_tells_what_the_watchdog_found_once() -> None:
    console = Console(width=WIDTH, file=io.StringIO(), record=True)
    board = Board(console, "the title")
    for total in (1.0, 1.0, 3.0):
        board.swept(Sweeps({"StalledNodeRecovered": total, "ExecutionsSwept": 9.0}, 1))
    told = console.export_text().splitlines()
    assert [line.split("watchdog ")[1] for line in told] == [
        "StalledNodeRecovered: 1",
        "StalledNodeRecovered: 2",
    ]
    assert "Sweeping" in text_of(board.picture())


def test_a_loss_shows_most_where_a_successor_waits_for_nobody_else() -> None:
    nodes = [
        NodeRecord("a", NodeStatus.PENDING),
        NodeRecord("b", NodeStatus.PENDING, ("a",)),
        NodeRecord("c", NodeStatus.PENDING, ("a", "b")),
    ]
    graph = Graph.of(nodes)
    assert [graph.rank(node_id) for node_id in ("a", "b", "c", "END")] == [0, 1, None, None]
    assert graph.successors("a") == ("b", "c")


def test_a_body_is_hit_in_its_middle() -> None:
    assert is_in_the_middle(4, 1)
    assert not is_in_the_middle(4, 0.1)
    assert not is_in_the_middle(4, 3.9)
    assert not is_in_the_middle(0.9, 0.4)
