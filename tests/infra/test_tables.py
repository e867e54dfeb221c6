"""Tables and indexes are those that the engine declares."""

from piton.storage.algebra import Table
from piton.storage.keys import INDEXES
from tests.infra.synthesis import Assembly, Resource


def tables(assembly: Assembly) -> dict[Table, Resource]:
    found = assembly.of_type("AWS::DynamoDB::Table")
    return {
        table: next(each for each in found if each.id.startswith(f"Tables{table.value.title()}"))
        for table in Table
    }


def test_each_is_paid_by_use_and_has_the_engines_keys(stage: Assembly) -> None:
    assert len(stage.of_type("AWS::DynamoDB::Table")) == len(Table)
    for table in tables(stage).values():
        assert table["BillingMode"] == "PAY_PER_REQUEST"
        assert table["KeySchema"] == [
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ]


def test_a_role_that_may_write_effects_cannot_end_an_executions_life(stage: Assembly) -> None:
    lives = {name: table.get("TimeToLiveSpecification") for name, table in tables(stage).items()}
    assert lives == {
        Table.EXECUTIONS: {"AttributeName": "expires_at", "Enabled": True},
        Table.EFFECTS: {"AttributeName": "effect_expires_at", "Enabled": True},
        Table.WORKFLOWS: None,
    }


def test_every_declared_index_exists_with_its_projection(stage: Assembly) -> None:
    found = {
        (name, index["IndexName"]): index
        for name, table in tables(stage).items()
        for index in table.get("GlobalSecondaryIndexes") or ()
    }
    assert set(found) == {(index.table, index.name) for index in INDEXES}
    for index in INDEXES:
        deployed = found[index.table, index.name]
        assert deployed["KeySchema"] == [
            {"AttributeName": index.partition, "KeyType": "HASH"},
            {"AttributeName": index.sort, "KeyType": "RANGE"},
        ]
        projection = deployed["Projection"]
        if index.projected:
            assert projection["ProjectionType"] == "INCLUDE"
            assert set(projection["NonKeyAttributes"]) == set(index.projected)
        else:
            assert projection == {"ProjectionType": "KEYS_ONLY"}


def test_sort_keys_have_the_type_that_the_engine_writes(stage: Assembly) -> None:
    by_table = tables(stage)
    for index in INDEXES:
        types = {
            attribute["AttributeName"]: attribute["AttributeType"]
            for attribute in by_table[index.table]["AttributeDefinitions"]
        }
        assert types[index.sort] == ("N" if index.sort_is_number else "S")
        assert types[index.partition] == "S"
