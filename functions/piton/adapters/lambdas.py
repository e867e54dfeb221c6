"""Nodes that are other Lambda functions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from piton.adapters.aws_errors import translated
from piton.domain import canonical
from piton.domain.canonical import Json, NotJson
from piton.domain.errors import Bug, Retry
from piton.domain.status import Reason
from piton.tasks import Permanent, Transient

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient


class AwsLambdaInvoker:
    """`ports.LambdaInvoker`: synchronous calls, one try each; the engine does the retrying."""

    def __init__(self, client: LambdaClient) -> None:
        self._client = client

    def invoke(self, arn: str, payload: Json, timeout_s: float) -> Json:  # noqa: ARG002
        """Call the function and return its answer.

        A function that raises is a `Transient` failure with `LAMBDA_ERROR`; an answer that is
        not JSON and a call that AWS refuses are `Permanent`. The time limit is the caller's.
        """
        try:
            with translated("lambda.invoke"):
                answer = self._client.invoke(
                    FunctionName=arn,
                    InvocationType="RequestResponse",
                    Payload=json.dumps(payload).encode(),
                )
        except Retry as error:
            raise Transient(Reason.LAMBDA_ERROR, str(error)) from error
        except Bug as error:
            raise Permanent(Reason.LAMBDA_ERROR, str(error)) from error
        body = answer["Payload"].read().decode("utf-8", "replace")
        if answer.get("FunctionError"):
            raise Transient(Reason.LAMBDA_ERROR, body[:1000])
        try:
            return canonical.loads(body or "null")
        except NotJson as error:
            raise Permanent(Reason.RESULT_NOT_JSON, "the answer is not JSON") from error
