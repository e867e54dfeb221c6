"""Every function can do what it does and nothing else, and each condition is needed for that."""

from dataclasses import replace
from pathlib import Path

import pytest

from local.emulator import ACCOUNT_ID, REGION
from piton.access import Function
from tests.iam.attack import Outcome, operator_requests, succeeds
from tests.iam.attacks import attacks
from tests.iam.coverage import grants, reasons, unused
from tests.iam.enforce import Judge
from tests.iam.exercise import Exercise
from tests.iam.mutants import caught
from tests.iam.patterns import Undecidable
from tests.iam.policy import Effect, Request, Verdict, decide
from tests.iam.refusals import REFUSALS, Refusal
from tests.iam.template import Deployment
from tests.infra.synthesis import Variant, synthesize


def test_case_66_no_call_is_denied(exercised: Exercise) -> None:
    assert [entry for entry in exercised.judged if not entry.allowed] == []


def test_a_spare_grant_would_be_noticed(deployed: Deployment, exercised: Exercise) -> None:
    """As if nobody had ever read that attribute, or polled that queue."""
    for action, attribute in (("dynamodb:GetItem", "exec_log"), ("sqs:ReceiveMessage", "-")):
        kept = [
            replace(entry, attributes=tuple(set(entry.attributes) - {attribute}))
            for entry in exercised.judged
            if entry.action != action or attribute != "-"
        ]
        found = unused(deployed, kept)
        assert any((grant.action, grant.attribute) == (action, attribute) for grant in found)


def test_every_function_was_exercised(exercised: Exercise) -> None:
    assert {function.value for function in Function} <= {e.role for e in exercised.judged}


def test_what_is_granted_is_used(deployed: Deployment, exercised: Exercise) -> None:
    explained = reasons()
    spare = [
        grant
        for grant in unused(deployed, exercised.judged)
        if not any(reason.covers(grant) for reason in explained)
    ]
    assert spare == []


def test_every_reason_is_about_something(deployed: Deployment, exercised: Exercise) -> None:
    spare = unused(deployed, exercised.judged)
    assert [each for each in reasons() if not any(map(each.covers, spare))] == []


def test_there_is_something_to_use(deployed: Deployment) -> None:
    assert len(grants(deployed)) > 500


def test_iam_denies_what_it_has_to(deployed: Deployment) -> None:
    judge = Judge(deployed)
    wrong = [
        attack.id
        for attack in attacks(deployed)
        if succeeds(attack, judge, deployed) is (attack.expect is Outcome.DENIED)
    ]
    assert wrong == []


def test_attacks_are_told_apart_by_name(deployed: Deployment) -> None:
    names = [attack.id for attack in attacks(deployed)]
    assert len(set(names)) == len(names)


def test_nobody_comes_over_plain_http(deployed: Deployment) -> None:
    judge = Judge(deployed)
    asked = list(operator_requests(deployed, encrypted=False))
    assert asked
    for request in asked:
        decision = decide(request, judge.policies_of(request.resource))
        assert decision.verdict is Verdict.DENIED_EXPLICITLY


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.__name__)
def test_code_or_guards_refuse_the_rest(refusal: Refusal, exercised: Exercise) -> None:
    assert exercised.refused[refusal.__name__]


@pytest.mark.parametrize("variant", [Variant.FULL, Variant.DEV])
def test_no_condition_can_be_taken_away(variant: Variant, shared: Path) -> None:
    found = caught(Deployment(synthesize(variant, shared), ACCOUNT_ID, REGION))
    assert len(found) > 200
    assert [mutant.id for mutant, noticed in found.items() if not noticed] == []


def test_roles_trust_one_service_each(deployed: Deployment) -> None:
    for role in deployed.roles:
        trusted = {"lambda.amazonaws.com" if role.function else "appsync.amazonaws.com"}
        assert {principal.name for principal in role.trusted} == trusted


def test_a_role_has_allows_only(deployed: Deployment) -> None:
    for role in deployed.roles:
        assert {statement.effect for statement in role.statements} == {Effect.ALLOW}


def test_case_65_an_undecidable_call_is_refused_and_never_sent(deployed: Deployment) -> None:
    judge = Judge(deployed)
    role = deployed.role_of(Function.WORKER)
    with pytest.raises(Undecidable):
        judge.authorizations(role, "dynamodb", "ExecuteStatement", {"Statement": "SELECT 1"})
    request = Request("dynamodb:PartiQLUpdate", "*", {})
    assert not judge.decide(role, request).allowed
