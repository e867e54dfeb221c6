"""The documents of the project, taken apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT: Final = Path(__file__).resolve().parents[2]
DOCUMENTS: Final = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))

_ANCHOR: Final = re.compile(r'<a id="([^"]+)">')


@dataclass(frozen=True)
class Block:
    """A fenced block. `info` is everything behind the fence, `bash aws` for example."""

    place: str
    info: str
    text: str

    def __str__(self) -> str:
        return self.place


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(*infos: str, documents: tuple[Path, ...] = DOCUMENTS) -> list[Block]:
    """Return the blocks with one of these infos, all of them if none is named."""
    return [
        block
        for document in documents
        for block in _blocks(document)
        if not infos or block.info in infos
    ]


def links(document: Path) -> Iterator[tuple[int, str]]:
    """Return the line and the target of every link and picture."""
    for token in _tokens(document):
        line = token.map[0] + 1 if token.map else 0
        for child in token.children or ():
            target = child.attrGet("href") or child.attrGet("src")
            if isinstance(target, str):
                yield line, target


def anchors(document: Path) -> set[str]:
    """Return what `#...` can name, by GitHub's rules for headings."""
    tokens = _tokens(document)
    found: set[str] = set(_ANCHOR.findall(document.read_text()))
    for token, content in pairwise(tokens):
        if token.type == "heading_open":
            text = "".join(child.content for child in content.children or ())
            found.add(re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-"))
    return found


def _blocks(document: Path) -> Iterator[Block]:
    for token in _tokens(document):
        if token.type == "fence":
            line = token.map[0] + 1 if token.map else 0
            yield Block(f"{name_of(document)}:{line}", token.info.strip(), token.content)
        elif token.type == "code_block":
            raise AssertionError(f"{name_of(document)}: an indented block has no language")


def _tokens(document: Path) -> list[Token]:
    return MarkdownIt().enable("table").parse(document.read_text())
