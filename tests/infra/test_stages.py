"""What differs between stages, and what never does."""

import json
from typing import Any

import pytest
from aws_cdk import App, RemovalPolicy

from infra.bundle import Target
from infra.contract import ContextKey, StageName
from infra.payloads import payload_days
from infra.stage import GROUPS, ContextError, Stage
from piton.domain.settings import DAY, Settings
from piton.services.caller import Group
from tests.infra.conftest import Synthesize
from tests.infra.synthesis import ALARM_TOPIC, Assembly, Variant

KEPT = ("AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::Cognito::UserPool", "AWS::KMS::Key")
DEAD_QUEUES = ("advance-dlq", "quarantine", "undelivered-events", "stream-failures")


def read(**context: Any) -> Stage:
    return Stage.from_context(App(context=context).node)


def test_dev_is_what_nobody_chose() -> None:
    assert read().name is StageName.DEV


@pytest.mark.parametrize("name", [StageName.DEV, StageName.LOCAL])
def test_what_can_be_thrown_away_is_not_protected(name: StageName) -> None:
    stage = read(stage=name.value)
    assert stage.removal is RemovalPolicy.DESTROY
    assert not stage.protect
    assert not stage.point_in_time_recovery
    assert not stage.monitoring


def test_only_the_embedded_aws_gets_code_for_this_interpreter() -> None:
    targets = {name: read(stage=name.value).target for name in StageName}
    assert targets == {
        StageName.DEV: Target.LAMBDA,
        StageName.PROD: Target.LAMBDA,
        StageName.LOCAL: Target.LOCAL,
    }


def test_context_may_come_as_json_from_cdk_json_too() -> None:
    assert read(customerKey=True).customer_key
    assert read(settings={"lease_ms": 5}).engine.lease_ms == 5


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (ContextKey.STAGE, "test"),
        (ContextKey.CUSTOMER_KEY, "1"),
        (ContextKey.RESERVE_CONCURRENCY, ""),
        (ContextKey.LOG_LEVEL, "trace"),
        (ContextKey.SETTINGS, "not json"),
        (ContextKey.SETTINGS, "[]"),
        (ContextKey.SETTINGS, '{"lease_ms": "5"}'),
        (ContextKey.SETTINGS, '{"lease_ms": true}'),
        (ContextKey.SETTINGS, '{"lease_ms": -1}'),
        (ContextKey.IAM_TENANTS, '{"intake": {"tenant": "acme", "groups": []}}'),
        (ContextKey.IAM_TENANTS, '{"arn:aws:iam::1:role/r": {"tenant": "ACME", "groups": []}}'),
        (ContextKey.IAM_TENANTS, '{"arn:aws:iam::1:role/r": {"tenant": "acme"}}'),
        (
            ContextKey.IAM_TENANTS,
            '{"arn:aws:iam::1:role/r": {"tenant": "acme", "groups": ["admins"]}}',
        ),
    ],
)
def test_a_value_that_is_not_understood_is_named(key: ContextKey, value: str) -> None:
    with pytest.raises(ContextError, match=f"Context value {key}: "):
        read(**{key.value: value})


def test_groups_are_those_that_the_engine_knows() -> None:
    assert set(GROUPS) == {group.value for group in Group}


@pytest.mark.parametrize(
    ("variant", "policy"),
    [(Variant.DEV, "Delete"), (Variant.LOCAL, "Delete"), (Variant.FULL, "Retain")],
)
def test_only_prod_keeps_data_and_users(
    variant: Variant, policy: str, assemblies: Synthesize
) -> None:
    assembly = assemblies(variant)
    kept = [each for type_ in KEPT for each in assembly.of_type(type_)]
    logs = assembly.of_type("AWS::Logs::LogGroup")
    assert len(kept) >= 5
    assert {each.body["DeletionPolicy"] for each in (*kept, *logs)} == {policy}


@pytest.mark.parametrize("variant", [Variant.DEV, Variant.LOCAL, Variant.PROD])
def test_only_prod_is_protected_against_deletion(variant: Variant, assemblies: Synthesize) -> None:
    assembly, protected = assemblies(variant), variant is Variant.PROD
    for table in assembly.of_type("AWS::DynamoDB::Table"):
        assert bool(table.get("DeletionProtectionEnabled")) is protected
        recovery = table["PointInTimeRecoverySpecification"]
        assert recovery["PointInTimeRecoveryEnabled"] is protected
    (users,) = assembly.of_type("AWS::Cognito::UserPool")
    assert users.get("DeletionProtection") == ("ACTIVE" if protected else "INACTIVE")
    stacks = [
        artifact
        for artifact in assembly.manifest["artifacts"].values()
        if artifact["type"] == "aws:cloudformation:stack"
    ]
    assert len(stacks) == 3
    for artifact in stacks:
        assert artifact["properties"].get("terminationProtection", False) is protected


def test_case_67_deleting_dev_leaves_no_log_and_no_object_behind(dev: Assembly) -> None:
    """Every function writes to a group of its stack, and none may create another."""
    (emptier,) = dev.of_type("Custom::S3AutoDeleteObjects")
    assert dev.text(emptier["BucketName"]) == dev.text({"Ref": bucket(dev)})
    groups = {group.id for group in dev.of_type("AWS::Logs::LogGroup")}
    functions = dev.of_type("AWS::Lambda::Function")
    assert {each["LoggingConfig"]["LogGroup"]["Ref"] for each in functions} <= groups
    assert "logs:CreateLogGroup" not in json.dumps([each.body for each in dev.resources])
    assert "AWSLambdaBasicExecutionRole" not in json.dumps([r.body for r in dev.resources])


def bucket(assembly: Assembly) -> str:
    (found,) = assembly.of_type("AWS::S3::Bucket")
    return found.id


def test_the_embedded_aws_is_spared_what_it_cannot_do(local: Assembly) -> None:
    types = {resource.type for resource in local.resources}
    assert not {type_ for type_ in types if type_.startswith("Custom::")}
    (api,) = local.of_type("AWS::AppSync::GraphQLApi")
    assert api.get("LogConfig") is None


def test_case_67_nothing_uses_the_log_retention_function(stage: Assembly) -> None:
    assert not [each for each in stage.resources if each.type == "Custom::LogRetention"]


@pytest.mark.parametrize(
    ("variant", "days"), [(Variant.DEV, 7), (Variant.PROD, 90), (Variant.LOCAL, 7)]
)
def test_every_log_group_forgets(variant: Variant, days: int, assemblies: Synthesize) -> None:
    groups = assemblies(variant).of_type("AWS::Logs::LogGroup")
    assert {group["RetentionInDays"] for group in groups} == {days}


def test_a_key_of_the_account_covers_tables_and_payloads(
    prod: Assembly, assemblies: Synthesize
) -> None:
    keyed = assemblies(Variant.FULL)
    assert not prod.of_type("AWS::KMS::Key")
    (key,) = keyed.of_type("AWS::KMS::Key")
    assert key["EnableKeyRotation"] is True
    arn = f"<{key.id}.Arn>"
    for table in keyed.of_type("AWS::DynamoDB::Table"):
        assert keyed.text(table["SSESpecification"]["KMSMasterKeyId"]) == arn
    (store,) = keyed.of_type("AWS::S3::Bucket")
    (rule,) = store["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert keyed.text(rule["ServerSideEncryptionByDefault"]["KMSMasterKeyID"]) == arn


def test_payloads_outlive_the_rows_that_refer_to_them(stage: Assembly) -> None:
    settings = Settings()
    (store,) = stage.of_type("AWS::S3::Bucket")
    (rule,) = store["LifecycleConfiguration"]["Rules"]
    assert rule["Prefix"] == "payloads/"
    assert rule["ExpirationInDays"] == payload_days(settings)
    assert rule["ExpirationInDays"] * DAY > settings.default_life_ms + settings.retention_ms


def test_payloads_are_private_and_travel_encrypted(stage: Assembly) -> None:
    (store,) = stage.of_type("AWS::S3::Bucket")
    assert set(store["PublicAccessBlockConfiguration"].values()) == {True}
    (policy,) = stage.of_type("AWS::S3::BucketPolicy")
    denied = [s for s in policy["PolicyDocument"]["Statement"] if s["Effect"] == "Deny"]
    assert {"Bool": {"aws:SecureTransport": "false"}} in [s["Condition"] for s in denied]
    assert all(s["Action"] == "s3:*" and s["Principal"] == {"AWS": "*"} for s in denied)


def test_alarms_watch_every_queue_that_should_be_empty(prod: Assembly) -> None:
    watched = {
        prod.text(dimension["Value"])
        for alarm in prod.of_type("AWS::CloudWatch::Alarm")
        for dimension in alarm["Dimensions"]
        if dimension["Name"] == "QueueName"
    }
    expected = {
        f"<{prod.named('AWS::SQS::Queue', 'QueueName', f'piton-prod-{name}').id}.QueueName>"
        for name in DEAD_QUEUES
    }
    assert watched == expected
    for alarm in prod.of_type("AWS::CloudWatch::Alarm"):
        assert alarm["AlarmActions"] == [ALARM_TOPIC]


@pytest.mark.parametrize("variant", [Variant.DEV, Variant.LOCAL])
def test_what_costs_while_idle_is_for_prod(variant: Variant, assemblies: Synthesize) -> None:
    types = {resource.type for resource in assemblies(variant).resources}
    assert not types & {
        "AWS::CloudWatch::Alarm",
        "AWS::CloudWatch::Dashboard",
        "AWS::KMS::Key",
    }
