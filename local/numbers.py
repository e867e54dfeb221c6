"""Numbers on a command line."""

from __future__ import annotations

import argparse


def positive(text: str) -> int:
    """Read a whole number from 1 on, as a `type` of `argparse`."""
    number = int(text) if text.removeprefix("-").isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return number
