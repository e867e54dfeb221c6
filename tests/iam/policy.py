"""Statements of IAM policies, and the decision they come to.

The order of the decision is that of "Policy evaluation logic" in the IAM User Guide for one
account without boundaries, session or organization policies: an explicit deny wins, else one allow
is enough, else the request is denied.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from tests.iam.conditions import Condition
from tests.iam.patterns import Context, Undecidable, matches, matches_arn, resolves

VERSION: Final = "2012-10-17"
_ELEMENTS: Final = frozenset(
    {
        "Sid",
        "Effect",
        "Principal",
        "Action",
        "NotAction",
        "Resource",
        "NotResource",
        "Condition",
    }
)


class Effect(StrEnum):
    """What a statement does to the requests it applies to."""

    ALLOW = "Allow"
    DENY = "Deny"


class Verdict(StrEnum):
    """What comes of a request."""

    ALLOWED = "allowed"
    DENIED_EXPLICITLY = "denied explicitly"
    DENIED_IMPLICITLY = "denied implicitly"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks: the ARN of a role or user, or the name of a service."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Request:
    """One action on one resource, as it stands before the policies."""

    action: str
    resource: str
    context: Context
    principal: Principal | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement. `principals` is None in policies of identities."""

    sid: str
    effect: Effect
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: tuple[Condition, ...] = ()
    but_actions: bool = False
    but_resources: bool = False
    principals: tuple[Principal, ...] | None = None

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> "Statement":
        """Read a statement. Raises `Undecidable` for anything that is not evaluated here."""
        if spare := set(document) - _ELEMENTS:
            raise Undecidable(f"element {', '.join(sorted(spare))} is not known here")
        actions, but_actions = _one_of(document, "Action", "NotAction")
        resources, but_resources = _one_of(document, "Resource", "NotResource")
        try:
            effect = Effect(document["Effect"])
        except (KeyError, ValueError) as error:
            raise Undecidable("a statement needs the effect Allow or Deny") from error
        return cls(
            sid=str(document.get("Sid", "")),
            effect=effect,
            actions=actions,
            resources=resources,
            conditions=tuple(_conditions(document.get("Condition", {}))),
            but_actions=but_actions,
            but_resources=but_resources,
            principals=_principals(document["Principal"]) if "Principal" in document else None,
        )

    def applies(self, request: Request) -> bool:
        """Whether the statement speaks of this request.

        Raises `Undecidable` when a deny rests on a variable that the request gives no value.
        """
        if not self._names(request):
            return False
        if self.effect is Effect.DENY:
            self._check_variables(request.context)
        return self._covers(request) and all(
            condition.holds(request.context) for condition in self.conditions
        )

    def without(self, condition: Condition) -> "Statement":
        """Return the statement less one of its conditions."""
        return replace(
            self, conditions=tuple(each for each in self.conditions if each is not condition)
        )

    def _names(self, request: Request) -> bool:
        named = any(_same_action(each, request.action) for each in self.actions)
        return named is not self.but_actions and self._names_principal(request.principal)

    def _covers(self, request: Request) -> bool:
        named = any(matches_arn(each, request.resource, request.context) for each in self.resources)
        return named is not self.but_resources

    def _names_principal(self, principal: Principal | None) -> bool:
        if self.principals is None:
            return True
        return any(each.kind == "*" or each == principal for each in self.principals)

    def _check_variables(self, context: Context) -> None:
        texts = [*self.resources, *(text for each in self.conditions for text in each.values)]
        for text in texts:
            if not resolves(text, context):
                raise Undecidable(f"{text!r} of a deny has no value in this request")


@dataclass(frozen=True, slots=True)
class Decision:
    """What comes of a request, and the statements that made it so."""

    verdict: Verdict
    by: tuple[Statement, ...] = ()

    @property
    def allowed(self) -> bool:
        """Whether the request goes through."""
        return self.verdict is Verdict.ALLOWED


def parse_policy(document: Mapping[str, Any]) -> tuple[Statement, ...]:
    """Read a policy document. Raises `Undecidable` unless everything in it is understood."""
    if document.get("Version") != VERSION:
        raise Undecidable(f"only policies of version {VERSION} are evaluated here")
    if spare := set(document) - {"Version", "Id", "Statement"}:
        raise Undecidable(f"policy element {', '.join(sorted(spare))} is not known here")
    return tuple(map(Statement.parse, _as_list(document["Statement"])))


def decide(request: Request, statements: Iterable[Statement]) -> Decision:
    """Evaluate all statements that may apply: of the identity and of the resource, in any order."""
    applying = [statement for statement in statements if statement.applies(request)]
    for effect, verdict in (
        (Effect.DENY, Verdict.DENIED_EXPLICITLY),
        (Effect.ALLOW, Verdict.ALLOWED),
    ):
        if by := tuple(each for each in applying if each.effect is effect):
            return Decision(verdict, by)
    return Decision(Verdict.DENIED_IMPLICITLY)


def _one_of(document: Mapping[str, Any], name: str, negated: str) -> tuple[tuple[str, ...], bool]:
    if (name in document) is (negated in document):
        raise Undecidable(f"a statement needs either {name} or {negated}")
    return tuple(map(str, _as_list(document.get(name, document.get(negated))))), negated in document


def _conditions(block: Mapping[str, Mapping[str, Any]]) -> Iterable[Condition]:
    for operator, tests in block.items():
        for key, values in tests.items():
            yield Condition(operator, key, tuple(map(_text, _as_list(values))))


def _principals(element: Any) -> tuple[Principal, ...]:
    if element == "*":
        return (Principal("*", "*"),)
    if not isinstance(element, Mapping) or not set(element) <= {"AWS", "Service"}:
        raise Undecidable(f"principal {element!r} is not evaluated here")
    return tuple(
        Principal("*", "*") if kind == "AWS" and name == "*" else Principal(kind, str(name))
        for kind, names in element.items()
        for name in _as_list(names)
    )


def _same_action(pattern: str, action: str) -> bool:
    return matches(pattern.lower(), action.lower(), {})


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float):
        raise Undecidable(f"{value!r} is not the value of a condition")
    return str(value)
