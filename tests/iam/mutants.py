"""Policies less one condition, and the requests that tell them from the real ones.

Every condition of every policy is taken away in turn. Of an allow, some probe that was denied has
to go through then; of a deny, something that is needed has to be refused. The probes are the
attacks, and variations of what each statement allows: a foreign attribute or partition, a key left
out, another way of returning, selecting, sending or encrypting.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tests.iam.attack import Outcome, operator_requests
from tests.iam.attacks import attacks
from tests.iam.conditions import Condition
from tests.iam.enforce import Judge
from tests.iam.patterns import Context, Undecidable
from tests.iam.policy import Effect, Principal, Request, Statement, decide
from tests.iam.template import Deployment, Role

_OTHER: Final[Mapping[str, tuple[str, ...]]] = {
    "aws:sourcearn": ("arn:aws:events:us-east-1:000000000000:rule/other",),
    "dynamodb:enclosingoperation": ("TransactGetItems",),
    "dynamodb:leadingkeys": ("INTRUDER#x",),
    "dynamodb:returnvalues": ("ALL_OLD", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW", "NONE"),
    "dynamodb:select": ("ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES", "COUNT"),
    "events:detail-type": ("intruder",),
    "events:source": ("intruder",),
    "kms:viaservice": ("ec2.us-east-1.amazonaws.com",),
}
"""What a request may say instead."""

_INTRUDER: Final = "intruder"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A statement of a policy, and the condition that it lacks."""

    policy: str
    position: int
    statement: Statement
    condition: Condition

    @property
    def id(self) -> str:
        """Its name among all mutants."""
        sid = self.statement.sid or f"statement {self.position}"
        return f"{self.policy}: {sid} without {self.condition.name} of {self.condition.key}"

    @property
    def mutated(self) -> Statement:
        """The statement less the condition."""
        return self.statement.without(self.condition)


def mutants(deployment: Deployment) -> list[Mutant]:
    """Return one mutant for each condition of each policy."""
    policies: dict[str, tuple[Statement, ...]] = {
        role.id: role.statements for role in deployment.roles
    }
    policies |= {
        arn.rpartition(":")[2]: found for arn, found in deployment.resource_policies.items()
    }
    return [
        Mutant(policy, position, statement, condition)
        for policy, statements in policies.items()
        for position, statement in enumerate(statements)
        for condition in statement.conditions
    ]


class Battery:
    """Requests with a known answer: what has to be denied, and what is needed."""

    def __init__(self, deployment: Deployment) -> None:
        judge = Judge(deployment)
        self.denied: list[Request] = []
        self.needed: list[Request] = []
        for request in self._candidates(deployment, judge):
            statements = self._statements(deployment, judge, request)
            allowed = decide(request, statements).allowed
            (self.needed if allowed else self.denied).append(request)
        self.needed += operator_requests(deployment, encrypted=True)

    def catches(self, mutant: Mutant, principal: Principal | None) -> bool:
        """Whether some answer changes with the mutant in place of the statement."""
        if mutant.statement.effect is Effect.DENY:
            return any(mutant.mutated.applies(request) for request in self.needed)
        return any(
            mutant.mutated.applies(request)
            for request in self.denied
            if principal is None or request.principal == principal
        )

    @staticmethod
    def _statements(
        deployment: Deployment, judge: Judge, request: Request
    ) -> tuple[Statement, ...]:
        mine = (role for role in deployment.roles if role.principal == request.principal)
        own = tuple(statement for role in mine for statement in role.statements)
        return (*own, *judge.policies_of(request.resource))

    def _candidates(self, deployment: Deployment, judge: Judge) -> Iterator[Request]:
        for attack in attacks(deployment):
            if attack.expect is Outcome.DENIED:
                role = deployment.role_of(attack.function)
                yield from _asked(judge, role, attack.service, attack.operation, attack.params)
        for role in deployment.roles:
            for statement in role.statements:
                yield from _variations(statement, role.principal)
        for statements in deployment.resource_policies.values():
            for statement in statements:
                for principal in statement.principals or ():
                    if principal.kind == "Service":
                        yield from _variations(statement, principal)


def caught(deployment: Deployment) -> dict[Mutant, bool]:
    """Tell of every mutant whether the battery catches it."""
    battery = Battery(deployment)
    principals = {role.id: role.principal for role in deployment.roles}
    return {
        mutant: battery.catches(mutant, principals.get(mutant.policy))
        for mutant in mutants(deployment)
    }


def _asked(
    judge: Judge, role: Role, service: str, operation: str, params: Mapping[str, object]
) -> Iterable[Request]:
    try:
        return judge.authorizations(role, service, operation, params)
    except Undecidable:
        return ()


def _variations(statement: Statement, principal: Principal) -> Iterator[Request]:
    """Yield what a statement allows, and that with one thing changed at a time."""
    context = _fitting(statement)
    for action in statement.actions:
        for resource in statement.resources:
            place = resource.replace("*", "x") if resource != "*" else resource
            for changed in (context, *_changed(context)):
                yield Request(action, place, changed, principal)


def _fitting(statement: Statement) -> dict[str, tuple[str, ...]]:
    """Return a context that meets the conditions of an allow."""
    context: dict[str, tuple[str, ...]] = {"aws:securetransport": ("true",)}
    context["s3:tlsversion"] = ("1.3",)
    for condition in statement.conditions:
        if condition.name == "Null":
            continue
        key = condition.key.lower()
        many = condition.name.startswith("ForAllValues:")
        values = condition.values if many else condition.values[:1]
        context[key] = tuple(value.replace("*", "x") for value in values)
    return context


def _changed(context: Context) -> Iterator[Context]:
    for key, values in context.items():
        yield {other: kept for other, kept in context.items() if other != key}
        if key == "dynamodb:attributes":
            yield {**context, key: (*values, _INTRUDER)}
        for value in _OTHER.get(key, ()):
            yield {**context, key: (value,)}
    # Some parameters are absent from a fitting request and could be added to it.
    yield {**context, "dynamodb:returnvalues": ("ALL_OLD",)}
    yield {**context, "dynamodb:select": ("ALL_ATTRIBUTES",)}
