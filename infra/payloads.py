"""The bucket of payloads too large for a row."""

from __future__ import annotations

import math
from typing import cast

from aws_cdk import CfnResource, Duration, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.findings import acknowledge
from infra.stage import Stage
from piton.domain.settings import DAY, MAX_LIFE_MS, Settings
from piton.storage.keys import PAYLOAD_PREFIX


class Payloads(Construct):
    """A private bucket, reached over TLS only, whose payloads expire with their execution.

    On a stage that empties its bucket, deleting the stack deletes the objects first: S3 refuses to
    delete a bucket that holds any.
    """

    def __init__(self, scope: Construct, id_: str, stage: Stage, key: kms.IKey | None) -> None:
        super().__init__(scope, id_)
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            encryption=s3.BucketEncryption.KMS if key else s3.BucketEncryption.S3_MANAGED,
            encryption_key=key,
            bucket_key_enabled=True if key else None,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            lifecycle_rules=[
                s3.LifecycleRule(
                    prefix=PAYLOAD_PREFIX,
                    expiration=Duration.days(payload_days(stage.engine)),
                    abort_incomplete_multipart_upload_after=Duration.days(1),
                )
            ],
            removal_policy=stage.removal,
            auto_delete_objects=stage.empty_bucket,
        )
        if stage.empty_bucket:
            _keep_emptier_logs_in_stack(self, stage)
        acknowledge(
            self.bucket,
            "S1",
            "Only this application's functions reach the bucket, by content hash; an access log "
            "would cost more than the payloads.",
        )


def payload_days(settings: Settings) -> int:
    """Days after which no row can refer to a payload any more.

    Counted from the payload's own birth, which is never before its execution's.
    """
    longest_ms = max(MAX_LIFE_MS, settings.default_life_ms)
    return math.ceil((longest_ms + settings.retention_ms) / DAY) + 1


def _keep_emptier_logs_in_stack(scope: Construct, stage: Stage) -> None:
    """Let the function that empties the bucket log where the stack's deletion cleans up.

    CDK would have it create its own log group, which then outlives the stack.
    """
    stack = Stack.of(scope)
    provider = stack.node.find_child("Custom::S3AutoDeleteObjectsCustomResourceProvider")
    group = logs.LogGroup(
        scope,
        "EmptierLogs",
        log_group_name=f"/piton/{stage.name}/bucket-emptier",
        retention=stage.log_retention,
        removal_policy=stage.removal,
    )
    handler = cast(CfnResource, provider.node.find_child("Handler"))
    role = cast(CfnResource, provider.node.find_child("Role"))
    handler.add_property_override("LoggingConfig", {"LogGroup": group.log_group_name})
    role.add_property_override("ManagedPolicyArns", [])
    role.add_property_override(
        "Policies",
        [
            {
                "PolicyName": "Logs",
                "PolicyDocument": {
                    "Version": "2012-10-17",
                    "Statement": [
                        {
                            "Effect": "Allow",
                            "Action": ["logs:CreateLogStream", "logs:PutLogEvents"],
                            "Resource": group.log_group_arn,
                        }
                    ],
                },
            }
        ],
    )
