"""Generated regions inside hand-written Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

Render = Callable[[], str]

_REGION: Final = re.compile(
    r"(?P<begin><!-- generated: (?P<name>[a-z0-9-]+) -->\n)"
    r"(?P<body>.*?)"
    r"(?P<end><!-- /generated -->)",
    re.DOTALL,
)
_MARKER: Final = re.compile(r"<!-- /?generated\b.*?-->")


class RegionError(ValueError):
    """A document asks for something that is not rendered, or its markers do not pair up."""


def fill(text: str, renderers: Mapping[str, Render]) -> str:
    """Return `text` with every region between its markers rendered anew.

    Raises `RegionError` on an unknown name and on markers without a partner.
    """
    if len(_MARKER.findall(text)) != 2 * len(_REGION.findall(text)):
        raise RegionError("every <!-- generated: name --> needs one <!-- /generated --> behind it")

    def rendered(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in renderers:
            raise RegionError(f"nothing renders {name!r}; there is {', '.join(sorted(renderers))}")
        return f"{match['begin']}\n{renderers[name]().strip()}\n\n{match['end']}"

    return _REGION.sub(rendered, text)


def names(text: str) -> list[str]:
    """Return the names of the regions in `text`, in order."""
    return [match["name"] for match in _REGION.finditer(text)]
