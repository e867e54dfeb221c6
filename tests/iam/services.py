"""What AWS itself asks for under the roles, as the templates set it up.

Lambda writes logs, polls event sources and notes failed batches ("Lambda execution role", "Using
Lambda with Amazon SQS" and "Using Lambda with DynamoDB" of the Lambda Developer Guide); AppSync
calls the functions behind its fields and logs.
"""

from collections.abc import Iterator

from tests.iam.policy import Request
from tests.iam.template import Deployment, Role
from tests.infra.synthesis import Resource


def service_requests(deployment: Deployment) -> list[tuple[Role, Request]]:
    """Return every such request with the role under which it is made."""
    return [(role, request) for role in deployment.roles for request in _serving(deployment, role)]


def _serving(deployment: Deployment, role: Role) -> Iterator[Request]:
    functions = [
        each for each in deployment.functions if deployment.runs_under(each, role.principal)
    ]
    for function in functions:
        group = deployment.resolve(function.stack, function["LoggingConfig"]["LogGroup"])
        yield from _logging(deployment, str(group))
        for source in deployment.of_type("AWS::Lambda::EventSourceMapping"):
            if deployment.resolve(source.stack, source["FunctionName"]) == deployment.name(
                function
            ):
                yield from _polling(deployment, source)
    for source in deployment.of_type("AWS::AppSync::DataSource"):
        if deployment.resolve(source.stack, source["ServiceRoleArn"]) == role.principal.name:
            arn = deployment.resolve(source.stack, source["LambdaConfig"]["LambdaFunctionArn"])
            yield Request("lambda:InvokeFunction", str(arn), {})
    for api in deployment.of_type("AWS::AppSync::GraphQLApi"):
        config = api.get("LogConfig")
        if config and (
            deployment.resolve(api.stack, config["CloudWatchLogsRoleArn"]) == role.principal.name
        ):
            yield from _logging(deployment, f"/aws/appsync/apis/{deployment.name(api)}")


def _logging(deployment: Deployment, group: str) -> Iterator[Request]:
    for action in ("CreateLogStream", "PutLogEvents"):
        arn = deployment.account.arn("logs", f"log-group:{group}:log-stream:stream")
        yield Request(f"logs:{action}", arn, {})


def _polling(deployment: Deployment, source: Resource) -> Iterator[Request]:
    arn = str(deployment.resolve(source.stack, source["EventSourceArn"]))
    if ":sqs:" in arn:
        for action in ("DeleteMessage", "GetQueueAttributes", "ReceiveMessage"):
            yield Request(f"sqs:{action}", arn, {"aws:securetransport": ("true",)})
        return
    for action in ("DescribeStream", "GetRecords", "GetShardIterator"):
        yield Request(f"dynamodb:{action}", arn, {})
    yield Request("dynamodb:ListStreams", "*", {})
    if key := deployment.account.keys.get(arn.partition("/stream/")[0]):
        through = f"dynamodb.{deployment.account.region}.amazonaws.com"
        yield Request("kms:Decrypt", key, {"kms:viaservice": (through,)})
    failures = (source.get("DestinationConfig") or {}).get("OnFailure")
    if failures:
        destination = str(deployment.resolve(source.stack, failures["Destination"]))
        yield Request("sqs:SendMessage", destination, {"aws:securetransport": ("true",)})
