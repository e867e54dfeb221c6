"""Checks command lines of the documents against the tools that they call, without calling them."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, Final

import botocore.session
from botocore import xform_name
from botocore.model import OperationModel

from infra.contract import ContextKey, StageName
from local import cli
from piton.domain.settings import Settings
from tests.support.markdown import ROOT

CheckRequest = Callable[[str, Mapping[str, Any]], None]
"""Checks a GraphQL document and its variables."""

_ASSIGNED: Final = re.compile(r"\w+=(?:\$\((?P<command>.*)\)|(?P<value>.*))", re.DOTALL)
_AWS_GLOBAL: Final = frozenset({"--query", "--output", "--region", "--profile"})


class WrongCommand(AssertionError):
    """A command line that its tool would refuse."""


def commands(text: str) -> Iterator[list[str]]:
    """Return the arguments of every command, also of those whose output is assigned."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        while words:
            end = words.index("&&") if "&&" in words else len(words)
            yield from _simple(words[:end])
            words = words[end + 1 :]


def _simple(words: list[str]) -> Iterator[list[str]]:
    rest = words[1:] if words[0] == "export" else words
    assigned = _ASSIGNED.fullmatch(rest[0]) if rest else None
    if assigned is None:
        yield words
    elif assigned["command"] is not None:
        yield from commands(assigned["command"])


def check(words: list[str], check_request: CheckRequest) -> None:
    """Raise `WrongCommand` unless the tool would take these words."""
    match words:
        case ["make", *arguments]:
            _check_make(arguments)
        case ["piton", *arguments]:
            _check_piton(arguments)
        case ["npx", "cdk", command, *arguments]:
            _check_cdk(command, arguments)
        case ["aws", service, operation, *arguments]:
            _check_aws(service, operation, arguments)
        case ["curl", *arguments]:
            _check_curl(arguments, check_request)
        case [".", path]:
            _expect(path == ".venv/bin/activate", f"nothing makes {path}")
        case _:
            raise WrongCommand(f"nothing here knows how to check {shlex.join(words)}")


def _expect(holds: bool, message: str) -> None:  # noqa: FBT001
    if not holds:
        raise WrongCommand(message)


def _check_make(arguments: list[str]) -> None:
    dry = subprocess.run(
        ["make", "--dry-run", *arguments],  # noqa: S607
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    _expect(dry.returncode == 0, dry.stderr)
    for argument in arguments:
        name, _, value = argument.partition("=")
        if value and not value.startswith("../shared/"):
            _expect((ROOT / value).exists(), f"{name}: there is no {value}")


def _check_piton(arguments: list[str]) -> argparse.Namespace:
    try:
        asked = cli.parser().parse_args(arguments)
    except SystemExit as refusal:
        raise WrongCommand(f"piton refuses {shlex.join(arguments)}") from refusal
    if "file" in asked:
        _expect((ROOT / asked.file).is_file(), f"there is no {asked.file}")
    if "input" in asked:
        cli._input(asked.input)
    return asked


def _check_cdk(command: str, arguments: list[str]) -> None:
    known = _cdk_options(command)
    for flag, value in _options(arguments):
        _expect(flag in known, f"cdk {command} has no {flag}")
        if flag in ("-c", "--context"):
            _check_context(value)


@cache
def _cdk_options(command: str) -> frozenset[str]:
    helped = subprocess.run(
        [ROOT / "node_modules" / ".bin" / "cdk", command, "--help"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    _expect(helped.startswith(f"cdk {command}"), f"cdk has no {command}")
    return frozenset(re.findall(r"(?<!\w)--?[a-zA-Z][\w-]*", helped))


def _check_context(setting: str) -> None:
    key, _, value = setting.partition("=")
    name = ContextKey(key)
    if name is ContextKey.STAGE:
        StageName(value)
    if name is ContextKey.SETTINGS:
        unknown = json.loads(value).keys() - {field.name for field in fields(Settings)}
        _expect(not unknown, f"no settings: {unknown}")


def _check_aws(service: str, operation: str, arguments: list[str]) -> None:
    model = _aws_operation(service, operation)
    members = model.input_shape.members if model.input_shape else {}
    known = {f"--{xform_name(member, '-')}": member for member in members}
    given = {flag for flag, _ in _options(arguments)} - _AWS_GLOBAL
    _expect(given <= known.keys(), f"aws {service} {operation} has no {given - known.keys()}")
    needed = set(model.input_shape.required_members) if model.input_shape else set()
    missing = needed - {known[flag] for flag in given}
    _expect(not missing, f"aws {service} {operation} needs {missing}")


def _aws_operation(service: str, operation: str) -> OperationModel:
    model = botocore.session.get_session().get_service_model(service)
    names = {xform_name(name, "-"): name for name in model.operation_names}
    _expect(operation in names, f"aws {service} has no {operation}")
    return model.operation_model(names[operation])


def _check_curl(arguments: list[str], check_request: CheckRequest) -> None:
    headers = [value for flag, value in _options(arguments) if flag == "-H"]
    _expect("Content-Type: application/json" in headers, "the request has no content type")
    _expect(any(h.startswith("Authorization: ") for h in headers), "the request names no caller")
    [body] = [value for flag, value in _options(arguments) if flag == "-d"]
    request = json.loads(body)
    check_request(request["query"], request["variables"])


def _options(arguments: list[str]) -> Iterator[tuple[str, str]]:
    """Return every flag with the words behind it, up to the next flag."""
    flag: str | None = None
    values: list[str] = []
    for word in [*arguments, "-"]:
        if word.startswith("-"):
            if flag is not None:
                yield flag, " ".join(values)
            flag, values = word, []
        else:
            values.append(word)
