"""The way of a change: stream, relay, bus, rules. And the clock of the watchdog."""

import json
from collections import Counter

from infra.bus import RULES
from piton.adapters.publisher import SOURCE
from piton.domain.status import EventType
from tests.infra.synthesis import Assembly, Resource

RULE = "AWS::Events::Rule"

EXPECTED = {
    "start": {"execution.start.requested"},
    "resume": {"execution.resume.requested"},
    "node-done": {
        "workflow.node.completed",
        "workflow.node.failed",
        "workflow.node.skipped",
    },
    "drain": {"workflow.cancelled", "workflow.failed"},
}


def rules(assembly: Assembly) -> dict[str, Resource]:
    """Rules of the engine's bus by name, without the stage's prefix."""
    return {
        rule["Name"].split("-", 2)[2]: rule
        for rule in assembly.of_type(RULE)
        if rule.get("EventBusName")
    }


def queue_arn(assembly: Assembly, name: str) -> str:
    stage_name = assembly.of_type("AWS::Events::EventBus")[0]["Name"]
    return f"<{assembly.named('AWS::SQS::Queue', 'QueueName', f'{stage_name}-{name}').id}.Arn>"


def test_each_rule_takes_its_events_and_no_others(stage: Assembly) -> None:
    """Of the source that the relay names."""
    (bus,) = stage.of_type("AWS::Events::EventBus")
    found = rules(stage)
    assert set(found) == set(EXPECTED)
    for name, rule in found.items():
        assert stage.text(rule["EventBusName"]) == f"<{bus.id}>"
        assert rule["State"] == "ENABLED"
        assert rule["EventPattern"].keys() == {"source", "detail-type"}
        assert rule["EventPattern"]["source"] == [SOURCE]
        assert set(rule["EventPattern"]["detail-type"]) == EXPECTED[name]


def test_no_event_is_taken_twice() -> None:
    taken = Counter(kind for kinds in RULES.values() for kind in kinds)
    assert set(taken.values()) == {1}


def test_what_no_rule_takes_moves_nothing_in_the_engine() -> None:
    taken = {kind for kinds in RULES.values() for kind in kinds}
    assert set(EventType) - taken == {
        EventType.WORKFLOW_STARTED,
        EventType.WORKFLOW_COMPLETED,
        EventType.NODE_STARTED,
    }


def test_every_rule_puts_whole_events_on_the_advance_queue(stage: Assembly) -> None:
    for rule in rules(stage).values():
        (target,) = rule["Targets"]
        assert stage.text(target["Arn"]) == queue_arn(stage, "advance")
        dead_letters = stage.text(target["DeadLetterConfig"]["Arn"])
        assert dead_letters == queue_arn(stage, "undelivered-events")
        assert target["RetryPolicy"] == {
            "MaximumEventAgeInSeconds": 24 * 3600,
            "MaximumRetryAttempts": 185,
        }
        assert not target.keys() & {"Input", "InputPath", "InputTransformer"}


def test_case_59_the_relay_sends_to_the_bus_that_has_the_rules(stage: Assembly) -> None:
    """A bus that does not exist accepts events too, so the name is never written down twice."""
    (bus,) = stage.of_type("AWS::Events::EventBus")
    relay = stage.named("AWS::Lambda::Function", "Handler", "handlers.outbox_relay.handler")
    assert stage.text(relay["Environment"]["Variables"]["PITON_BUS_NAME"]) == f"<{bus.id}>"
    assert {stage.text(rule["EventBusName"]) for rule in rules(stage).values()} == {f"<{bus.id}>"}


def test_executions_stream_both_images_and_no_other_table_streams(stage: Assembly) -> None:
    streams = {
        table.id: table.get("StreamSpecification")
        for table in stage.of_type("AWS::DynamoDB::Table")
        if table.get("StreamSpecification")
    }
    assert list(streams.values()) == [{"StreamViewType": "NEW_AND_OLD_IMAGES"}]


def test_the_relay_reads_the_stream_until_a_record_is_an_hour_old(stage: Assembly) -> None:
    (relay,) = (
        source
        for source in stage.of_type("AWS::Lambda::EventSourceMapping")
        if "StreamArn" in stage.text(source["EventSourceArn"])
    )
    function = stage.named("AWS::Lambda::Function", "Handler", "handlers.outbox_relay.handler")
    assert relay["FunctionName"] == {"Ref": function.id}
    assert relay["StartingPosition"] == "TRIM_HORIZON"
    assert relay["BisectBatchOnFunctionError"] is True
    assert relay["MaximumRetryAttempts"] == -1
    assert relay["MaximumRecordAgeInSeconds"] == 3600
    failures = stage.text(relay["DestinationConfig"]["OnFailure"]["Destination"])
    assert failures == queue_arn(stage, "stream-failures")
    # The relay raises; an answer that names failed items would lose them on a stream.
    assert not relay.get("FunctionResponseTypes")


def test_rows_that_expire_do_not_wake_the_relay(stage: Assembly) -> None:
    (relay,) = (
        source
        for source in stage.of_type("AWS::Lambda::EventSourceMapping")
        if source.get("FilterCriteria")
    )
    (pattern,) = relay["FilterCriteria"]["Filters"]
    assert json.loads(pattern["Pattern"]) == {"eventName": ["INSERT", "MODIFY"]}


def test_the_watchdog_runs_every_minute_and_one_at_a_time(prod: Assembly) -> None:
    (rule,) = (rule for rule in prod.of_type(RULE) if rule.get("ScheduleExpression"))
    watchdog = prod.named("AWS::Lambda::Function", "Handler", "handlers.watchdog.handler")
    assert rule["ScheduleExpression"] == "rate(1 minute)"
    assert rule["State"] == "ENABLED"
    (target,) = rule["Targets"]
    assert prod.text(target["Arn"]) == f"<{watchdog.id}.Arn>"
    assert watchdog["ReservedConcurrentExecutions"] == 1
    (invoke,) = prod.of_type("AWS::Lambda::EventInvokeConfig")
    assert invoke["FunctionName"] == {"Ref": watchdog.id}
    assert invoke["MaximumRetryAttempts"] == 0


def test_only_the_schedule_may_invoke_the_watchdog(stage: Assembly) -> None:
    (rule,) = (rule for rule in stage.of_type(RULE) if rule.get("ScheduleExpression"))
    (permission,) = stage.of_type("AWS::Lambda::Permission")
    assert permission["Principal"] == "events.amazonaws.com"
    assert stage.text(permission["SourceArn"]) == f"<{rule.id}.Arn>"


def test_small_accounts_may_do_without_reserved_concurrency(dev: Assembly) -> None:
    for function in dev.of_type("AWS::Lambda::Function"):
        assert function.get("ReservedConcurrentExecutions") is None
