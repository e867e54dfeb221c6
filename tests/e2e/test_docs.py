"""The commands of the README, one after the other, against the deployed product."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from local import cli
from local.stack import Stack
from tests.support.commands import commands
from tests.support.markdown import ROOT, blocks

SHOWN_ID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


def piton_commands(info: str) -> list[list[str]]:
    """Arguments of every `piton` command of the README, in order."""
    shown = blocks(info, documents=(ROOT / "README.md",))
    lines = [words for block in shown for words in commands(block.text)]
    return [words[1:] for words in lines if words[0] == "piton"]


def test_the_commands_of_the_readme_work(
    stack: Stack,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stack.target.write(tmp_path / "build" / "stack.json")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PITON_PASSWORD", "Choose-1-of-your-own")

    def run(arguments: list[str], *, code: int = 0) -> str:
        assert cli.main(arguments) == code, capsys.readouterr().err
        return capsys.readouterr().out.strip()

    create, token = piton_commands("bash aws")
    run(create)
    monkeypatch.setenv("PITON_TOKEN", run(token))
    register, start, show, resume = piton_commands("bash stack")
    assert "hello version 1" in run(register)
    execution_id = run(start)
    assert "completed" in run([SHOWN_ID.sub(execution_id, word) for word in show])
    # It has ended by now, and resuming says so.
    run([SHOWN_ID.sub(execution_id, word) for word in resume], code=cli.REFUSED)
