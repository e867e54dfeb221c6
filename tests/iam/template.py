"""The deployment that the synthesized templates describe: roles, resources, and their policies.

References are resolved to the names that resources would have in one account; a name that AWS would
make up follows from the logical id, so the same templates always give the same deployment.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from piton.access import Function
from tests.iam.account import Account, TableKeys
from tests.iam.patterns import Undecidable
from tests.iam.policy import Principal, Statement, parse_policy
from tests.infra.synthesis import Assembly, Resource

_NAMES: Final[Mapping[str, str]] = {
    "AWS::AppSync::GraphQLApi": "ApiId",
    "AWS::DynamoDB::Table": "TableName",
    "AWS::Events::EventBus": "Name",
    "AWS::Events::Rule": "Name",
    "AWS::IAM::Role": "RoleName",
    "AWS::KMS::Key": "KeyId",
    "AWS::Lambda::Function": "FunctionName",
    "AWS::Logs::LogGroup": "LogGroupName",
    "AWS::S3::Bucket": "BucketName",
    "AWS::SQS::Queue": "QueueName",
}
"""Types that policies refer to, and the property that names one if the template does."""

_ARNS: Final[Mapping[str, tuple[str, str]]] = {
    "AWS::DynamoDB::Table": ("dynamodb", "table/{}"),
    "AWS::Events::EventBus": ("events", "event-bus/{}"),
    "AWS::KMS::Key": ("kms", "key/{}"),
    "AWS::Lambda::Function": ("lambda", "function:{}"),
    "AWS::Logs::LogGroup": ("logs", "log-group:{}:*"),
    "AWS::SQS::Queue": ("sqs", "{}"),
}
STREAM_LABEL: Final = "2026-01-01T00:00:00.000"


@dataclass(frozen=True, slots=True)
class Role:
    """A role, what its own policies say, and which function runs under it, if one does."""

    id: str
    principal: Principal
    statements: tuple[Statement, ...]
    trusted: tuple[Principal, ...]
    function: Function | None = None

    @property
    def label(self) -> str:
        """What reports call the role: its function, or its id in the template."""
        return self.function.value if self.function else self.id


class Deployment:
    """Templates, as they would stand in one account and region."""

    def __init__(self, assembly: Assembly, account_id: str, region: str) -> None:
        self._assembly = assembly
        self._plain = Account(account_id, region)
        self._by_id = {(each.stack, each.id): each for each in assembly.resources}
        self._exports = dict(self._read_exports())

    # --- What is deployed ------------------------------------------------------------------

    @cached_property
    def account(self) -> Account:
        """The account with its tables."""
        tables = {
            self.name(table): TableKeys(
                _keys(table),
                {index["IndexName"]: _keys(index) for index in _indexes(table)},
            )
            for table in self._assembly.of_type("AWS::DynamoDB::Table")
        }
        return Account(
            self._plain.account_id, self._plain.region, tables, dict(self._customer_keys())
        )

    @cached_property
    def roles(self) -> tuple[Role, ...]:
        """Every role of the templates."""
        return tuple(self._role(each) for each in self._assembly.of_type("AWS::IAM::Role"))

    def role_of(self, function: Function) -> Role:
        """The role of a function; that of the first pool for workers."""
        return next(role for role in self.roles if role.function is function)

    @cached_property
    def resource_policies(self) -> Mapping[str, tuple[Statement, ...]]:
        """Statements of the policies of queues, buckets and keys, by what they are attached to."""
        found: dict[str, tuple[Statement, ...]] = {}
        for policy in self._assembly.of_type("AWS::SQS::QueuePolicy"):
            for url in policy["Queues"]:
                arn = self._plain.queue(str(self.resolve(policy.stack, url)))
                found[arn] = self._statements(policy.stack, policy["PolicyDocument"])
        for policy in self._assembly.of_type("AWS::S3::BucketPolicy"):
            arn = f"arn:aws:s3:::{self.resolve(policy.stack, policy['Bucket'])}"
            found[arn] = self._statements(policy.stack, policy["PolicyDocument"])
        for key in self._assembly.of_type("AWS::KMS::Key"):
            found[self.arn(key)] = self._statements(
                key.stack, key["KeyPolicy"], itself=self.arn(key)
            )
        return found

    def environment(self, role: Role) -> dict[str, str]:
        """Environment variables of the function that runs under a role."""
        function = next(each for each in self.functions if self.runs_under(each, role.principal))
        variables = function["Environment"]["Variables"]
        return {name: str(self.resolve(function.stack, value)) for name, value in variables.items()}

    @property
    def functions(self) -> tuple[Resource, ...]:
        """Lambda functions of the engine."""
        return tuple(
            each for each in self._assembly.of_type("AWS::Lambda::Function") if kind_of(each)
        )

    def of_type(self, type_: str) -> tuple[Resource, ...]:
        """Resources of one type."""
        return self._assembly.of_type(type_)

    # --- Names -----------------------------------------------------------------------------

    def name(self, resource: Resource) -> str:
        """The physical name of a resource."""
        if resource.type not in _NAMES:
            raise Undecidable(f"no name is known for a {resource.type}")
        given = resource.get(_NAMES[resource.type])
        if given is None:
            return f"{resource.stack}-{resource.id}".lower()
        return str(self.resolve(resource.stack, given))

    def arn(self, resource: Resource) -> str:
        """The ARN of a resource."""
        name = self.name(resource)
        match resource.type:
            case "AWS::S3::Bucket":
                return f"arn:aws:s3:::{name}"
            case "AWS::IAM::Role":
                return f"arn:aws:iam::{self._plain.account_id}:role/{name}"
            case "AWS::Events::Rule":
                bus = self.resolve(resource.stack, resource.get("EventBusName"))
                return self._plain.arn("events", f"rule/{bus}/{name}" if bus else f"rule/{name}")
            case _:
                service, form = _ARNS[resource.type]
                return self._plain.arn(service, form.format(name))

    def resolve(self, stack: str, value: Any) -> Any:
        """Resolve a template's value. Raises `Undecidable` for a reference that is not known."""
        match value:
            case {"Ref": str(id_)}:
                return self._reference(stack, id_)
            case {"Fn::GetAtt": [str(id_), str(attribute)]}:
                return self._attribute(self._by_id[stack, id_], attribute)
            case {"Fn::ImportValue": name}:
                return self._exported(str(self.resolve(stack, name)))
            case {"Fn::Join": [str(separator), parts]}:
                return separator.join(str(self.resolve(stack, part)) for part in parts)
            case dict():
                if any(key == "Ref" or key.startswith("Fn::") for key in value):
                    raise Undecidable(f"{value!r} is not resolved here")
                return {key: self.resolve(stack, inner) for key, inner in value.items()}
            case list():
                return [self.resolve(stack, inner) for inner in value]
            case _:
                return value

    def _reference(self, stack: str, id_: str) -> str:
        match id_:
            case "AWS::AccountId":
                return self._plain.account_id
            case "AWS::Region":
                return self._plain.region
            case "AWS::Partition":
                return self._plain.partition
            case _:
                resource = self._by_id[stack, id_]
        if resource.type == "AWS::SQS::Queue":
            host = f"https://sqs.{self._plain.region}.amazonaws.com"
            return f"{host}/{self._plain.account_id}/{self.name(resource)}"
        return self.name(resource)

    def _attribute(self, resource: Resource, attribute: str) -> str:
        match resource.type, attribute:
            case _, "Arn":
                return self.arn(resource)
            case "AWS::DynamoDB::Table", "StreamArn":
                return f"{self.arn(resource)}/stream/{STREAM_LABEL}"
            case ("AWS::SQS::Queue", "QueueName") | ("AWS::AppSync::GraphQLApi", "ApiId"):
                return self.name(resource)
            case _:
                raise Undecidable(f"{attribute} of a {resource.type} is not resolved here")

    def _read_exports(self) -> Iterator[tuple[str, tuple[str, Any]]]:
        for stack in {each.stack for each in self._assembly.resources}:
            for output in self._assembly.template(stack).get("Outputs", {}).values():
                if "Export" in output:
                    yield output["Export"]["Name"], (stack, output["Value"])

    def _exported(self, name: str) -> Any:
        stack, value = self._exports[name]
        return self.resolve(stack, value)

    def _customer_keys(self) -> Iterator[tuple[str, str]]:
        """Yield what is encrypted under a customer's key, and the key."""
        for table in self._assembly.of_type("AWS::DynamoDB::Table"):
            if key := (table.get("SSESpecification") or {}).get("KMSMasterKeyId"):
                yield self.arn(table), str(self.resolve(table.stack, key))
        for bucket in self._assembly.of_type("AWS::S3::Bucket"):
            for rule in bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]:
                if key := rule["ServerSideEncryptionByDefault"].get("KMSMasterKeyID"):
                    yield self.arn(bucket), str(self.resolve(bucket.stack, key))

    # --- Policies --------------------------------------------------------------------------

    def _role(self, role: Resource) -> Role:
        if role.get("ManagedPolicyArns"):
            raise Undecidable(f"role {role.id} has managed policies, which are not evaluated here")
        if role.get("PermissionsBoundary"):
            raise Undecidable(f"role {role.id} has a boundary, which is not evaluated here")
        documents = [policy["PolicyDocument"] for policy in role.get("Policies") or ()]
        documents += [
            policy["PolicyDocument"]
            for policy in self._assembly.of_type("AWS::IAM::Policy")
            if policy.stack == role.stack and {"Ref": role.id} in policy["Roles"]
        ]
        principal = Principal("AWS", self.arn(role))
        return Role(
            id=role.id,
            principal=principal,
            statements=tuple(
                statement
                for document in documents
                for statement in self._statements(role.stack, document)
            ),
            trusted=_trusted(self.resolve(role.stack, role["AssumeRolePolicyDocument"])),
            function=next(
                (kind_of(each) for each in self.functions if self.runs_under(each, principal)),
                None,
            ),
        )

    def runs_under(self, function: Resource, principal: Principal) -> bool:
        """Whether this is the role of a function."""
        return bool(self.resolve(function.stack, function["Role"]) == principal.name)

    def _statements(
        self, stack: str, document: Mapping[str, Any], itself: str | None = None
    ) -> tuple[Statement, ...]:
        """Read a policy. In a key's own policy the resource `*` means the key."""
        resolved = self.resolve(stack, document)
        if itself is not None:
            for statement in resolved["Statement"]:
                if statement["Resource"] == "*":
                    statement["Resource"] = itself
        return parse_policy(resolved)


def kind_of(function: Resource) -> Function | None:
    """Which of the engine's functions a Lambda function is; None for helpers of CDK."""
    package, _, rest = str(function.get("Handler")).partition(".")
    return Function(rest.removesuffix(".handler")) if package == "handlers" else None


def _trusted(document: Mapping[str, Any]) -> tuple[Principal, ...]:
    """Who may assume a role. Raises `Undecidable` unless it is services, without conditions."""
    found = []
    for statement in document["Statement"]:
        match statement:
            case {
                "Action": "sts:AssumeRole",
                "Effect": "Allow",
                "Principal": {"Service": str(service)},
                **rest,
            } if not rest:
                found.append(Principal("Service", service))
            case _:
                raise Undecidable(f"trust of {statement!r} is not evaluated here")
    return tuple(found)


def _keys(described: Any) -> tuple[str, ...]:
    """Key attributes, the partition key first."""
    ordered = sorted(described["KeySchema"], key=lambda key: str(key["KeyType"]))
    return tuple(str(key["AttributeName"]) for key in ordered)


def _indexes(table: Resource) -> list[Any]:
    return [
        *(table.get("GlobalSecondaryIndexes") or ()),
        *(table.get("LocalSecondaryIndexes") or ()),
    ]
