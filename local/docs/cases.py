"""Public failure cases and what becomes of each: read from `cases.yaml`, which lies beside.

`from local.docs.cases import counts` gives the figures for a report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import yaml

from local.docs.markdown import codes, table

CASES_FILE: Final = Path(__file__).with_name("cases.yaml")


class CaseStatus(StrEnum):
    """What becomes of a case."""

    PASSES = "passes"
    PENDING = "pending"
    DOES_NOT_APPLY = "does not apply"


@dataclass(frozen=True, slots=True)
class Case:
    """One failure. `tests` are `path::name`; `why` is what a pending one waits for, or the reason.

    `note` limits what the tests prove.
    """

    number: int
    failure: str
    status: CaseStatus
    tests: tuple[str, ...] = ()
    why: str = ""
    note: str = ""


@cache
def sections() -> Mapping[str, tuple[Case, ...]]:
    """Return all cases by the title of their section. Raises `ValueError` on a malformed one."""
    document = yaml.safe_load(CASES_FILE.read_text("utf-8"))
    return {
        section["title"]: tuple(_case(entry) for entry in section["cases"])
        for section in document["sections"]
    }


def cases() -> tuple[Case, ...]:
    """Return all cases in the order of their numbers."""
    return tuple(case for listed in sections().values() for case in listed)


def counts() -> dict[str, int]:
    """Return `{"cases": n, "cases_passing": n, "cases_pending": n}`.

    Import path: `local.docs.cases.counts`. `cases` also counts those that do not apply.
    """
    found = Counter(case.status for case in cases())
    return {
        "cases": found.total(),
        "cases_passing": found[CaseStatus.PASSES],
        "cases_pending": found[CaseStatus.PENDING],
    }


def summary() -> str:
    """Render how many cases there are of each status."""
    found = Counter(case.status for case in cases())
    listed = ", ".join(f"{found[status]} {status.value}" for status in CaseStatus if found[status])
    return f"{found.total()} cases: {listed}."


def cases_table(letter: str) -> str:
    """Render the cases of the section whose title begins with `letter`."""
    [listed] = (found for title, found in sections().items() if title.startswith(f"{letter}."))
    return table(
        ("#", "What went wrong", "Status", "Shown by, or why not"),
        ((str(case.number), case.failure, case.status.value, _evidence(case)) for case in listed),
    )


def _evidence(case: Case) -> str:
    shown = codes(test.removeprefix("tests/") for test in case.tests)
    why = f"Waits for {case.why}." if case.status is CaseStatus.PENDING else case.why
    return " ".join(filter(None, (shown, why, case.note)))


def _case(entry: Mapping[str, Any]) -> Case:
    kinds = {
        "tests": CaseStatus.PASSES,
        "waits_for": CaseStatus.PENDING,
        "reason": CaseStatus.DOES_NOT_APPLY,
    }
    named = [kind for kind in kinds if entry.get(kind)]
    known = {"number", "failure", "note", *kinds}
    if len(named) != 1 or not entry.keys() <= known:
        raise ValueError(f"case {entry.get('number')}: one of {', '.join(kinds)} and no other keys")
    return Case(
        number=entry["number"],
        failure=entry["failure"],
        status=kinds[named[0]],
        tests=tuple(entry.get("tests", ())),
        why=entry.get("waits_for") or entry.get("reason") or "",
        note=entry.get("note", ""),
    )


RENDERERS: Final[Mapping[str, Callable[[], str]]] = {
    "cases-summary": summary,
    **{f"cases-{letter}": partial(cases_table, letter.upper()) for letter in "abcdef"},
}
"""What renders each region about cases."""
