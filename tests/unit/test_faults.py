"""The frame of the measurement: parts over several processes, its progress, its verdict."""

from __future__ import annotations

import os
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from bench.guards import IMPLIED, Catch, is_as_declared, listed, mutants
from bench.parts import Part, run_parts
from bench.progress import Board, duration
from bench.proofs import is_good
from bench.workers import Tell

GUARANTEES = Path(__file__).parents[2] / "docs" / "guarantees.md"
GOOD = {
    "violations": 0,
    "crash_points": 9,
    "survived": 9,
    "crash_pairs": 5,
    "crash_pairs_survived": 5,
    "guards": 3,
    "guards_caught": 3,
    "guards_as_declared": 3,
}


def double(number: int, tell: Tell) -> int:
    tell(number)
    return 2 * number


def refuse(number: int, tell: Tell) -> int:
    del tell
    raise ValueError(f"{number} is refused")


def process(number: int, tell: Tell) -> int:
    del number, tell
    return os.getpid()


def test_all_pieces_of_all_parts_are_done_and_seen_once() -> None:
    seen = list[tuple[int, int]]()
    first = Part("first", double, (1, 2, 3), 6, lambda *both: seen.append(both))
    second = Part("second", double, range(10), 0)
    elsewhere = Part("elsewhere", process, range(10), 0)
    out = StringIO()
    with Board(Console(file=out, force_terminal=False), line_every_s=0) as board:
        run_parts((first, second, elsewhere), 2, board)
    assert first.results == [2, 4, 6]
    assert second.results == [2 * number for number in range(10)]
    assert sorted(seen) == [(1, 2), (2, 4), (3, 6)]
    assert os.getpid() not in elsewhere.results
    assert out.getvalue().splitlines()[-1].endswith("all parts done")


def test_what_a_piece_raises_ends_the_run() -> None:
    part = Part("part", refuse, (7,), 1)
    with Board(Console(file=StringIO())) as board, pytest.raises(ValueError, match="7 is refused"):
        run_parts((part,), 1, board)


def test_without_a_terminal_lines_say_how_much_is_done() -> None:
    out = StringIO()
    with Board(Console(file=out, force_terminal=False), line_every_s=1000) as board:
        bar, other = board.add("worlds", 10_000), board.add("crash points", 50)
        board.refresh()
        assert out.getvalue() == ""
        bar.done, bar.note = 1234, "no violations"
        board.refresh()
        bar.done, other.done = 2000, 3
        board.refresh()
    assert out.getvalue() == "0:00  worlds 1,234 of 10,000 (no violations)\n"


def test_on_a_terminal_every_part_has_a_bar_with_its_total() -> None:
    out = StringIO()
    console = Console(file=out, force_terminal=True, width=120, color_system=None)
    with Board(console) as board:
        board.add("worlds", 10_000).done = 1234
        board.add("crash points", 50)
        board.refresh()
    assert "1,234 of 10,000" in out.getvalue()
    assert "0 of 50" in out.getvalue()


def test_durations_are_read_as_on_a_clock() -> None:
    assert [duration(s) for s in (0, 59.6, 3599, 3600, 90061)] == [
        "0:00",
        "1:00",
        "59:59",
        "1:00:00",
        "25:01:01",
    ]


def test_a_run_is_good_only_without_anything_violated_lost_or_missed() -> None:
    assert is_good(GOOD)
    for figure, value in GOOD.items():
        assert not is_good({**GOOD, figure: value + 1}), figure


def test_implied_clauses_are_declared_and_explained_in_the_docs() -> None:
    clauses = {(mutant.operation, mutant.clause.attribute) for mutant in mutants()}
    assert clauses >= set(IMPLIED)
    text = GUARANTEES.read_text("utf-8")
    for operation, attribute in IMPLIED:
        assert f"`{operation.name}`" in text
        assert f"`{attribute}`" in text


def test_a_clause_has_to_be_noticed_by_a_test_and_by_the_models_unless_it_is_implied() -> None:
    needed = next(mutant for mutant in mutants() if mutant.implied is None)
    implied = next(mutant for mutant in mutants() if mutant.implied is not None)
    noticed, unnoticed = Catch(("refusal",), "broken", None), Catch(("refusal",), None, 3)
    assert is_as_declared(needed, noticed)
    assert not is_as_declared(needed, unnoticed)
    assert is_as_declared(implied, unnoticed)
    assert not is_as_declared(implied, noticed)
    assert not is_as_declared(needed, Catch((), "broken", None))


def test_the_list_of_guards_names_the_tests_that_fail() -> None:
    entries = listed([Catch(("node.claim: a newer attempt",), None, None)] * len(mutants()))
    assert len(entries) == len(mutants())
    (name,) = entries[0]["tests"]
    path, _, test = name.partition("::")
    assert (
        test == "test_a_write_is_refused_where_its_guard_does_not_hold[node.claim: a newer attempt]"
    )
    assert test.partition("[")[0] in (GUARANTEES.parents[1] / path).read_text("utf-8")
