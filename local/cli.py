"""`piton`: users, workflows and executions from the command line.

Exit codes: 0 done, 1 refused (`<code>: <message>` on standard error) or not survived, 2 wrong
usage, 3 the deployment does not answer.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.live import Live

from local.client import Api, ApiRejected, ApiUnreachable
from local.crashtest.cli import SUMMARY, add_arguments, crashtest
from local.crashtest.sweep import CrashtestError
from local.picture import picture
from local.simulator.cli import SUMMARY as SIMULATE_SUMMARY
from local.simulator.cli import SimulateError, simulate
from local.simulator.cli import add_arguments as add_simulate_arguments
from local.target import Target, TargetError
from local.users import Users
from piton.domain.names import Tenant
from piton.domain.status import TERMINAL_EXECUTION_STATUSES
from piton.services.caller import Group

REFUSED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3

_WATCH_INTERVAL_S: Final = 1.0
_ROWS_AROUND_A_TABLE: Final = 8
_ENDED: Final = frozenset(status.name for status in TERMINAL_EXECUTION_STATUSES)

Asked = argparse.Namespace


class UsageError(ValueError):
    """The command line asks for something that cannot be meant."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out a command line and return the exit code."""
    asked = parser().parse_args(arguments)
    run: Callable[[Asked], None] = asked.run
    try:
        run(asked)
    except ApiRejected as error:
        return _fail(asked, REFUSED, error.code, error.message)
    except ApiUnreachable as error:
        return _fail(asked, UNREACHABLE, "UNREACHABLE", str(error))
    except (TargetError, UsageError) as error:
        return _fail(asked, USAGE, "USAGE", str(error))
    except KeyboardInterrupt:
        return 130
    return 0


def _fail(asked: Asked, exit_code: int, code: str, message: str) -> int:
    if asked.json:
        print(json.dumps({"error": {"code": code, "message": message}}, ensure_ascii=False))
    else:
        print(f"{code}: {message}", file=sys.stderr)
    return exit_code


# --- Users ---------------------------------------------------------------------------------


def _user_create(asked: Asked) -> None:
    try:
        tenant = Tenant(asked.tenant)
    except ValueError as error:
        raise UsageError(str(error)) from error
    groups = [Group(name) for name in asked.group or ()]
    password = _password(f"Password for {asked.name}: ")
    Users(_target(asked)).create(asked.name, tenant, groups, password)
    names = [group.value for group in groups]
    _say(
        asked,
        {"user": asked.name, "tenant": tenant, "groups": names},
        f"created {asked.name} of tenant {tenant}" + (f" in {', '.join(names)}" if names else ""),
    )


def _user_group(asked: Asked) -> None:
    users, group = Users(_target(asked)), Group(asked.group)
    if asked.remove:
        users.leave(asked.name, group)
    else:
        users.join(asked.name, group)
    done = "left" if asked.remove else "joined"
    _say(asked, {"user": asked.name, done: group.value}, f"{asked.name} has {done} {group.value}")


def _user_tenant(asked: Asked) -> None:
    tenant = Users(_target(asked)).tenant(asked.name)
    _say(asked, {"user": asked.name, "tenant": tenant}, tenant or "no tenant")


def _token(asked: Asked) -> None:
    name = asked.name or os.environ.get("PITON_USERNAME")
    if not name:
        raise UsageError("name a user, or set PITON_USERNAME")
    token = Users(_target(asked)).sign_in(name, _password(f"Password for {name}: "))
    _say(asked, {"token": token}, token)


# --- Workflows and executions --------------------------------------------------------------


def _register(asked: Asked) -> None:
    workflow = _api(asked).register(_text(asked.file))
    _say(
        asked,
        workflow,
        f"registered {workflow['id']} version {workflow['version']} "
        f"with {workflow['nodeCount']} nodes",
    )


def _start(asked: Asked) -> None:
    request: dict[str, Any] = {"workflow": asked.workflow, "input": _input(asked.input)}
    if asked.version is not None:
        request["version"] = asked.version
    if asked.deadline is not None:
        request["deadlineAt"] = asked.deadline
    if asked.document is not None:
        request["idempotency"] = {
            "document": asked.document,
            "operationVersion": asked.operation_version,
        }
    started = _api(asked).start(request)
    known = "" if started["created"] else "was started before: "
    _say(asked, started, known + started["execution"]["id"])


def _show(asked: Asked) -> None:
    api = _api(asked)
    if asked.watch and not asked.json:
        _watch(api, asked.id)
        return
    execution = _existing(api, asked.id, payloads=asked.json)
    nodes = api.nodes(asked.id)
    if asked.json:
        content = {**execution, "nodes": nodes, "history": api.history(asked.id)}
        print(json.dumps(content, ensure_ascii=False))
    else:
        Console().print(picture(execution, nodes))


def _watch(api: Api, execution_id: str) -> None:
    console = Console()
    with Live(console=console, auto_refresh=False) as live:
        while True:
            execution = _existing(api, execution_id)
            rows = max(1, console.height - _ROWS_AROUND_A_TABLE)
            live.update(picture(execution, api.nodes(execution_id), rows=rows), refresh=True)
            if execution["status"] in _ENDED:
                return
            time.sleep(_WATCH_INTERVAL_S)


def _resume(asked: Asked) -> None:
    execution = _api(asked).resume(asked.id)
    _say(asked, execution, f"resumed {asked.id}, {execution['resumes']} time(s) in all")


def _cancel(asked: Asked) -> None:
    execution = _api(asked).cancel(asked.id, asked.reason)
    _say(asked, execution, f"{asked.id} is {execution['status'].lower()}")


def _crashtest(asked: Asked) -> None:
    try:
        survived = crashtest(asked, _text(asked.file), _input(asked.input))
    except CrashtestError as error:
        raise UsageError(str(error)) from error
    if not survived:
        sys.exit(REFUSED)


def _simulate(asked: Asked) -> None:
    try:
        kept = simulate(asked)
    except SimulateError as error:
        raise UsageError(str(error)) from error
    if not kept:
        sys.exit(REFUSED)


def _existing(api: Api, execution_id: str, *, payloads: bool = False) -> dict[str, Any]:
    execution = api.execution(execution_id, payloads=payloads)
    if execution is None:
        raise ApiRejected("EXECUTION_NOT_FOUND", "You have no execution with this id")
    return execution


# --- What commands share -------------------------------------------------------------------


def _target(asked: Asked) -> Target:
    return Target.find(asked.stack)


def _api(asked: Asked) -> Api:
    target = _target(asked)
    token = asked.token or os.environ.get("PITON_TOKEN")
    if not token:
        name, password = (os.environ.get(f"PITON_{each}") for each in ("USERNAME", "PASSWORD"))
        if not name or not password:
            raise UsageError(
                "sign in first: export PITON_TOKEN=$(piton token <user>), "
                "or set PITON_USERNAME and PITON_PASSWORD"
            )
        token = Users(target).sign_in(name, password)
    return Api(target.api_url, token)


def _say(asked: Asked, content: object, text: str) -> None:
    print(json.dumps(content, ensure_ascii=False) if asked.json else text)


def _password(prompt: str) -> str:
    return os.environ.get("PITON_PASSWORD") or getpass.getpass(prompt)


def _text(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} cannot be read: it is not UTF-8") from error


def _input(argument: str | None) -> dict[str, Any]:
    text = argument or "{}"
    if text == "-" or text.startswith("@"):
        text = _text(text.removeprefix("@"))
    try:
        content = json.loads(text)
    except ValueError as error:
        raise UsageError(f"--input is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise UsageError("--input must be a JSON object")
    return content


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="piton",
        description="Durable workflows on serverless AWS: a finished node never runs again.",
    )
    _add_common(parser)
    parser.set_defaults(json=False, stack=None, token=None)
    # The same options behind a command's name; left out there, they keep what stands before it.
    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    _add_common(common)
    without_deployment = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    _add_json(without_deployment)
    commands = parser.add_subparsers(required=True, metavar="command")

    def command(
        name: str,
        run: Callable[[Asked], None],
        summary: str,
        where: Any = commands,
        shared: argparse.ArgumentParser = common,
    ) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = where.add_parser(
            name, help=summary, description=summary, parents=[shared]
        )
        added.set_defaults(run=run)
        return added

    _add_user_commands(commands, common, command)
    added = command("token", _token, "sign in and print an ID token")
    added.add_argument("name", nargs="?", help="user; PITON_USERNAME by default")

    added = command("register", _register, "register a workflow in YAML or JSON")
    added.add_argument("file", help="its file, - for standard input")

    added = command("start", _start, "start an execution and print its id")
    added.add_argument("workflow")
    added.add_argument("--version", type=int, help="the latest by default")
    added.add_argument("--input", metavar="JSON", help="an object, @FILE or -")
    added.add_argument("--document", help="start this document once")
    added.add_argument("--operation-version", type=int, default=1, metavar="N")
    added.add_argument("--deadline", metavar="TIME", help="ISO 8601 with a time zone")

    added = command("show", _show, "show an execution with its nodes and their attempts")
    added.add_argument("id")
    added.add_argument("--watch", action="store_true", help="follow it to its end")

    added = command("resume", _resume, "look over a running execution now")
    added.add_argument("id")

    added = command("cancel", _cancel, "end an execution for good")
    added.add_argument("id")
    added.add_argument("--reason", help="a note for the reader")

    add_arguments(command("crashtest", _crashtest, SUMMARY, shared=without_deployment))
    add_simulate_arguments(
        command("simulate", _simulate, SIMULATE_SUMMARY, shared=without_deployment)
    )
    return parser


def _add_common(parser: argparse.ArgumentParser) -> None:
    _add_json(parser)
    parser.add_argument(
        "--stack", type=Path, metavar="FILE", help="deployment; build/stack.json by default"
    )
    parser.add_argument("--token", help="ID token; PITON_TOKEN by default")


def _add_json(parser: argparse.ArgumentParser) -> None:
    suppressed = parser.argument_default
    parser.add_argument("--json", action="store_true", default=suppressed, help="answer with JSON")


def _add_user_commands(
    commands: Any, common: argparse.ArgumentParser, command: Callable[..., argparse.ArgumentParser]
) -> None:
    user = commands.add_parser("user", help="administer users", parents=[common])
    actions = user.add_subparsers(required=True, metavar="action")
    groups = [group.value for group in Group]

    added = command("create", _user_create, "create a user", actions)
    added.add_argument("name")
    added.add_argument("--tenant", required=True, help="can never be changed")
    added.add_argument("--group", action="append", choices=groups, help="may be repeated")

    added = command("group", _user_group, "put a user into a group", actions)
    added.add_argument("name")
    added.add_argument("group", choices=groups)
    added.add_argument("--remove", action="store_true", help="take them out of it")

    added = command("tenant", _user_tenant, "print a user's tenant", actions)
    added.add_argument("name")


if __name__ == "__main__":
    sys.exit(main())
