"""What nothing can handle ends with the dead letters, whole, and holds up nobody."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from local.demo.ledger import Expected
from local.stack import Stack
from tests.e2e.scene import Scene, definition

if TYPE_CHECKING:
    from mypy_boto3_sqs.literals import QueueAttributeNameType

NOBODY = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

EVENT: dict[str, Any] = {
    "schema_version": 1,
    "event_id": f"{NOBODY}/0/1/workflow.node.completed",
    "tenant": "acme",
    "execution_id": NOBODY,
    "node_id": "a",
    "ordinal": 0,
    "attempt": 1,
    "fence": 1,
    "scope": "",
    "reason": None,
    "occurred_at": 1,
}
DISPATCH: dict[str, Any] = {
    "schema_version": 1,
    "tenant": "acme",
    "execution_id": NOBODY,
    "pool": "default",
    "ordinal": 0,
    "node_id": "a",
    "fence": 1,
    "attempt": 1,
    "not_before": 0,
}


def envelope(detail: dict[str, Any]) -> str:
    return json.dumps(
        {"source": "piton", "detail-type": "workflow.node.completed", "detail": detail}
    )


@pytest.fixture(scope="module")
def hasty(stack: Stack, scene: Scene) -> Iterator[Stack]:
    """The stack with queues that give up soon: after two deliveries, five seconds apart."""
    # Warm functions first: a cold start would take a good message's time.
    scene.ends(scene.run(definition("warm", {"a": (0, []), "b": (0, ["a"])})))
    sqs = stack.aws.sqs
    advance, worker = stack.outputs.advance_queue_url, stack.outputs.worker_queue_urls["default"]
    kept: dict[str, dict[QueueAttributeNameType, str]] = {}
    for url in (advance, worker, _dead_letters_of(stack, worker)):
        kept[url] = attributes = sqs.get_queue_attributes(
            QueueUrl=url, AttributeNames=["VisibilityTimeout", "RedrivePolicy"]
        )["Attributes"]
        policy = {**json.loads(attributes["RedrivePolicy"]), "maxReceiveCount": 2}
        sqs.set_queue_attributes(
            QueueUrl=url,
            Attributes={"VisibilityTimeout": "5", "RedrivePolicy": json.dumps(policy)},
        )
    yield stack
    for url, attributes in kept.items():
        sqs.set_queue_attributes(QueueUrl=url, Attributes=attributes)


def _dead_letters_of(stack: Stack, queue_url: str) -> str:
    sqs = stack.aws.sqs
    attributes = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["RedrivePolicy"])
    target: str = json.loads(attributes["Attributes"]["RedrivePolicy"])["deadLetterTargetArn"]
    return sqs.get_queue_url(QueueName=target.rsplit(":", 1)[1])["QueueUrl"]


def bodies_of(stack: Stack, queue_url: str) -> list[str]:
    """Messages of a queue, which stay in it."""
    answer = stack.aws.sqs.receive_message(
        QueueUrl=queue_url, MaxNumberOfMessages=10, VisibilityTimeout=0
    )
    return [message["Body"] for message in answer.get("Messages", [])]


def test_garbage_ends_in_the_last_queue_and_work_beside_it_goes_on(
    hasty: Stack, scene: Scene
) -> None:
    advance = {
        "not json": "garbage for advance",
        "another version": envelope({**EVENT, "schema_version": 2}),
        "another shape": envelope({**EVENT, "extra": 1}),
    }
    worker = {
        "not json": "garbage for workers",
        "another version": json.dumps({**DISPATCH, "schema_version": 2}),
        "no tenant": json.dumps({**DISPATCH, "tenant": ""}),
    }
    sqs, outputs = hasty.aws.sqs, hasty.outputs
    for body in advance.values():
        sqs.send_message(QueueUrl=outputs.advance_queue_url, MessageBody=body)
    for body in worker.values():
        sqs.send_message(QueueUrl=outputs.worker_queue_urls["default"], MessageBody=body)
    # Well formed, but about nothing that there is: acknowledged, and never seen again.
    sqs.send_message(QueueUrl=outputs.advance_queue_url, MessageBody=envelope(EVENT))
    sqs.send_message(
        QueueUrl=outputs.worker_queue_urls["default"], MessageBody=json.dumps(DISPATCH)
    )
    id_ = scene.run(definition("beside", {"a": (0, []), "b": (0, ["a"])}))
    scene.ends(id_)
    assert scene.judge({id_: Expected()}).problems == ()

    for url, sent in ((outputs.advance_dlq_url, advance), (outputs.quarantine_url, worker)):
        dead: set[str] = set()

        def all_dead(url: str = url, dead: set[str] = dead, sent: dict[str, str] = sent) -> bool:
            dead.update(bodies_of(hasty, url))
            return dead >= set(sent.values())

        scene.until(all_dead, "the dead letters")
        assert dead == set(sent.values())


def test_an_event_of_another_version_on_the_bus_is_kept(hasty: Stack, scene: Scene) -> None:
    detail = {**EVENT, "schema_version": 7}
    hasty.aws.events.put_events(
        Entries=[
            {
                "Source": "piton",
                "DetailType": "workflow.node.completed",
                "Detail": json.dumps(detail),
                "EventBusName": hasty.outputs.bus_name,
            }
        ]
    )

    def kept() -> bool:
        bodies = bodies_of(hasty, hasty.outputs.advance_dlq_url)
        return any('"schema_version": 7' in body or '"schema_version":7' in body for body in bodies)

    scene.until(kept, "the event among the dead letters")
