"""Condition keys whose place in a request is known. Any other makes a policy undecidable."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Key:
    """A condition key. One with `many` values is only ever asked for by a set operator."""

    name: str
    many: bool = False


_KNOWN: Final = (
    Key("aws:CurrentTime"),
    Key("aws:MultiFactorAuthPresent"),
    Key("aws:PrincipalAccount"),
    Key("aws:PrincipalArn"),
    Key("aws:PrincipalTag/department"),
    Key("aws:PrincipalTag/job-category"),
    Key("aws:RequestedRegion"),
    Key("aws:SecureTransport"),
    Key("aws:SourceAccount"),
    Key("aws:SourceArn"),
    Key("aws:SourceIp"),
    Key("aws:TokenIssueTime"),
    Key("aws:userid"),
    Key("aws:username"),
    Key("dynamodb:Attributes", many=True),
    Key("dynamodb:EnclosingOperation"),
    Key("dynamodb:LeadingKeys", many=True),
    Key("dynamodb:ReturnConsumedCapacity"),
    Key("dynamodb:ReturnValues"),
    Key("dynamodb:Select"),
    Key("ec2:InstanceType"),
    Key("events:creatorAccount"),
    Key("events:detail-type"),
    Key("events:detail.userIdentity.principalId"),
    Key("events:eventBusInvocation"),
    Key("events:source"),
    Key("events:TargetArn"),
    Key("kms:CallerAccount"),
    Key("kms:ViaService"),
    Key("lambda:FunctionArn"),
    Key("lambda:Layer", many=True),
    Key("s3:delimiter"),
    Key("s3:max-keys"),
    Key("s3:prefix"),
    Key("s3:TlsVersion"),
)
KEYS: Final = {key.name.lower(): key for key in _KNOWN}
"""By name in lower case: names of condition keys are not case-sensitive."""
