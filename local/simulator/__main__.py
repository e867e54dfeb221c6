"""`python -m local.simulator simulate ...`."""

from __future__ import annotations

import argparse

from local.simulator.cli import add_commands

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m local.simulator")
    add_commands(parser.add_subparsers(required=True, metavar="command"))
    asked = parser.parse_args()
    asked.run(asked)
