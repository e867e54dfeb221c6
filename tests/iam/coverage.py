"""What is granted and was never used, grant by grant."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import yaml

from tests.iam.enforce import Judged
from tests.iam.patterns import Undecidable, matches, matches_arn
from tests.iam.policy import Effect, Statement
from tests.iam.template import Deployment

REASONS: Final = Path(__file__).with_name("unused.yaml")


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """One attribute that one action may name on one resource; `-` where attributes do not count."""

    role: str
    action: str
    resource: str
    attribute: str

    def used_by(self, judged: Judged) -> bool:
        """Whether an allowed request needed this grant."""
        return (
            judged.allowed
            and judged.role == self.role
            and matches(self.action.lower(), judged.action.lower(), {})
            and matches_arn(self.resource, judged.resource, {})
            and (self.attribute == "-" or self.attribute in judged.attributes)
        )


@dataclass(frozen=True, slots=True)
class Reason:
    """Why grants that fit the patterns stay although the exercise never needs them."""

    role: str
    action: str
    resource: str
    why: str
    attribute: str = "*"

    def covers(self, grant: Grant) -> bool:
        """Whether the reason is about this grant."""
        return (
            fnmatchcase(grant.role, self.role)
            and fnmatchcase(grant.action, self.action)
            and fnmatchcase(grant.resource, self.resource)
            and fnmatchcase(grant.attribute, self.attribute)
        )


def grants(deployment: Deployment) -> list[Grant]:
    """Return everything that the roles are granted. Raises `Undecidable` for open-ended grants."""
    found = {
        grant
        for role in deployment.roles
        for statement in role.statements
        if statement.effect is Effect.ALLOW
        for grant in _of_statement(role.label, statement)
    }
    return sorted(found)


def unused(deployment: Deployment, judged: Iterable[Judged]) -> list[Grant]:
    """Return the grants that nothing needed."""
    entries = list(judged)
    return [
        grant for grant in grants(deployment) if not any(grant.used_by(entry) for entry in entries)
    ]


def reasons() -> list[Reason]:
    """Read why some grants stay unused."""
    document: list[dict[str, Any]] = yaml.safe_load(REASONS.read_text()) or []
    return [Reason(**entry) for entry in document]


def _of_statement(role: str, statement: Statement) -> Iterator[Grant]:
    if statement.but_actions or statement.but_resources:
        raise Undecidable(f"{statement.sid} of {role} grants whatever it does not name")
    attributes = [
        value
        for condition in statement.conditions
        if condition.name == "ForAllValues:StringEquals" and condition.key == "dynamodb:Attributes"
        for value in condition.values
    ]
    for action in statement.actions:
        if "*" in action:
            raise Undecidable(f"{statement.sid} of {role} grants {action}")
        for resource in statement.resources:
            for attribute in attributes or ["-"]:
                yield Grant(role, action, resource, attribute)
