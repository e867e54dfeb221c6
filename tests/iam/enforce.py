"""The evaluator between boto3 and AWS: a client is held to the role under which it was made."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import boto3
from botocore.exceptions import ClientError
from botocore.model import OperationModel

from tests.iam.patterns import Undecidable
from tests.iam.policy import Decision, Request, Statement, decide
from tests.iam.requests import authorizations
from tests.iam.template import Deployment, Role

_EVENT: Final = "before-parameter-build"


@dataclass(frozen=True, slots=True)
class Judged:
    """One thing that a call asked for under a role, and what came of it."""

    role: str
    action: str
    resource: str
    attributes: tuple[str, ...]
    allowed: bool
    why: str


class Judge:
    """Decides under the policies of a deployment."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment

    def decide(self, role: Role, request: Request) -> Decision:
        """Evaluate the role's policies and those of the resource."""
        mine = replace(request, principal=role.principal)
        return decide(mine, (*role.statements, *self.policies_of(request.resource)))

    def authorizations(
        self, role: Role, service: str, operation: str, params: Mapping[str, Any]
    ) -> list[Request]:
        """Return what has to be allowed for a call. Raises `Undecidable`."""
        account = self._deployment.account
        return authorizations(service, operation, params, account, role.principal)

    def allows(self, role: Role, service: str, operation: str, params: Mapping[str, Any]) -> bool:
        """Whether a call goes through. Raises `Undecidable`."""
        asked = self.authorizations(role, service, operation, params)
        return all(self.decide(role, request).allowed for request in asked)

    def policies_of(self, resource: str) -> tuple[Statement, ...]:
        """Statements of the policy of a resource; that of an object is its bucket's."""
        policies = self._deployment.resource_policies
        return policies.get(resource) or policies.get(resource.partition("/")[0], ())


Observer = Callable[[Role, str, Mapping[str, Any]], None]
"""Told of every call that was let through: its operation and parameters."""


class Enforcer:
    """Judges each call of the clients made under `as_role`, notes it, and refuses what is denied.

    A denied or undecidable call fails as on AWS, with AccessDeniedException, and is never sent.
    """

    def __init__(self, deployment: Deployment, observer: Observer) -> None:
        self.judge = Judge(deployment)
        self.judged: dict[Judged, None] = {}
        self._observer = observer

    @contextmanager
    def as_role(self, role: Role) -> Iterator[None]:
        """Clients of the default session that are made in this block act as `role` for ever."""
        before = boto3.DEFAULT_SESSION
        session = boto3.Session()

        def hook(params: dict[str, Any], model: OperationModel, **_: Any) -> None:
            self._check(role, model.service_model.service_name, model.name, params)

        session.events.register(_EVENT, hook)
        boto3.DEFAULT_SESSION = session
        try:
            yield
        finally:
            boto3.DEFAULT_SESSION = before

    def note(self, role: Role, request: Request) -> bool:
        """Judge one request and keep what came of it."""
        decision = self.judge.decide(role, request)
        entry = Judged(
            role=role.label,
            action=request.action,
            resource=request.resource,
            attributes=request.context.get("dynamodb:attributes", ()),
            allowed=decision.allowed,
            why=decision.verdict.value,
        )
        self.judged[entry] = None
        return decision.allowed

    def _check(self, role: Role, service: str, operation: str, params: Mapping[str, Any]) -> None:
        try:
            asked = self.judge.authorizations(role, service, operation, params)
            refused = [each for each in asked if not self.note(role, each)]
        except Undecidable as unknown:
            name = f"{service}:{operation}"
            self.judged[Judged(role.label, name, "", (), allowed=False, why=str(unknown))] = None
            raise _denied(operation, str(unknown)) from unknown
        if refused:
            raise _denied(operation, f"{refused[0].action} on {refused[0].resource}")
        self._observer(role, operation, params)


def _denied(operation: str, what: str) -> ClientError:
    return ClientError(
        {
            "Error": {"Code": "AccessDeniedException", "Message": f"not authorized: {what}"},
            "ResponseMetadata": {"HTTPStatusCode": 400},  # type: ignore[typeddict-item]
        },
        operation,
    )
