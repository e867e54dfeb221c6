"""Every block of the documents is what it says it is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from moto.events.models import EventPattern

from local.docs import events
from piton import tasks
from piton.adapters.conditions import check_condition
from piton.contracts import parse_dispatch, parse_event
from piton.domain.compile import PoolLimits
from piton.domain.messages import Event
from piton.domain.status import EventType
from piton.services.definitions import parse_definition
from piton.tasks import Registry
from tests.support.markdown import DOCUMENTS, Block, blocks, name_of

KNOWN = {
    "bash aws",  # needs an account
    "bash make",  # needs this machine only
    "bash local",  # needs nothing but the project
    "bash stack",  # needs a deployment, here or on AWS
    "graphql",
    "insights",
    "json",
    "json pattern",
    "python",
    "text",
    "yaml",
}
POOLS = {"default": PoolLimits(50)}


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_block_says_what_it_is(document: Any) -> None:
    assert {block.info for block in blocks(documents=(document,))} <= KNOWN


@pytest.mark.parametrize("block", blocks("json", "json pattern"), ids=str)
def test_json_is_json(block: Block) -> None:
    json.loads(block.text)


@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_workflows_can_be_registered(block: Block) -> None:
    parse_definition(block.text, pools=POOLS, check_condition=check_condition)


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_runs(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "REGISTRY", Registry())
    exec(compile(block.text, block.place, "exec"), {})  # noqa: S102


def arrived(event: Event) -> Any:
    """An event as a rule sees it."""
    return events.envelope(event)


@pytest.mark.parametrize("block", blocks("json pattern"), ids=str)
def test_patterns_match_what_they_are_shown_for(block: Block) -> None:
    pattern = EventPattern.load(block.text)
    sent = [event for each in EventType if (event := events.example(each))]
    matched = {event.type for event in sent if pattern.matches_event(arrived(event))}
    assert matched == {EventType(name) for name in json.loads(block.text)["detail-type"]}


def test_the_engine_reads_the_events_that_are_shown() -> None:
    shown = [event for each in EventType if (event := events.example(each))]
    assert len(shown) == len(EventType) - len({EventType.NODE_STARTED})
    for event in shown:
        fact = parse_event(json.dumps(events.envelope(event)))
        assert fact.detail.event_id == event.event_id


def test_the_engine_reads_the_dispatch_that_is_shown() -> None:
    shown = events.example_dispatch()
    assert parse_dispatch(json.dumps(shown.to_json())).to_dispatch().fence == shown.fence
