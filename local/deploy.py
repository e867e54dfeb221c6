"""Deploys the CDK application to an emulator, with the same command line as to AWS."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import boto3
from botocore.exceptions import ClientError
from pydantic import TypeAdapter

from infra.contract import ContextKey, Output, StageName
from local.emulator import ACCOUNT_ID, REGION, Emulator

ROOT = Path(__file__).resolve().parent.parent

_CDK = ROOT / "node_modules" / ".bin" / "cdk"
_TOOLKIT_STACK = "CDKToolkit"
_OUTPUTS_NAME = "outputs.json"
_ASSEMBLY_NAME = "cdk.out"
_LOCK_NAME = "deploy.lock"
_ERROR_LINES = 40

# CDK reads more of the environment than this, for instance profiles and proxies of the machine.
_INHERITED = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "TMPDIR")
_MARKS = ("✅", "❌", "✨", "CREATE_FAILED", "UPDATE_FAILED", "DELETE_FAILED")

_STACKS = TypeAdapter(dict[str, dict[str, str]])

Progress = Callable[[str], None]


class DeployError(RuntimeError):
    """The CDK command failed; the message ends with what it printed."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """What the deployed stacks are called. `worker_queue_urls` is by pool."""

    region: str
    executions_table: str
    workflows_table: str
    payloads_bucket: str
    bus_name: str
    advance_queue_url: str
    advance_dlq_url: str
    worker_queue_urls: Mapping[str, str]
    quarantine_url: str
    api_url: str
    api_id: str
    user_pool_id: str
    user_pool_client_id: str

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Read the file that `cdk deploy --all --outputs-file` writes.

        Raises DeployError if it is missing or lacks an output.
        """
        try:
            stacks = _STACKS.validate_json(path.read_text())
            values = {name: value for stack in stacks.values() for name, value in stack.items()}
            return cls(
                region=values[Output.REGION],
                executions_table=values[Output.EXECUTIONS_TABLE],
                workflows_table=values[Output.WORKFLOWS_TABLE],
                payloads_bucket=values[Output.PAYLOADS_BUCKET],
                bus_name=values[Output.BUS_NAME],
                advance_queue_url=values[Output.ADVANCE_QUEUE_URL],
                advance_dlq_url=values[Output.ADVANCE_DLQ_URL],
                worker_queue_urls=json.loads(values[Output.WORKER_QUEUE_URLS]),
                quarantine_url=values[Output.QUARANTINE_URL],
                api_url=values[Output.API_URL],
                api_id=values[Output.API_ID],
                user_pool_id=values[Output.USER_POOL_ID],
                user_pool_client_id=values[Output.USER_POOL_CLIENT_ID],
            )
        except FileNotFoundError as error:
            raise DeployError(f"{path} is missing: deploy all stacks first") from error
        except (KeyError, ValueError) as error:
            raise DeployError(f"{path} does not describe all stacks: {error}") from error

    @classmethod
    def of(cls, emulator: Emulator) -> Self:
        """Read what was deployed to `emulator` last. Raises DeployError if nothing was."""
        return cls.from_file(emulator.folder / _OUTPUTS_NAME)


def deploy(
    emulator: Emulator,
    *,
    context: Mapping[str, str] | None = None,
    progress: Progress = print,
) -> Outputs:
    """Bootstrap if needed, deploy every stack, and return what they are called.

    `context` adds to or replaces values of the CDK context, whose stage is `local`. Stacks that
    are deployed already and unchanged are left alone. Processes that deploy to one emulator wait
    for each other. Raises DeployError.
    """
    outputs = emulator.folder / _OUTPUTS_NAME
    with _alone(emulator):
        if not _is_bootstrapped(emulator):
            progress("Bootstrapping the embedded AWS")
            # Outside the project, so that the application is not built for it.
            arguments = ["bootstrap", f"aws://{ACCOUNT_ID}/{REGION}"]
            _cdk(emulator, arguments, progress, cwd=emulator.folder)
        progress("Building and deploying the stacks")
        _cdk(
            emulator,
            [
                *("deploy", "--all", "--require-approval", "never", "--concurrency", "2"),
                *("--progress", "events"),
                *("--method", "direct", "--outputs-file", str(outputs)),
                *_application(emulator, context),
            ],
            progress,
        )
        return Outputs.from_file(outputs)


def destroy(
    emulator: Emulator,
    *,
    context: Mapping[str, str] | None = None,
    progress: Progress = print,
) -> None:
    """Delete every stack, payloads first. Raises DeployError."""
    with _alone(emulator):
        _empty_bucket(emulator)
        progress("Deleting the stacks")
        _cdk(
            emulator,
            ["destroy", "--all", "--force", *_application(emulator, context)],
            progress,
        )
        (emulator.folder / _OUTPUTS_NAME).unlink(missing_ok=True)


def assembly(emulator: Emulator) -> Path:
    """Folder of the templates that were deployed to `emulator` last."""
    return emulator.folder / _ASSEMBLY_NAME


def _application(emulator: Emulator, context: Mapping[str, str] | None) -> list[str]:
    values = {ContextKey.STAGE.value: StageName.LOCAL.value, **(context or {})}
    return [
        *("--app", f'"{sys.executable}" app.py', "--output", str(assembly(emulator))),
        *(argument for key, value in values.items() for argument in ("-c", f"{key}={value}")),
    ]


def _cdk(
    emulator: Emulator, arguments: Sequence[str], progress: Progress, *, cwd: Path = ROOT
) -> None:
    """Run the CDK command line, and pass on the lines that tell how far it is."""
    if not _CDK.exists():
        raise DeployError(f"{_CDK} is missing: run make setup")
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    process = subprocess.Popen(
        [str(_CDK), *arguments, "--ci", "--no-notices"],
        cwd=cwd,
        env={
            **environment,
            **emulator.client_env(),
            # The application's Node process would print a banner about its age into each log.
            "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    printed: list[str] = []
    with process:
        for line in process.stdout or ():
            printed.append(line.rstrip())
            if any(mark in line for mark in _MARKS):
                progress(line.strip())
    if process.returncode:
        tail = "\n".join(printed[-_ERROR_LINES:])
        raise DeployError(f"cdk {arguments[0]} failed:\n{tail}")


def _is_bootstrapped(emulator: Emulator) -> bool:
    stacks = _session(emulator).client("cloudformation", endpoint_url=emulator.endpoint_url)
    try:
        found = stacks.describe_stacks(StackName=_TOOLKIT_STACK)["Stacks"]
    except ClientError as error:
        if error.response["Error"]["Code"] == "ValidationError":
            return False
        raise
    return any(stack["StackStatus"].endswith("_COMPLETE") for stack in found)


def _empty_bucket(emulator: Emulator) -> None:
    """Delete all payloads: a bucket that holds any cannot be deleted, here as on AWS."""
    try:
        name = Outputs.of(emulator).payloads_bucket
    except DeployError:
        return
    bucket = _session(emulator).resource("s3", endpoint_url=emulator.endpoint_url).Bucket(name)
    bucket.objects.all().delete()


def _session(emulator: Emulator) -> boto3.Session:
    env = emulator.client_env()
    return boto3.Session(
        aws_access_key_id=env["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=env["AWS_SECRET_ACCESS_KEY"],
        region_name=env["AWS_REGION"],
    )


@contextmanager
def _alone(emulator: Emulator) -> Iterator[None]:
    with (emulator.folder / _LOCK_NAME).open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
