"""Links of the documents lead somewhere, and their words are for readers of the project."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.markdown import DOCUMENTS, ROOT, anchors, links, name_of

EXAMPLES = ROOT / "examples" / "README.md"
PAGES = (*DOCUMENTS, EXAMPLES)

FOREIGN = re.compile(
    r"\b(issue|issues|session|sessions|helper|helpers|sub-?agent|prompt|LLM|TODO|FIXME|TBD)\b"
    r"|/(work|tmp|root|home)/",
    re.IGNORECASE,
)
"""Words of whoever made the project, and places on their machine."""

MARKETING = re.compile(
    r"\b(seamless\w*|robust\w*|powerful|blazing\w*|effortless\w*|cutting-edge|world-class|"
    r"state-of-the-art|simply|just works|enterprise-grade|battle-tested|lightning)\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize("document", PAGES, ids=name_of)
def test_links_lead_somewhere(document: Path) -> None:
    for line, target in links(document):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        page = (document.parent / path).resolve() if path else document
        where = f"{name_of(document)}:{line}: {target}"
        assert page.exists(), where
        assert page.is_relative_to(ROOT), where
        if anchor:
            assert anchor in anchors(page), where


def test_the_documents_are_linked_from_the_readme() -> None:
    readme = ROOT / "README.md"
    reached = {(ROOT / target.partition("#")[0]).resolve() for _, target in links(readme)}
    assert set(DOCUMENTS) - {readme} <= reached


@pytest.mark.parametrize("words", [FOREIGN, MARKETING], ids=["foreign", "marketing"])
@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_words_are_plain(document: Path, words: re.Pattern[str]) -> None:
    found = [
        f"{number}: {match.group()}"
        for number, line in enumerate(document.read_text().splitlines(), start=1)
        for match in words.finditer(line)
    ]
    assert found == []
