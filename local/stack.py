"""The whole product on this machine: emulator, deployed stacks and the GraphQL front.

python -m local.stack up      start and deploy; again: deploy what has changed
python -m local.stack down    end it all
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import boto3
import psutil
from botocore.config import Config

from infra.contract import ContextKey, StageName
from local.client import Api
from local.deploy import ROOT, DeployError, Outputs, Progress, assembly, deploy
from local.emulator import Emulator, EmulatorError
from local.target import STACK_FILE, Target
from local.users import Users
from piton.domain.names import Tenant
from piton.services.caller import Group

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_events import EventBridgeClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_logs import CloudWatchLogsClient
    from mypy_boto3_sqs import SQSClient

STATE_FILE: Final = ROOT / "build" / "emulator.json"

_FRONT_MODULE: Final = "local.front"
_FRONT_LOG: Final = "front.log"
_BODY_LOG: Final = "bodies.jsonl"
_FRONT_DEADLINE_S: Final = 20.0
_LOOK_EVERY_S: Final = 0.02
_INHERITED: Final = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH")


class Aws:
    """Clients of an emulator, each made on first use. Threads may share them."""

    def __init__(self, emulator: Emulator) -> None:
        env = emulator.client_env()
        self._endpoint_url = env["AWS_ENDPOINT_URL"]
        self._session = boto3.Session(
            aws_access_key_id=env["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=env["AWS_SECRET_ACCESS_KEY"],
            region_name=env["AWS_REGION"],
        )
        # The emulator is no cloud: an answer that does not come is a fault to be seen.
        self._config = Config(
            retries={"total_max_attempts": 1}, read_timeout=60, max_pool_connections=16, proxies={}
        )

    @cached_property
    def dynamodb(self) -> DynamoDBClient:
        """DynamoDB."""
        return self._session.client(
            "dynamodb", endpoint_url=self._endpoint_url, config=self._config
        )

    @cached_property
    def events(self) -> EventBridgeClient:
        """EventBridge."""
        return self._session.client("events", endpoint_url=self._endpoint_url, config=self._config)

    @cached_property
    def functions(self) -> LambdaClient:
        """Lambda."""
        return self._session.client("lambda", endpoint_url=self._endpoint_url, config=self._config)

    @cached_property
    def logs(self) -> CloudWatchLogsClient:
        """CloudWatch Logs."""
        return self._session.client("logs", endpoint_url=self._endpoint_url, config=self._config)

    @cached_property
    def sqs(self) -> SQSClient:
        """SQS."""
        return self._session.client("sqs", endpoint_url=self._endpoint_url, config=self._config)


@dataclass(frozen=True, slots=True)
class Stack:
    """A deployed stage and the address of the front before it."""

    emulator: Emulator
    outputs: Outputs
    api_url: str
    aws: Aws

    @property
    def target(self) -> Target:
        """What the command line needs to know."""
        return Target(
            api_url=self.api_url,
            user_pool_id=self.outputs.user_pool_id,
            client_id=self.outputs.user_pool_client_id,
            region=self.outputs.region,
            endpoint_url=self.emulator.endpoint_url,
        )

    @property
    def body_log(self) -> Path:
        """The file in which workers note every body that they enter."""
        return _body_log(self.emulator)

    def function(self, name: str) -> str:
        """Physical name of a function, by its name within a stage."""
        return f"piton-{StageName.LOCAL}-{name}"

    def log_group(self, name: str) -> str:
        """Log group of a function, by its name within a stage."""
        return f"/piton/{StageName.LOCAL}/{name}"

    def sign_in(self, user: str, tenant: str, groups: Sequence[Group]) -> Api:
        """Create a user and return the API as they see it. Raises `ApiError`."""
        users = Users(self.target)
        password = f"Aa1!{secrets.token_urlsafe(24)}"
        users.create(user, Tenant(tenant), groups, password)
        return Api(self.api_url, users.sign_in(user, password))


@contextmanager
def running(
    context: Mapping[str, str] | None = None, *, progress: Progress = print
) -> Iterator[Stack]:
    """Start everything and end it again. Raises EmulatorError and DeployError."""
    with Emulator() as emulator:
        yield bring_up(emulator, context, progress=progress)


def bring_up(
    emulator: Emulator, context: Mapping[str, str] | None = None, *, progress: Progress = print
) -> Stack:
    """Deploy to a started emulator and open the front. `context` is as for `deploy`.

    Raises DeployError, and EmulatorError if the front does not answer in time.
    """
    noting = {ContextKey.BODY_LOG.value: str(_body_log(emulator))}
    outputs = deploy(emulator, context={**noting, **(context or {})}, progress=progress)
    _end_front(emulator)
    return Stack(emulator, outputs, _open_front(emulator, outputs), Aws(emulator))


def up(state_file: Path = STATE_FILE, stack_file: Path = ROOT / STACK_FILE) -> None:
    """Start what is not running, deploy what has changed, and tell how to use it.

    `state_file` is where `down` finds it again, `stack_file` where the command line does. Raises
    EmulatorError and DeployError.
    """
    emulator = Emulator.attach(state_file)
    if emulator is not None and not emulator.is_alive():
        emulator.stop()
        emulator = None
    started = emulator or Emulator(state_file=state_file).start()
    try:
        stack = bring_up(started)
    except BaseException:
        if emulator is None:
            started.stop()
        raise
    stack.target.write(stack_file)
    print(_INSTRUCTIONS.format(url=stack.api_url, folder=started.folder))


def down(state_file: Path = STATE_FILE, stack_file: Path = ROOT / STACK_FILE) -> None:
    """End what `up` started. Raises EmulatorError."""
    stack_file.unlink(missing_ok=True)
    emulator = Emulator.attach(state_file)
    if emulator is None:
        print("Nothing runs.")
        return
    emulator.stop()
    print("Stopped.")


def _body_log(emulator: Emulator) -> Path:
    return emulator.folder / _BODY_LOG


def _open_front(emulator: Emulator, outputs: Outputs) -> str:
    """Start the front as a process of the emulator, with which it ends; return its address."""
    log = emulator.folder / _FRONT_LOG
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    with log.open("wb") as output:
        front = subprocess.Popen(
            [
                *(sys.executable, "-m", _FRONT_MODULE),
                *("--assembly", str(assembly(emulator))),
                *("--endpoint-url", emulator.endpoint_url),
                *("--region", outputs.region),
                *("--user-pool-id", outputs.user_pool_id),
                *("--client-id", outputs.user_pool_client_id),
            ],
            cwd=ROOT,
            env=inherited | emulator.member_env(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + _FRONT_DEADLINE_S
    while time.monotonic() < deadline and front.poll() is None:
        address, end, _ = log.read_text().partition("\n")
        if end and address.startswith("http"):
            return address
        time.sleep(_LOOK_EVERY_S)
    raise EmulatorError(f"The GraphQL front did not start:\n{log.read_text()}")


def _end_front(emulator: Emulator) -> None:
    """End an earlier front of this emulator: it knows the templates of that time."""
    for pid in emulator.processes():
        try:
            process = psutil.Process(pid)
            if _FRONT_MODULE in process.cmdline():
                process.terminate()
                process.wait(_FRONT_DEADLINE_S)
        except psutil.NoSuchProcess:
            continue


_INSTRUCTIONS: Final = """
GraphQL API    {url}
Logs           {folder}

A first user, and a token for them (it is good for an hour):

  export PITON_PASSWORD='Choose-1-of-your-own'
  piton user create ann --tenant acme --group operators
  export PITON_TOKEN=$(piton token ann)

Register a workflow, start it, look at it:

  piton register examples/hello/workflow.yaml
  piton start hello --input '{{"text": "to be or not to be"}}'
  piton show <id> --watch

piton is in .venv/bin. `make up` again deploys your changes, `make down` ends it all.
"""


def main() -> int:
    """Carry out the command line and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m local.stack", description=__doc__)
    parser.add_argument("command", choices=["up", "down"])
    command = parser.parse_args().command
    try:
        if command == "up":
            up()
        else:
            down()
    except (DeployError, EmulatorError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
