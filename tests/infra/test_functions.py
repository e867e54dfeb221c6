"""Functions as deployed: code, sizes, logs and an environment that the engine accepts."""

import importlib.util
import json
from collections.abc import Mapping

import pytest

from infra.bundle import LAMBDA_PYTHON
from infra.pools import POOLS
from piton.access import Function
from piton.config import (
    CommandsEnvironment,
    Environment,
    QueriesEnvironment,
    RelayEnvironment,
    StateEnvironment,
    WorkerEnvironment,
)
from piton.domain.settings import Settings
from tests.infra.synthesis import (
    ALLOWED_LAMBDA,
    ENGINE_HASH,
    IAM_TENANTS,
    ROOT,
    WORKER_HASH,
    Assembly,
    Resource,
)

NAMES = {
    Function.COMMANDS: "commands",
    Function.QUERIES: "queries",
    Function.STEP_RUNNER: "step-runner",
    Function.WORKER: "worker-default",
    Function.WATCHDOG: "watchdog",
    Function.OUTBOX_RELAY: "outbox-relay",
    Function.DEAD_LETTERS: "dead-letters",
}
MODELS: Mapping[Function, type[Environment]] = {
    Function.COMMANDS: CommandsEnvironment,
    Function.QUERIES: QueriesEnvironment,
    Function.STEP_RUNNER: StateEnvironment,
    Function.WORKER: WorkerEnvironment,
    Function.WATCHDOG: StateEnvironment,
    Function.OUTBOX_RELAY: RelayEnvironment,
    Function.DEAD_LETTERS: StateEnvironment,
}


def deployed(assembly: Assembly) -> dict[str, Resource]:
    """The engine's functions by name, without the stage's prefix."""
    return {
        function["FunctionName"].split("-", 2)[2]: function
        for function in assembly.of_type("AWS::Lambda::Function")
        if function.get("FunctionName")
    }


def variables(assembly: Assembly, function: Resource) -> dict[str, str]:
    found = function["Environment"]["Variables"]
    return {name: assembly.text(value) for name, value in found.items()}


def test_every_declared_function_is_deployed(stage: Assembly) -> None:
    assert set(deployed(stage)) == set(NAMES.values())


@pytest.mark.parametrize("kind", Function)
def test_a_function_runs_its_own_handler(kind: Function, stage: Assembly) -> None:
    function = deployed(stage)[NAMES[kind]]
    module, _, name = function["Handler"].rpartition(".")
    assert module == f"handlers.{kind.value}"
    assert name == "handler"
    assert importlib.util.find_spec(module) is not None


def test_functions_run_on_what_their_bundle_was_built_for(stage: Assembly) -> None:
    for function in deployed(stage).values():
        assert function["Runtime"] == "python{}.{}".format(*LAMBDA_PYTHON)
        assert function["Architectures"] == ["arm64"]


@pytest.mark.parametrize("kind", Function)
def test_the_engine_accepts_the_environment(kind: Function, stage: Assembly) -> None:
    given = variables(stage, deployed(stage)[NAMES[kind]])
    read = MODELS[kind].read(given)
    known = {f"PITON_{name.upper()}" for name in type(read).model_fields}
    assert {name for name in given if name.startswith("PITON_")} <= known
    assert read.code_hash == (WORKER_HASH if kind is Function.WORKER else ENGINE_HASH)
    read.engine_settings()


def test_overridden_settings_reach_every_function(local: Assembly) -> None:
    for function in deployed(local).values():
        environment = Environment.read(variables(local, function))
        assert environment.engine_settings() == Settings(lease_ms=3000)


def test_metrics_tell_functions_and_stages_apart(stage: Assembly) -> None:
    functions = [variables(stage, function) for function in deployed(stage).values()]
    services = {each["POWERTOOLS_SERVICE_NAME"] for each in functions}
    expected = {kind.value for kind in Function if kind is not Function.WORKER}
    assert services == expected | {"worker-default"}
    assert {each["POWERTOOLS_METRICS_NAMESPACE"] for each in functions} == {"Piton"}
    assert len({each["PITON_STAGE"] for each in functions}) == 1


def test_tables_and_payloads_are_named_to_those_who_use_them(stage: Assembly) -> None:
    (bucket,) = stage.of_type("AWS::S3::Bucket")
    streaming = stage.named(
        "AWS::DynamoDB::Table", "StreamSpecification", {"StreamViewType": "NEW_AND_OLD_IMAGES"}
    )
    for name, function in deployed(stage).items():
        given = variables(stage, function)
        if name == "outbox-relay":
            assert "PITON_EXECUTIONS_TABLE" not in given
        else:
            assert given["PITON_EXECUTIONS_TABLE"] == f"<{streaming.id}>"
            assert given["PITON_PAYLOADS_BUCKET"] == f"<{bucket.id}>"
            assert given["PITON_WORKFLOWS_TABLE"] != given["PITON_EXECUTIONS_TABLE"]


def test_case_67_every_function_logs_to_its_own_group(stage: Assembly) -> None:
    groups = {g.id: g["LogGroupName"] for g in stage.of_type("AWS::Logs::LogGroup")}
    for name, function in deployed(stage).items():
        stage_name = function["FunctionName"].split("-")[1]
        assert groups[function["LoggingConfig"]["LogGroup"]["Ref"]] == f"/piton/{stage_name}/{name}"


def test_a_drain_waits_longer_than_any_handler_runs(stage: Assembly) -> None:
    """What a straggling handler may still write is bounded by the timeouts deployed here."""
    for name, function in deployed(stage).items():
        if not name.startswith("worker-"):
            assert function["Timeout"] * 1000 <= Settings().handler_timeout_ms


def test_the_api_answers_before_appsync_gives_up(stage: Assembly) -> None:
    for name in ("commands", "queries"):
        assert deployed(stage)[name]["Timeout"] < 30


def test_registration_knows_what_fits_a_pool(full: Assembly) -> None:
    commands = deployed(full)["commands"]
    environment = CommandsEnvironment.read(variables(full, commands))
    limits = {name: pool.limits() for name, pool in environment.pools.items()}
    assert limits["default"].max_timeout_s == POOLS[0].timeout_s - 10
    assert limits["documents"].max_timeout_s == 590
    assert limits["documents"].allowed_lambdas == {ALLOWED_LAMBDA}


def test_iam_callers_have_the_tenant_of_their_role(prod: Assembly) -> None:
    for name in ("commands", "queries"):
        given = variables(prod, deployed(prod)[name])
        assert json.loads(given["PITON_IAM_TENANTS"]) == IAM_TENANTS


def test_queries_know_where_workers_log(full: Assembly) -> None:
    given = variables(full, deployed(full)["queries"])
    assert json.loads(given["PITON_WORKER_LOG_GROUPS"]) == {
        "default": "/piton/prod/worker-default",
        "documents": "/piton/prod/worker-documents",
    }


def test_bodies_are_noted_on_the_embedded_aws_only(local: Assembly, prod: Assembly) -> None:
    for name, function in deployed(local).items():
        noted = variables(local, function).get("PITON_BODY_LOG")
        assert noted == ("/var/log/bodies.jsonl" if name.startswith("worker-") else None)
    assert all("PITON_BODY_LOG" not in variables(prod, f) for f in deployed(prod).values())


def test_task_modules_of_the_default_pool_are_in_its_packages() -> None:
    (default,) = POOLS
    roots = {package.name: package.parent for package in default.packages}
    for module in default.task_modules:
        place = roots[module.partition(".")[0]] / (module.replace(".", "/") + ".py")
        assert place.is_relative_to(ROOT)
        assert place.is_file()
