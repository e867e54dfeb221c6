"""Condition operators of the IAM policy language.

Sources: "IAM JSON policy elements: Condition operators" and "Creating a condition with multiple
keys or values" of the IAM User Guide. `BinaryEquals` is left out on purpose: no policy here needs
it, and an unknown operator is undecidable.
"""

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Final

from tests.iam.keys import KEYS
from tests.iam.patterns import Context, Undecidable, matches, matches_arn, variables

Test = Callable[[str, str, Context], bool]
"""Whether a policy's value fits a value of the request."""


class Quantifier(Enum):
    """How several values of one key are looked at."""

    NONE = ""
    ALL = "ForAllValues"
    ANY = "ForAnyValue"


@dataclass(frozen=True, slots=True)
class Operator:
    """A test of single values; a negated one holds where the test fails for every policy value."""

    test: Test
    negated: bool = False
    variables: bool = False


def _number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise Undecidable(f"{text!r} is not a number") from error


def _moment(text: str) -> datetime:
    try:
        if text.isdigit():
            return datetime.fromtimestamp(int(text), UTC)
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise Undecidable(f"{text!r} is not a moment") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _truth(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise Undecidable(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def _in_network(network: str, address: str, _: Context) -> bool:
    try:
        return ipaddress.ip_address(address) in ipaddress.ip_network(network, strict=False)
    except ValueError as error:
        raise Undecidable(f"{address!r} in {network!r} are no address and network") from error


def _equals(wanted: str, given: str, context: Context) -> bool:
    return matches(wanted, given, context, wildcards=False)


def _equals_ignoring_case(wanted: str, given: str, context: Context) -> bool:
    lowered = {key: tuple(map(str.lower, values)) for key, values in context.items()}
    return matches(wanted.lower(), given.lower(), lowered, wildcards=False)


def _same_truth(wanted: str, given: str, _: Context) -> bool:
    return _truth(wanted) == _truth(given)


def _numbers(compare: Callable[[Decimal, Decimal], bool]) -> Test:
    return lambda wanted, given, _: compare(_number(given), _number(wanted))


def _moments(compare: Callable[[datetime, datetime], bool]) -> Test:
    return lambda wanted, given, _: compare(_moment(given), _moment(wanted))


OPERATORS: Final = {
    "StringEquals": Operator(_equals, variables=True),
    "StringNotEquals": Operator(_equals, negated=True, variables=True),
    "StringEqualsIgnoreCase": Operator(_equals_ignoring_case, variables=True),
    "StringNotEqualsIgnoreCase": Operator(_equals_ignoring_case, negated=True, variables=True),
    "StringLike": Operator(matches, variables=True),
    "StringNotLike": Operator(matches, negated=True, variables=True),
    "ArnEquals": Operator(matches_arn, variables=True),
    "ArnLike": Operator(matches_arn, variables=True),
    "ArnNotEquals": Operator(matches_arn, negated=True, variables=True),
    "ArnNotLike": Operator(matches_arn, negated=True, variables=True),
    "Bool": Operator(_same_truth),
    "NumericEquals": Operator(_numbers(lambda given, wanted: given == wanted)),
    "NumericNotEquals": Operator(_numbers(lambda given, wanted: given == wanted), negated=True),
    "NumericLessThan": Operator(_numbers(lambda given, wanted: given < wanted)),
    "NumericLessThanEquals": Operator(_numbers(lambda given, wanted: given <= wanted)),
    "NumericGreaterThan": Operator(_numbers(lambda given, wanted: given > wanted)),
    "NumericGreaterThanEquals": Operator(_numbers(lambda given, wanted: given >= wanted)),
    "DateEquals": Operator(_moments(lambda given, wanted: given == wanted)),
    "DateNotEquals": Operator(_moments(lambda given, wanted: given == wanted), negated=True),
    "DateLessThan": Operator(_moments(lambda given, wanted: given < wanted)),
    "DateLessThanEquals": Operator(_moments(lambda given, wanted: given <= wanted)),
    "DateGreaterThan": Operator(_moments(lambda given, wanted: given > wanted)),
    "DateGreaterThanEquals": Operator(_moments(lambda given, wanted: given >= wanted)),
    "IpAddress": Operator(_in_network),
    "NotIpAddress": Operator(_in_network, negated=True),
}
_IF_EXISTS: Final = "IfExists"


@dataclass(frozen=True, slots=True)
class Condition:
    """One operator on one key, with the values that the policy lists."""

    name: str
    key: str
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        """Raise `Undecidable` unless operator and key are known and fit each other."""
        known = KEYS.get(self.key.lower())
        if known is None:
            raise Undecidable(f"condition key {self.key!r} is not known here")
        if not self.values:
            raise Undecidable(f"{self.name} of {self.key} has no values")
        if self.name == "Null":
            for value in self.values:
                _truth(value)
            return
        quantifier, operator, _ = _read(self.name)
        if not operator.variables and any(map(variables, self.values)):
            raise Undecidable(f"{self.name} takes no policy variables")
        if quantifier is Quantifier.NONE and known.many:
            raise Undecidable(f"{self.key} has many values, so {self.name} needs a set operator")

    def holds(self, context: Context) -> bool:
        """Whether a request with this context meets the condition."""
        given = context.get(self.key.lower(), ())
        if self.name == "Null":
            return any(_truth(value) is (not given) for value in self.values)
        quantifier, operator, if_exists = _read(self.name)
        match quantifier:
            case Quantifier.NONE:
                if not given:
                    return if_exists or operator.negated
                if len(given) > 1:
                    return self._several_for_one(operator)
                return self._fits(operator, given[0], context)
            case Quantifier.ALL:
                # Empty texts count as no values, and no values fit.
                return all(self._fits(operator, value, context) for value in given if value)
            case Quantifier.ANY:
                if not given:
                    return if_exists
                return any(self._fits(operator, value, context) for value in given if value)

    def _fits(self, operator: Operator, value: str, context: Context) -> bool:
        found = any(operator.test(wanted, value, context) for wanted in self.values)
        return found is not operator.negated

    def _several_for_one(self, operator: Operator) -> bool:
        """Several values where one is expected do not match; the EventBridge guide shows it."""
        if operator.negated:
            raise Undecidable(f"{self.key} has several values under {self.name}")
        return False


def _read(name: str) -> tuple[Quantifier, Operator, bool]:
    prefix, colon, rest = name.rpartition(":")
    known = {quantifier.value: quantifier for quantifier in Quantifier}
    if prefix not in known or bool(colon) is not bool(prefix):
        raise Undecidable(f"set operator {prefix!r} is not known here")
    if_exists = rest.endswith(_IF_EXISTS)
    operator = OPERATORS.get(rest.removesuffix(_IF_EXISTS))
    if operator is None:
        raise Undecidable(f"condition operator {rest!r} is not known here")
    return known[prefix], operator, if_exists
