"""What every role may do, read from the templates and held against the declared access."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from infra.grants import INDEX_LEADING_KEYS
from piton.access import BY_FUNCTION, Function
from piton.domain.rows import ExecutionRef
from piton.domain.status import EventType
from piton.storage import keys
from piton.storage.algebra import Operation, Table
from piton.storage.keys import LEADING_KEYS
from tests.infra.synthesis import Assembly, Resource, listed, statements

ROLE_POLICY_LIMIT = 10_240
LONGEST_ARN = 160

READS = {"dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query"}
CONSUMES = {"sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"}
LOGS = {"logs:CreateLogStream", "logs:PutLogEvents"}
STATE = LOGS | {"dynamodb:GetItem", "s3:GetObject"}

ALLOWED = {
    Function.COMMANDS: STATE | {"dynamodb:Query", "dynamodb:UpdateItem", "s3:PutObject"},
    Function.QUERIES: STATE | {"dynamodb:BatchGetItem", "dynamodb:Query"},
    Function.STEP_RUNNER: STATE | CONSUMES | {"dynamodb:Query", "dynamodb:UpdateItem"},
    Function.WORKER: STATE
    | CONSUMES
    | {
        "dynamodb:BatchGetItem",
        "dynamodb:UpdateItem",
        "s3:PutObject",
        "sqs:ChangeMessageVisibility",
    },
    Function.WATCHDOG: STATE | {"dynamodb:Query", "dynamodb:UpdateItem"},
    Function.DEAD_LETTERS: STATE | CONSUMES | {"dynamodb:UpdateItem"},
    Function.OUTBOX_RELAY: LOGS
    | {
        "dynamodb:DescribeStream",
        "dynamodb:GetRecords",
        "dynamodb:GetShardIterator",
        "dynamodb:ListStreams",
        "events:PutEvents",
        "sqs:SendMessage",
    },
}
WRITING = [f for f in Function if BY_FUNCTION[f].operations]


def function(assembly: Assembly, kind: Function) -> Resource:
    """The function of a kind, of the default pool if it is a worker."""
    name = "worker-default" if kind is Function.WORKER else kind.value.replace("_", "-")
    (found,) = (
        each
        for each in assembly.of_type("AWS::Lambda::Function")
        if (each.get("FunctionName") or "").split("-", 2)[2:] == [name]
    )
    return found


def granted(assembly: Assembly, kind: Function) -> list[Mapping[str, Any]]:
    role = function(assembly, kind)["Role"]["Fn::GetAtt"][0]
    return list(statements(assembly, role))


def actions(statement: Mapping[str, Any]) -> set[str]:
    return set(listed(statement["Action"]))


def every_statement(assembly: Assembly) -> Iterator[Mapping[str, Any]]:
    for role in assembly.of_type("AWS::IAM::Role"):
        yield from statements(assembly, role.id)


def table_arn(assembly: Assembly, table: Table) -> str:
    (found,) = (
        each
        for each in assembly.of_type("AWS::DynamoDB::Table")
        if each.id.startswith(f"Tables{table.value.capitalize()}")
    )
    return f"<{found.id}.Arn>"


def admits(statement: Mapping[str, Any], operation: Operation) -> bool:
    """Whether this is the statement of the operation's kind of item and way of writing."""
    if actions(statement) != {"dynamodb:UpdateItem"}:
        return False
    conditions = statement["Condition"]
    names = set(conditions["ForAllValues:StringEquals"]["dynamodb:Attributes"])
    if operation.transactional:
        way = {"dynamodb:EnclosingOperation": "TransactWriteItems"}
    else:
        way = {"dynamodb:ReturnValues": operation.returns.value}
    leading = conditions["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]
    return (
        conditions["StringEquals"] == way
        and operation.attributes <= names
        and listed(leading) == [LEADING_KEYS[operation.item]]
    )


@pytest.mark.parametrize("kind", Function)
def test_a_role_has_the_actions_of_its_function_and_no_others(
    kind: Function, stage: Assembly
) -> None:
    found = {action for statement in granted(stage, kind) for action in actions(statement)}
    assert found == ALLOWED[kind]


@pytest.mark.parametrize("kind", WRITING)
def test_every_declared_write_is_admitted_by_one_statement_on_its_table(
    kind: Function, stage: Assembly
) -> None:
    for operation in BY_FUNCTION[kind].operations:
        (statement,) = (s for s in granted(stage, kind) if admits(s, operation))
        assert stage.text(statement["Resource"]) == table_arn(stage, operation.table)


@pytest.mark.parametrize("kind", WRITING)
def test_no_statement_admits_an_attribute_that_no_operation_writes(
    kind: Function, stage: Assembly
) -> None:
    operations = BY_FUNCTION[kind].operations
    for statement in granted(stage, kind):
        if actions(statement) == {"dynamodb:UpdateItem"}:
            admitted = [operation for operation in operations if admits(statement, operation)]
            declared = {"pk", "sk"}.union(*(operation.attributes for operation in admitted))
            names = statement["Condition"]["ForAllValues:StringEquals"]["dynamodb:Attributes"]
            assert set(names) == declared
            assert len({operation.item for operation in admitted}) == 1


@pytest.mark.parametrize("kind", Function)
def test_reads_are_of_declared_attributes(kind: Function, stage: Assembly) -> None:
    access = BY_FUNCTION[kind]
    gets = {"pk", "sk"}.union(*(get.attributes for get in access.gets))
    queries = {"pk", "sk"}.union(*(query.attributes for query in access.queries))
    for statement in granted(stage, kind):
        if actions(statement) & READS:
            declared = queries if actions(statement) == {"dynamodb:Query"} else gets
            names = statement["Condition"]["ForAllValues:StringEquals"]["dynamodb:Attributes"]
            assert set(names) <= declared


def test_case_71_every_use_of_a_table_is_limited(stage: Assembly) -> None:
    """By attribute and partition key, and not by their absence: sets of none fit every set."""
    for statement in every_statement(stage):
        if not actions(statement) & (READS | {"dynamodb:UpdateItem"}):
            continue
        conditions = statement["Condition"]
        assert conditions["ForAllValues:StringEquals"].keys() == {"dynamodb:Attributes"}
        limited = {"dynamodb:Attributes": "false"}
        # Its partitions are the tenants' names, which begin with anything.
        if statement["Sid"] != "QueryWorkflowByByTenant":
            assert conditions["ForAllValues:StringLike"].keys() == {"dynamodb:LeadingKeys"}
            limited["dynamodb:LeadingKeys"] = "false"
        assert conditions["Null"] == limited
        assert "*" not in stage.text(statement["Resource"])
        if actions(statement) == {"dynamodb:Query"}:
            assert conditions["StringEquals"] == {"dynamodb:Select": "SPECIFIC_ATTRIBUTES"}
        elif actions(statement) & READS:
            select = conditions["StringEqualsIfExists"]
            assert select == {"dynamodb:Select": "SPECIFIC_ATTRIBUTES"}


def test_nobody_replaces_deletes_or_scans(stage: Assembly) -> None:
    never = (
        "dynamodb:PutItem",
        "dynamodb:DeleteItem",
        "dynamodb:BatchWriteItem",
        "dynamodb:Scan",
        "dynamodb:PartiQL",
        "s3:DeleteObject",
        "s3:ListBucket",
    )
    for statement in every_statement(stage):
        assert not {a for a in actions(statement) if a.startswith(never)}


def test_no_action_has_a_wildcard(stage: Assembly) -> None:
    for statement in every_statement(stage):
        assert statement["Effect"] == "Allow"
        assert not {action for action in actions(statement) if "*" in action}


def test_the_only_wildcard_resources_are_payload_prefixes_and_the_list_of_streams(
    stage: Assembly,
) -> None:
    for statement in every_statement(stage):
        for resource in listed(statement["Resource"]):
            arn = stage.text(resource)
            if "*" in arn:
                assert arn.endswith(("/payloads/*", "/workflows/*")) or (
                    actions(statement) == {"dynamodb:ListStreams"} and arn == "*"
                )


def test_only_the_relay_sends(stage: Assembly) -> None:
    for kind in Function:
        found = {action for statement in granted(stage, kind) for action in actions(statement)}
        sends = found & {"sqs:SendMessage", "events:PutEvents", "sns:Publish"}
        assert bool(sends) is (kind is Function.OUTBOX_RELAY)


def test_the_relay_sends_to_workers_and_notes_its_failures(stage: Assembly) -> None:
    targets = {
        stage.text(resource)
        for statement in granted(stage, Function.OUTBOX_RELAY)
        if "sqs:SendMessage" in actions(statement)
        for resource in listed(statement["Resource"])
    }
    stage_name = stage.of_type("AWS::Events::EventBus")[0]["Name"]
    assert targets == {
        f"<{stage.named('AWS::SQS::Queue', 'QueueName', f'{stage_name}-{name}').id}.Arn>"
        for name in ("worker-default", "stream-failures")
    }


def test_the_relay_publishes_the_engines_own_events(stage: Assembly) -> None:
    (bus,) = stage.of_type("AWS::Events::EventBus")
    (statement,) = (
        s for s in granted(stage, Function.OUTBOX_RELAY) if actions(s) == {"events:PutEvents"}
    )
    assert stage.text(statement["Resource"]) == f"<{bus.id}.Arn>"
    assert statement["Condition"] == {
        "StringEquals": {
            "events:source": "piton",
            "events:detail-type": [kind.value for kind in EventType],
        }
    }


@pytest.mark.parametrize(
    ("kind", "prefixes"),
    [
        (Function.COMMANDS, {"payloads", "workflows"}),
        (Function.WORKER, {"payloads"}),
    ],
)
def test_who_writes_objects_writes_them_where_they_belong(
    kind: Function, prefixes: set[str], stage: Assembly
) -> None:
    (bucket,) = stage.of_type("AWS::S3::Bucket")
    (statement,) = (s for s in granted(stage, kind) if actions(s) == {"s3:PutObject"})
    found = {stage.text(resource) for resource in listed(statement["Resource"])}
    assert found == {f"<{bucket.id}.Arn>/{prefix}/*" for prefix in prefixes}


def test_functions_log_to_their_own_group_only(stage: Assembly) -> None:
    for kind in Function:
        (statement,) = (s for s in granted(stage, kind) if actions(s) & LOGS)
        group = function(stage, kind)["LoggingConfig"]["LogGroup"]["Ref"]
        assert stage.text(statement["Resource"]) == f"<{group}.Arn>"


def test_no_role_has_a_managed_policy(stage: Assembly) -> None:
    for role in stage.of_type("AWS::IAM::Role"):
        assert not role.get("ManagedPolicyArns")
    assert not stage.of_type("AWS::IAM::ManagedPolicy")


def test_policies_fit_a_role(full: Assembly) -> None:
    """With every reference as long as an ARN can be; spaces do not count."""
    for role in full.of_type("AWS::IAM::Role"):
        size = sum(
            len(json.dumps(sized(statement), separators=(",", ":")))
            for statement in statements(full, role.id)
        )
        assert size < ROLE_POLICY_LIMIT


def sized(value: Any) -> Any:
    """Replace references by text of the greatest length."""
    match value:
        case {"Ref": _} | {"Fn::GetAtt": _} | {"Fn::ImportValue": _}:
            return "x" * LONGEST_ARN
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(sized(part) for part in parts)
        case dict():
            return {key: sized(each) for key, each in value.items()}
        case list():
            return [sized(each) for each in value]
        case _:
            return value


def test_a_key_of_the_account_is_used_through_the_stores_only(full: Assembly) -> None:
    (key,) = full.of_type("AWS::KMS::Key")
    for kind in Function:
        used = [s for s in granted(full, kind) if any("kms:" in a for a in actions(s))]
        assert used
        for statement in used:
            assert full.text(statement["Resource"]) == f"<{key.id}.Arn>"
        writes = {a for s in used for a in actions(s)} - {"kms:Decrypt", "kms:DescribeKey"}
        access = BY_FUNCTION[kind]
        assert bool(writes) is bool(access.operations or access.writes_payloads)


def test_leading_keys_of_indexes_are_those_that_the_engine_writes() -> None:
    ref = ExecutionRef("acme", "01J00000000000000000000000")
    assert keys.due_shard(ref).startswith(INDEX_LEADING_KEYS[keys.DUE].rstrip("*"))
    assert keys.tenant_partition("acme").startswith(INDEX_LEADING_KEYS[keys.BY_TENANT].rstrip("*"))
    assert not [pattern for pattern in INDEX_LEADING_KEYS.values() if not pattern.endswith("*")]
