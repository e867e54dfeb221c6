"""Public failure cases: what is said to pass has tests, and what has tests is said to pass."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from local.docs import cases as listed
from local.docs.cases import CaseStatus, cases, counts, sections
from tests.support.markdown import ROOT

NUMBERS = {
    "A": (1, 2, 3, 5, 7, 8),
    "B": (9, 11, 12, 13, 15, 16, 17, 18),
    "C": (20, 21, 22, 24, 25, 26, 27, 28, 29, 31, 32, 33, 34, 35, 36, 37),
    "D": (38, 39, 40, 41, 42, 43, 44, 47, 48),
    "E": (49, 50, 52, 53, 55, 58),
    "F": (59, 61, 64, 65, 66, 67, 68, 69, 71, 72),
}
"""The published list, which leaves some numbers out."""

NAME = re.compile(r"test_case_(\d\d)_\w+")


def numbered_tests() -> dict[str, int]:
    """Every test that bears the number of a case: `path::name` to the number."""
    found = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_case_"):
                name = NAME.fullmatch(node.name)
                assert name is not None, f"{path.name}::{node.name}: two digits and a sentence"
                found[f"{path.relative_to(ROOT).as_posix()}::{node.name}"] = int(name[1])
    return found


def test_every_case_is_listed_once_in_its_section() -> None:
    assert {
        title[0]: tuple(case.number for case in found) for title, found in sections().items()
    } == NUMBERS


def test_tests_and_list_name_each_other() -> None:
    named = [(test, case.number) for case in cases() for test in case.tests]
    assert len({test for test, _ in named}) == len(named)
    assert dict(named) == numbered_tests()


def test_every_case_says_why() -> None:
    for case in cases():
        assert bool(case.tests) is (case.status is CaseStatus.PASSES)
        assert bool(case.why) is (case.status is not CaseStatus.PASSES)
        assert case.failure.endswith(".")


def test_counts_are_those_of_the_table() -> None:
    page = (ROOT / "docs" / "cases.md").read_text("utf-8")
    shown = Counter(re.findall(r"^\| \d+ \|.*?\| (passes|pending|does not apply) \|", page, re.M))
    assert counts() == {
        "cases": sum(map(len, NUMBERS.values())),
        "cases_passing": shown["passes"],
        "cases_pending": shown["pending"],
    }
    assert counts()["cases"] == shown.total()


@pytest.mark.parametrize(
    "entry",
    [
        "{number: 1, failure: x.}",
        "{number: 1, failure: x., tests: [a], waits_for: b}",
        "{number: 1, failure: x., tests: []}",
        "{number: 1, failure: x., reason: b, status: passes}",
    ],
)
def test_a_case_has_exactly_one_status(
    entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cases.yaml"
    path.write_text(f"sections: [{{title: A. x, cases: [{entry}]}}]")
    monkeypatch.setattr(listed, "CASES_FILE", path)
    with pytest.raises(ValueError, match="case 1"):
        sections.__wrapped__()
