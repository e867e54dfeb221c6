"""What an AWS error means: the one place where provider codes are read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from botocore import exceptions as sdk
from botocore.exceptions import BotoCoreError, ClientError

from piton.domain.errors import Bug, Retry

_CONDITION_FAILED: Final = "ConditionalCheckFailed"
_CANCELED: Final = "TransactionCanceledException"
_NO_REASON: Final = "None"
_SERVER_ERROR: Final = 500
_TOO_MANY_REQUESTS: Final = 429

_PASSING: Final = frozenset(
    {
        "EC2Throttled",
        "ExpiredToken",
        "InternalError",
        "InternalFailure",
        "InternalServerError",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceeded",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestTimeout",
        "ServiceUnavailable",
        "SlowDown",
        "Throttled",
        "Throttling",
        "ThrottlingError",
        "TooManyRequests",
        "TransactionConflict",
        "TransactionInProgress",
    }
)
"""Codes, without the suffix `Exception`, of errors that the same call may not meet again."""

_PASSING_BELOW_HTTP: Final = (
    sdk.ConnectionError,
    sdk.CredentialRetrievalError,
    sdk.HTTPClientError,
    sdk.MetadataRetrievalError,
)


class ConditionFailed(Exception):
    """A condition of the write does not hold, and nothing else is wrong with it."""


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Run AWS calls and raise the engine's errors instead of the SDK's.

    `what` names the call in the message. Raises `ConditionFailed` for a refused condition,
    `Retry` for what may pass (throttling, conflicts, server and connection errors) and `Bug` for
    everything else.
    """
    try:
        yield
    except ClientError as error:
        raise _meaning(what, error) from error
    except _PASSING_BELOW_HTTP as error:
        raise Retry(f"{what}: {type(error).__name__}") from error
    except BotoCoreError as error:
        raise Bug(f"{what}: {error}") from error


def error_code(error: ClientError) -> str:
    """Return the provider's code of an error."""
    return str(error.response.get("Error", {}).get("Code", "Unknown"))


def _meaning(what: str, error: ClientError) -> ConditionFailed | Retry | Bug:
    reasons = _reasons(error)
    if reasons == {_CONDITION_FAILED}:
        return ConditionFailed(what)
    text = f"{what}: {error}"
    # A condition that failed beside a conflict may hold once the other transaction is over.
    if reasons - {_CONDITION_FAILED} <= _PASSING or _is_server_fault(error):
        return Retry(text)
    return Bug(text)


def _reasons(error: ClientError) -> set[str]:
    """Codes without their suffix: a cancelled transaction spells them without."""
    code = error_code(error)
    reasons = {code}
    if code == _CANCELED:
        listed = error.response.get("CancellationReasons", [])
        reasons = {reason.get("Code", _NO_REASON) for reason in listed} - {_NO_REASON} or reasons
    return {reason.removesuffix("Exception") for reason in reasons}


def _is_server_fault(error: ClientError) -> bool:
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return status >= _SERVER_ERROR or status == _TOO_MANY_REQUESTS
