"""What the documents call things is what the stacks call them."""

import re

from local.docs import figures, timing
from piton.domain.graph import DEFAULT_POOL
from tests.infra.synthesis import Assembly
from tests.support.markdown import DOCUMENTS, ROOT

PREFIX = "piton-prod-"


def names(assembly: Assembly, type_: str, key: str) -> set[str]:
    return {str(resource.get(key)) for resource in assembly.of_type(type_)}


def test_every_alarm_is_in_the_runbook(prod: Assembly) -> None:
    deployed = names(prod, "AWS::CloudWatch::Alarm", "AlarmName")
    assert {PREFIX + name for name in figures.ALARMS} == deployed


def test_every_queue_is_in_the_runbook(prod: Assembly) -> None:
    shown = re.findall(r"^\| `(piton-<stage>-[^`]+)`", timing.queues_table(), re.MULTILINE)
    concrete = {name.replace("<stage>", "prod").replace("<pool>", DEFAULT_POOL) for name in shown}
    assert concrete == names(prod, "AWS::SQS::Queue", "QueueName")


def test_the_shown_times_are_the_deployed_ones(prod: Assembly) -> None:
    rows = re.findall(
        r"^\| `piton-<stage>-([^`]+)` \|[^|]*\|[^|]*?(\d+) s[^|]*\|", timing.queues_table(), re.M
    )
    assert rows
    for name, seconds in rows:
        queue_name = PREFIX + name.replace("<pool>", DEFAULT_POOL)
        queue = prod.named("AWS::SQS::Queue", "QueueName", queue_name)
        assert queue["VisibilityTimeout"] == int(seconds)


def test_names_in_the_documents_exist(dev: Assembly) -> None:
    deployed = {
        *names(dev, "AWS::SQS::Queue", "QueueName"),
        *names(dev, "AWS::Events::Rule", "Name"),
        *names(dev, "AWS::Events::EventBus", "Name"),
        *names(dev, "AWS::Lambda::Function", "FunctionName"),
        *names(dev, "AWS::Logs::LogGroup", "LogGroupName"),
        *(f"piton-dev-{part}" for part in ("data", "engine", "api")),
    }
    for document in DOCUMENTS:
        text = document.read_text().replace("<stage>", "dev").replace("<pool>", DEFAULT_POOL)
        for name in re.findall(r"(?<![\w/-])(?:piton-dev|/piton/dev)[\w/-]*", text):
            if name not in deployed and name != "piton-dev-":
                raise AssertionError(f"{document.relative_to(ROOT)}: there is no {name}")
