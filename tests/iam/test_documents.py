"""What the documents say of permissions is what the deployed roles allow."""

import pytest

from infra.statements import Statement as Declared
from local.docs.permissions import statements
from local.emulator import REGION
from piton.access import Function
from tests.iam.attack import Outcome
from tests.iam.attacks import attacks
from tests.iam.documented import documented_decisions
from tests.iam.policy import Statement
from tests.iam.template import Deployment
from tests.infra.synthesis import ROOT

Shape = tuple[frozenset[str], int, frozenset[tuple[str, str, frozenset[str]]]]
"""Actions, number of kinds of resource, and conditions; ARNs are words in the documents."""

SECURITY = (ROOT / "docs" / "security.md").read_text()


def shown(statement: Declared) -> Shape:
    conditions = frozenset(
        (operator, key, frozenset([values] if isinstance(values, str) else values))
        for operator, tests in statement.conditions.items()
        for key, values in tests.items()
    )
    return frozenset(statement.actions), len(statement.resources), conditions


def deployed_shape(statement: Statement) -> Shape:
    conditions = frozenset(
        (condition.name, condition.key, frozenset(condition.values))
        for condition in statement.conditions
    )
    kinds = 1 if statement.sid == "DispatchNodes" else len(statement.resources)
    return frozenset(statement.actions), kinds, conditions


@pytest.mark.parametrize("function", Function)
def test_the_tables_show_what_is_deployed(function: Function, deployed: Deployment) -> None:
    roles = [role for role in deployed.roles if role.function is function]
    found = {deployed_shape(each) for role in roles for each in role.statements}
    assert found == {shown(each) for each in statements(function, REGION)}


def test_every_statement_says_why() -> None:
    for function in Function:
        assert all(statement.why for statement in statements(function))


def test_what_remains_possible_is_said(deployed: Deployment) -> None:
    rows = {line.split(" | ")[1] for line in SECURITY.splitlines() if line.count(" | ") == 3}
    possible = {a.name for a in attacks(deployed) if a.expect is Outcome.RESIDUAL}
    assert rows - {"it is possible that", "---"} == possible


def test_the_number_of_documented_decisions_is_right() -> None:
    assert f"agrees with {len(documented_decisions())} decisions" in SECURITY
