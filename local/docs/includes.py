"""Files of the repository that a document shows as they are."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from local.docs.markdown import fence
from local.docs.regions import Render

ROOT: Final = Path(__file__).resolve().parent.parent.parent

_LANGUAGES: Final = {".py": "python", ".yaml": "yaml"}


def shown(path: str) -> Render:
    """Return what renders a file as a fenced block."""
    return partial(_show, ROOT / path)


def _show(path: Path) -> str:
    return fence(_LANGUAGES[path.suffix], path.read_text())
