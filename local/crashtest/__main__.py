"""`python -m local.crashtest WORKFLOW` is `piton crashtest WORKFLOW`."""

from __future__ import annotations

import sys

from local.cli import main

if __name__ == "__main__":
    sys.exit(main(["crashtest", *sys.argv[1:]]))
