"""From a boto3 call to what IAM has to allow for it.

Every service that a function may call has its reading here; a call that has none is undecidable.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tests.iam import dynamodb
from tests.iam.account import Account
from tests.iam.patterns import Context, Undecidable
from tests.iam.policy import Principal, Request

Params = Mapping[str, Any]
Reading = Callable[[str, Params, Account], Iterator[Request]]

_QUEUE_ACTIONS: Final = {
    "ChangeMessageVisibility": "ChangeMessageVisibility",
    "ChangeMessageVisibilityBatch": "ChangeMessageVisibility",
    "DeleteMessage": "DeleteMessage",
    "DeleteMessageBatch": "DeleteMessage",
    "PurgeQueue": "PurgeQueue",
    "ReceiveMessage": "ReceiveMessage",
    "SendMessage": "SendMessage",
    "SendMessageBatch": "SendMessage",
}
_KEY_ACTIONS: Final = {
    "BatchGetItem": ("Decrypt",),
    "GetItem": ("Decrypt",),
    "GetObject": ("Decrypt",),
    "PutObject": ("Decrypt", "GenerateDataKey"),
    "Query": ("Decrypt",),
    "Scan": ("Decrypt",),
}
"""What a call does with the key of what it reads or writes; a call not listed does all of it."""

_OBJECT_ACTIONS: Final = {
    "DeleteObject": "DeleteObject",
    "GetObject": "GetObject",
    "HeadObject": "GetObject",
    "PutObject": "PutObject",
}


def authorizations(
    service: str, operation: str, params: Params, account: Account, principal: Principal
) -> list[Request]:
    """Return what has to be allowed, all of it, for one call. Raises `Undecidable`."""
    reading = _READINGS.get(service)
    if reading is None:
        raise Undecidable(f"calls of {service} are not evaluated here")
    common: Context = {
        "aws:principalaccount": (account.account_id,),
        "aws:principalarn": (principal.name,),
        "aws:requestedregion": (account.region,),
        "aws:securetransport": ("true",),
    }
    try:
        asked = list(reading(operation, params, account))
    except KeyError as missing:
        raise Undecidable(
            f"{service}'s {operation} is not evaluated without {missing}"
        ) from missing
    asked += [through for request in asked for through in _key_use(request, account)]
    found = [
        Request(request.action, request.resource, {**common, **request.context}, principal)
        for request in asked
    ]
    if not found:
        raise Undecidable(f"{service}'s {operation} asks for nothing")
    return found


def _key_use(request: Request, account: Account) -> Iterator[Request]:
    """Yield what a service does with a customer's key in the caller's name.

    S3: "Using server-side encryption with AWS KMS keys"; DynamoDB: "DynamoDB encryption at rest:
    usage notes", where a read decrypts and a write in addition encrypts under a data key.
    """
    service, _, operation = request.action.partition(":")
    for resource, key in account.keys.items():
        if request.resource == resource or request.resource.startswith(f"{resource}/"):
            context = {
                "kms:viaservice": (f"{service}.{account.region}.amazonaws.com",),
                "kms:calleraccount": (account.account_id,),
            }
            for action in _KEY_ACTIONS.get(operation, ("Decrypt", "Encrypt", "GenerateDataKey")):
                yield Request(f"kms:{action}", key, context)


def _sqs(operation: str, params: Params, account: Account) -> Iterator[Request]:
    queue = account.queue(params["QueueUrl"])
    yield _plain("sqs", _QUEUE_ACTIONS, operation, queue)


def _s3(operation: str, params: Params, account: Account) -> Iterator[Request]:
    bucket = f"arn:{account.partition}:s3:::{params['Bucket']}"
    context: Context = {"s3:tlsversion": ("1.3",)}
    if operation in {"ListObjects", "ListObjectsV2"}:
        if (prefix := params.get("Prefix")) is not None:
            context = {**context, "s3:prefix": (prefix,)}
        yield Request("s3:ListBucket", bucket, context)
        return
    yield _plain("s3", _OBJECT_ACTIONS, operation, f"{bucket}/{params['Key']}", context)


def _events(operation: str, params: Params, account: Account) -> Iterator[Request]:
    if operation != "PutEvents":
        raise Undecidable(f"EventBridge's {operation} is not evaluated here")
    for entry in params["Entries"]:
        name = entry.get("EventBusName", "default")
        bus = name if name.startswith("arn:") else account.arn("events", f"event-bus/{name}")
        context = {
            "events:source": (entry["Source"],),
            "events:detail-type": (entry["DetailType"],),
            "events:eventbusinvocation": ("false",),
        }
        yield Request("events:PutEvents", bus, context)


def _lambda(operation: str, params: Params, account: Account) -> Iterator[Request]:
    function = account.function(params["FunctionName"])
    yield _plain("lambda", {"Invoke": "InvokeFunction"}, operation, function)


_READINGS: Final[Mapping[str, Reading]] = {
    "dynamodb": dynamodb.requests,
    "events": _events,
    "lambda": _lambda,
    "s3": _s3,
    "sqs": _sqs,
}


def _plain(
    service: str,
    actions: Mapping[str, str],
    operation: str,
    resource: str,
    context: Context | None = None,
) -> Request:
    if operation not in actions:
        raise Undecidable(f"{service}'s {operation} is not evaluated here")
    return Request(f"{service}:{actions[operation]}", resource, context or {})
