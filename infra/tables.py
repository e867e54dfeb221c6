"""The tables. What an item looks like is declared in `piton.storage`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.findings import acknowledge
from infra.stage import Stage
from piton.storage.algebra import Table
from piton.storage.keys import INDEXES, Index

_TIME_TO_LIVE: Final[Mapping[Table, str]] = {
    Table.EXECUTIONS: "expires_at",
    # Apart from the above: a role that may write effects cannot end an execution's life.
    Table.EFFECTS: "effect_expires_at",
}


class Tables(Construct):
    """Every table, on demand. `by_name` finds them; only `executions` has a change stream.

    The stream carries both images because messages are computed from a row before and after its
    change.
    """

    def __init__(self, scope: Construct, id_: str, stage: Stage, key: kms.IKey | None) -> None:
        super().__init__(scope, id_)
        self.by_name: Mapping[Table, dynamodb.Table] = {
            table: self._table(table, stage, key) for table in Table
        }
        for index in INDEXES:
            _add_index(self.by_name[index.table], index)

    @property
    def executions(self) -> dynamodb.Table:
        """The table whose change stream is the outbox."""
        return self.by_name[Table.EXECUTIONS]

    def _table(self, table: Table, stage: Stage, key: kms.IKey | None) -> dynamodb.Table:
        made = dynamodb.Table(
            self,
            table.value.capitalize(),
            partition_key=_string("pk"),
            sort_key=_string("sk"),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            encryption=(
                dynamodb.TableEncryption.CUSTOMER_MANAGED
                if key
                else dynamodb.TableEncryption.DEFAULT
            ),
            encryption_key=key,
            stream=(
                dynamodb.StreamViewType.NEW_AND_OLD_IMAGES if table is Table.EXECUTIONS else None
            ),
            time_to_live_attribute=_TIME_TO_LIVE.get(table),
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=stage.point_in_time_recovery
            ),
            deletion_protection=stage.protect,
            removal_policy=stage.removal,
        )
        if not stage.point_in_time_recovery:
            acknowledge(
                made,
                "DDB3",
                "Nothing on this stage is worth restoring, and a table with point-in-time recovery "
                "leaves a system backup behind when it is deleted.",
            )
        return made


def _add_index(table: dynamodb.Table, index: Index) -> None:
    number, text = dynamodb.AttributeType.NUMBER, dynamodb.AttributeType.STRING
    some, keys = dynamodb.ProjectionType.INCLUDE, dynamodb.ProjectionType.KEYS_ONLY
    table.add_global_secondary_index(
        index_name=index.name,
        partition_key=_string(index.partition),
        sort_key=dynamodb.Attribute(name=index.sort, type=number if index.sort_is_number else text),
        projection_type=some if index.projected else keys,
        non_key_attributes=list(index.projected) or None,
    )


def _string(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)
