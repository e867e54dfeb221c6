"""`python -m local.simulator ...` is `piton simulate ...`."""

from __future__ import annotations

import sys

from local.cli import main

if __name__ == "__main__":
    sys.exit(main(["simulate", *sys.argv[1:]]))
