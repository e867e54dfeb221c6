"""A second pool, as a user adds one."""

from collections.abc import Mapping
from typing import Any

import pytest

from infra.pool import Pool
from piton.config import RelayEnvironment, WorkerEnvironment
from tests.infra.synthesis import ALLOWED_LAMBDA, Assembly, Resource, statements

FUNCTION = "AWS::Lambda::Function"


def function(assembly: Assembly, name: str) -> Resource:
    return assembly.named(FUNCTION, "FunctionName", f"piton-prod-{name}")


def queue(assembly: Assembly, name: str) -> Resource:
    return assembly.named("AWS::SQS::Queue", "QueueName", f"piton-prod-{name}")


def variables(assembly: Assembly, name: str) -> Mapping[str, str]:
    found = function(assembly, name)["Environment"]["Variables"]
    return {key: assembly.text(value) for key, value in found.items()}


def role_of(assembly: Assembly, name: str) -> str:
    id_: str = function(assembly, name)["Role"]["Fn::GetAtt"][0]
    return id_


def test_it_has_workers_as_it_asks_for(full: Assembly) -> None:
    worker = function(full, "worker-documents")
    assert (worker["MemorySize"], worker["Timeout"]) == (2048, 600)
    environment = WorkerEnvironment.read(variables(full, "worker-documents"))
    assert environment.pool == "documents"
    assert environment.max_timeout_s == 590
    assert environment.task_modules == ("mycompany.scan", "mycompany.file")
    assert environment.allowed_lambdas == {ALLOWED_LAMBDA}
    assert environment.worker_queue_url == f"<{queue(full, 'worker-documents').id}>"


def test_its_environment_and_grants_are_its_own(full: Assembly) -> None:
    documents, default = (variables(full, f"worker-{name}") for name in ("documents", "default"))
    assert documents["MODEL"] == "small"
    assert documents["GRANTED"] == "true"
    assert not {"MODEL", "GRANTED"} & default.keys()


def test_only_its_workers_may_invoke_its_functions(full: Assembly) -> None:
    holders = {
        name
        for name in ("worker-documents", "worker-default", "step-runner", "watchdog")
        for statement in statements(full, role_of(full, name))
        if statement["Action"] == "lambda:InvokeFunction"
    }
    assert holders == {"worker-documents"}
    (statement,) = (
        s
        for s in statements(full, role_of(full, "worker-documents"))
        if s.get("Sid") == "InvokeAllowedFunctions"
    )
    assert statement["Resource"] == ALLOWED_LAMBDA


def test_its_queue_has_its_own_dead_letters_with_the_same_consumer(full: Assembly) -> None:
    work, dead = queue(full, "worker-documents"), queue(full, "worker-documents-dlq")
    target = full.text(work["RedrivePolicy"]["deadLetterTargetArn"])
    assert target == f"<{dead.id}.Arn>"
    sources = {
        full.text(source["EventSourceArn"]): source
        for source in full.of_type("AWS::Lambda::EventSourceMapping")
    }
    consumer = sources[f"<{dead.id}.Arn>"]["FunctionName"]
    assert consumer == {"Ref": function(full, "dead-letters").id}
    feed = sources[f"<{work.id}.Arn>"]
    assert (feed["BatchSize"], feed["ScalingConfig"]) == (1, {"MaximumConcurrency": 7})


def test_the_relay_sends_to_every_pool(full: Assembly) -> None:
    urls = {name: f"<{queue(full, f'worker-{name}').id}>" for name in ("default", "documents")}
    environment = RelayEnvironment.read(variables(full, "outbox-relay"))
    assert environment.worker_queues == urls
    (statement,) = (
        s
        for s in statements(full, role_of(full, "outbox-relay"))
        if s.get("Sid") == "DispatchNodes"
    )
    assert {full.text(arn) for arn in statement["Resource"]} == {
        f"<{queue(full, f'worker-{name}').id}.Arn>" for name in urls
    }


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"name": "Documents"}, "Pool name 'Documents'"),
        ({"name": ""}, "Pool name ''"),
        ({"timeout_s": 901}, "timeout_s"),
        ({"timeout_s": 10}, "timeout_s"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 11}, "batch_size"),
        ({"max_concurrency": 1}, "max_concurrency"),
        ({"memory_mb": 64}, "memory_mb"),
        ({"environment": {"PITON_POOL": "other"}}, "PITON_POOL"),
    ],
)
def test_what_cannot_be_deployed_is_refused(values: Mapping[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Pool(**{"name": "documents", **values})


def test_a_pool_can_be_as_small_as_a_name() -> None:
    assert Pool(name="documents").max_task_timeout_s == 50
