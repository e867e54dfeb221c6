"""Render the generated regions of the documents again: `python -m local.docs [--check]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from local.docs.documents import DOCUMENTS, render
from local.docs.includes import ROOT
from local.docs.regions import RegionError


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the documents, or with `--check` only tell whether that would change any."""
    parser = argparse.ArgumentParser(prog="python -m local.docs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 if stale")
    check = parser.parse_args(arguments).check
    stale = False
    for path in DOCUMENTS:
        name = path.relative_to(ROOT)
        try:
            text = render(path)
        except RegionError as error:
            print(f"error: {name}: {error}", file=sys.stderr)
            return 2
        if text != path.read_text():
            stale = True
            print(f"{name} {'is stale: run make docs' if check else 'written'}")
            if not check:
                path.write_text(text)
    return 1 if stale and check else 0


if __name__ == "__main__":
    sys.exit(main())
