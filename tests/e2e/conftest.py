"""One deployment for the whole directory; tests keep apart by the executions they start."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator

import pytest

from infra.contract import ContextKey
from local.client import Api
from local.demo.evidence import BodyLog, EventTap, subscribed
from local.stack import Stack, running
from piton.services.caller import Group
from tests.e2e.scene import Scene, have_died

ECHO = "echo"

# Short enough for a test to wait for a lease, long enough for a busy machine to renew it.
SETTINGS = {
    "lease_ms": 6000,
    "sweep_soonest_ms": 0,
    "sweep_latest_ms": 1000,
    "first_resend_ms": 6000,
    "clock_skew_ms": 0,
}


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """The deployed product. Its schedule is off: the tests themselves say when to sweep."""
    with running({ContextKey.SETTINGS.value: json.dumps(SETTINGS)}, progress=_quiet) as deployed:
        deployed.aws.events.disable_rule(Name=deployed.function("sweep"))
        _allow(deployed, _create_echo(deployed))
        yield deployed
        pids = deployed.emulator.processes()
    assert pids
    assert have_died(pids)


@pytest.fixture(scope="session")
def operator(stack: Stack) -> Api:
    return stack.sign_in("operator", "acme", [Group.OPERATORS])


@pytest.fixture(scope="session")
def viewer(stack: Stack) -> Api:
    return stack.sign_in("viewer", "acme", [Group.VIEWERS])


@pytest.fixture(scope="session")
def stranger(stack: Stack) -> Api:
    """An operator of another tenant."""
    return stack.sign_in("stranger", "globex", [Group.OPERATORS])


@pytest.fixture(scope="session")
def tap(stack: Stack) -> Iterator[EventTap]:
    """A subscriber of the bus."""
    with subscribed(stack.aws.events, stack.aws.sqs, stack.outputs.bus_name) as events:
        yield events


@pytest.fixture(scope="session")
def scene(stack: Stack, operator: Api, tap: EventTap) -> Scene:
    return Scene(stack, operator, tap, BodyLog(stack.body_log))


@pytest.fixture(scope="session")
def echo(stack: Stack) -> str:
    """ARN of a function that answers with what it is asked, on the allow-list of the pool."""
    configuration = stack.aws.functions.get_function_configuration(FunctionName=ECHO)
    return configuration["FunctionArn"]


def _create_echo(stack: Stack) -> str:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as bundle:
        bundle.writestr("echo.py", "def handler(event, context):\n    return event\n")
    return stack.aws.functions.create_function(
        FunctionName=ECHO,
        Runtime="python3.13",
        Handler="echo.handler",
        Role="arn:aws:iam::000000000000:role/echo",
        Code={"ZipFile": archive.getvalue()},
    )["FunctionArn"]


def _allow(stack: Stack, arn: str) -> None:
    """Put a function on the allow-list, where a deployment has it from `infra/pools.py`."""
    limits = {"default": {"max_timeout_s": 50, "allowed_lambdas": [arn]}}
    _configure(stack, "commands", {"PITON_POOLS": json.dumps(limits)})
    _configure(stack, "worker-default", {"PITON_ALLOWED_LAMBDAS": json.dumps([arn])})


def _configure(stack: Stack, function: str, variables: dict[str, str]) -> None:
    functions, name = stack.aws.functions, stack.function(function)
    environment = functions.get_function_configuration(FunctionName=name)["Environment"]
    functions.update_function_configuration(
        FunctionName=name, Environment={"Variables": {**environment["Variables"], **variables}}
    )
    functions.get_waiter("function_updated_v2").wait(FunctionName=name)


def _quiet(_line: str) -> None:
    pass
