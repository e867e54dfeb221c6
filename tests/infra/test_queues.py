"""Queues: who consumes them, where their dead letters go, and who may reach them."""

from typing import Any

import pytest

from infra.pools import POOLS
from tests.infra.synthesis import Assembly, Resource

QUEUE = "AWS::SQS::Queue"
SOURCE = "AWS::Lambda::EventSourceMapping"

# Queues at the end of the line: people empty them.
LAST = {"advance-dlq", "quarantine", "undelivered-events", "stream-failures"}
DEAD_LETTERS = {
    "advance": "advance-dlq",
    "worker-default": "worker-default-dlq",
    "worker-default-dlq": "quarantine",
}
FOURTEEN_DAYS = 14 * 24 * 3600


def queues(assembly: Assembly) -> dict[str, Resource]:
    """Queues by name, without the stage's prefix."""
    return {q["QueueName"].split("-", 2)[2]: q for q in assembly.of_type(QUEUE)}


def sources(assembly: Assembly) -> dict[str, Resource]:
    """Event sources by the name of their queue."""
    names = {f"<{queue.id}.Arn>": name for name, queue in queues(assembly).items()}
    return {
        names[arn]: source
        for source in assembly.of_type(SOURCE)
        if (arn := assembly.text(source["EventSourceArn"])) in names
    }


def consumer(assembly: Assembly, source: Resource) -> Resource:
    id_ = source["FunctionName"]["Ref"]
    (found,) = (f for f in assembly.of_type("AWS::Lambda::Function") if f.id == id_)
    return found


def test_every_queue_has_its_place(stage: Assembly) -> None:
    assert set(queues(stage)) == LAST | DEAD_LETTERS.keys()


def test_every_queue_but_the_last_has_dead_letters(stage: Assembly) -> None:
    by_name = queues(stage)
    for name, queue in by_name.items():
        if name in LAST:
            assert queue.get("RedrivePolicy") is None
            assert queue["MessageRetentionPeriod"] == FOURTEEN_DAYS
        else:
            redrive = queue["RedrivePolicy"]
            target = by_name[DEAD_LETTERS[name]]
            assert stage.text(redrive["deadLetterTargetArn"]) == f"<{target.id}.Arn>"
            assert redrive["maxReceiveCount"] == 5


def test_a_queue_of_dead_letters_keeps_longer_than_what_it_is_for(stage: Assembly) -> None:
    """A message keeps its age when it moves."""
    by_name = queues(stage)
    for name, target in DEAD_LETTERS.items():
        kept, beyond = (by_name[each]["MessageRetentionPeriod"] for each in (name, target))
        assert beyond > kept


def test_case_61_messages_stay_hidden_for_six_timeouts_of_their_consumer(stage: Assembly) -> None:
    found = sources(stage)
    assert set(found) == set(DEAD_LETTERS)
    for name, source in found.items():
        timeout = consumer(stage, source)["Timeout"]
        assert queues(stage)[name]["VisibilityTimeout"] == 6 * timeout


@pytest.mark.parametrize(
    ("queue", "function", "batch", "concurrency"),
    [
        ("advance", "step-runner", 10, 50),
        ("worker-default", "worker-default", POOLS[0].batch_size, POOLS[0].max_concurrency),
        ("worker-default-dlq", "dead-letters", 10, 2),
    ],
)
def test_each_queue_is_consumed_by_one_function(
    queue: str, function: str, batch: int, concurrency: int, stage: Assembly
) -> None:
    source = sources(stage)[queue]
    assert consumer(stage, source)["FunctionName"].split("-", 2)[2] == function
    assert source["BatchSize"] == batch
    # On the embedded AWS, the runs of all functions share one machine.
    limit = 6 if consumer(stage, source)["FunctionName"].startswith("piton-local-") else 1000
    assert source["ScalingConfig"] == {"MaximumConcurrency": min(concurrency, limit)}
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]


def test_queues_are_encrypted_and_reached_over_tls_only(stage: Assembly) -> None:
    denied = {
        policy["Queues"][0]["Ref"]
        for policy in stage.of_type("AWS::SQS::QueuePolicy")
        for statement in policy["PolicyDocument"]["Statement"]
        if refuses_plain_http(statement)
    }
    for queue in stage.of_type(QUEUE):
        assert queue["SqsManagedSseEnabled"] is True
        assert queue.id in denied


def refuses_plain_http(statement: dict[str, Any]) -> bool:
    return statement == {
        "Action": "sqs:*",
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        "Effect": "Deny",
        "Principal": {"AWS": "*"},
        "Resource": statement["Resource"],
    }


def test_only_rules_of_the_bus_are_let_in_by_queues(stage: Assembly) -> None:
    allowed = [
        (policy["Queues"][0]["Ref"], statement)
        for policy in stage.of_type("AWS::SQS::QueuePolicy")
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Allow"
    ]
    by_name = queues(stage)
    rules = {
        f"<{rule.id}.Arn>"
        for rule in stage.of_type("AWS::Events::Rule")
        if rule.get("EventBusName")
    }
    for name in ("advance", "undelivered-events"):
        admitted = [s for id_, s in allowed if id_ == by_name[name].id]
        sending = {
            stage.text(s["Condition"]["ArnEquals"]["aws:SourceArn"])
            for s in admitted
            if "sqs:SendMessage" in s["Action"]
        }
        assert sending == rules
    assert {id_ for id_, _ in allowed} == {by_name[n].id for n in ("advance", "undelivered-events")}
    assert {s["Principal"]["Service"] for _, s in allowed} == {"events.amazonaws.com"}
