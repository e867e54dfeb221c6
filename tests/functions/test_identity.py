"""Who calls: users by their token, applications by their role, nobody else."""

from typing import Any

import pytest

from handlers.graphql import QueryRefused
from handlers.identity import MAX_SUBJECT, caller_of
from piton.domain.errors import ErrorCode, Rejected
from piton.domain.names import Tenant
from piton.services.caller import Caller, Group, RoleGrant
from tests.support.api import ROLES, ApiUnderTest, error_of, every_event, recorded, with_claims

QUERIES = [name for name in every_event() if recorded(name)["info"]["parentTypeName"] != "Mutation"]
MUTATIONS = [name for name in every_event() if name not in QUERIES]


def user(**claims: Any) -> dict[str, Any]:
    identity: dict[str, Any] = with_claims(recorded("start_execution"), **claims)["identity"]
    return identity


def refusal(identity: object) -> ErrorCode:
    with pytest.raises(Rejected) as caught:
        caller_of(identity, ROLES)
    return caught.value.code


def test_a_user_is_of_the_tenant_and_groups_of_their_token() -> None:
    assert caller_of(user(), ROLES) == Caller(Tenant("acme"), "olga", frozenset({Group.OPERATORS}))


def test_an_unknown_group_gives_nothing() -> None:
    both = caller_of(user(groups=["viewers", "admins", 7]), ROLES)
    assert both.groups == frozenset({Group.VIEWERS})
    assert caller_of(user(groups=None), ROLES).groups == frozenset()
    assert caller_of(user(groups="operators"), ROLES).groups == frozenset()


@pytest.mark.parametrize("tenant", [None, "", "a", "Acme", "a#b", "acme\n", "9lives", ["acme"], 5])
def test_a_user_without_a_valid_tenant_is_refused(tenant: object) -> None:
    assert refusal(user(tenant=tenant)) is ErrorCode.FORBIDDEN


def test_an_access_token_is_refused() -> None:
    assert refusal(user(token_use="access")) is ErrorCode.FORBIDDEN


@pytest.mark.parametrize("identity", [None, {}, [], "olga", {"claims": {}}, {"claims": None}])
def test_no_identity_is_no_caller(identity: object) -> None:
    assert refusal(identity) is ErrorCode.UNAUTHENTICATED


def test_a_token_that_names_nobody_is_no_caller() -> None:
    identity = user(sub=None)
    identity["claims"].pop("cognito:username")
    assert refusal(identity) is ErrorCode.UNAUTHENTICATED


def test_a_name_is_cut_to_a_length_that_fits_the_rows() -> None:
    assert len(caller_of(user(**{"cognito:username": "u" * 999}), ROLES).subject) == MAX_SUBJECT


def test_an_application_is_of_the_tenant_its_role_is_mapped_to() -> None:
    assert caller_of(recorded("start_execution_iam")["identity"], ROLES) == Caller(
        Tenant("acme"), "billing-importer/nightly-2026", frozenset({Group.OPERATORS})
    )


@pytest.mark.parametrize(
    "arn",
    [
        "arn:aws:sts::111122223333:assumed-role/other/nightly-2026",
        "arn:aws:sts::999922223333:assumed-role/billing-importer/nightly-2026",
        "arn:aws-cn:sts::111122223333:assumed-role/billing-importer/nightly-2026",
        "arn:aws:sts::111122223333:assumed-role/billing-importer",
        "arn:aws:sts::111122223333:assumed-role/x/billing-importer/nightly",
        "arn:aws:iam::111122223333:user/billing-importer",
        "arn:aws:iam::111122223333:role/apps/billing-importer",
        "arn:aws:sts::111122223333:federated-user/billing-importer",
    ],
)
def test_any_other_role_is_refused(arn: str) -> None:
    assert refusal({"userArn": arn, "accountId": "111122223333"}) is ErrorCode.FORBIDDEN


def test_a_role_of_no_group_may_nothing() -> None:
    roles = {
        "arn:aws:iam::111122223333:role/billing-importer": RoleGrant(Tenant("acme"), frozenset())
    }
    caller = caller_of(recorded("start_execution_iam")["identity"], roles)
    with pytest.raises(Rejected):
        caller.require_reader()


@pytest.mark.parametrize("name", MUTATIONS)
@pytest.mark.parametrize("identity", [None, {}])
def test_every_mutation_refuses_a_null_identity(
    api: ApiUnderTest, name: str, identity: object
) -> None:
    before = list(api.store.calls)
    code, _ = error_of(api.call({**recorded(name), "identity": identity}))
    assert code == "UNAUTHENTICATED"
    assert api.store.calls == before


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("identity", [None, {}])
def test_every_query_and_field_refuses_a_null_identity(
    api: ApiUnderTest, name: str, identity: object
) -> None:
    before = list(api.store.calls)
    with pytest.raises(QueryRefused, match=r"^UNAUTHENTICATED: "):
        api.call({**recorded(name), "identity": identity})
    assert api.store.calls == before


@pytest.mark.parametrize("name", [name for name in MUTATIONS if name != "start_execution_iam"])
@pytest.mark.parametrize("groups", [[], ["viewers"]])
def test_only_operators_change_anything(api: ApiUnderTest, name: str, groups: list[str]) -> None:
    before = list(api.store.calls)
    code, message = error_of(api.call(with_claims(recorded(name), groups=groups)))
    assert (code, "operators" in message) == ("FORBIDDEN", True)
    assert api.store.calls == before


@pytest.mark.parametrize("name", QUERIES)
def test_only_members_of_a_group_read(api: ApiUnderTest, name: str) -> None:
    before = list(api.store.calls)
    with pytest.raises(QueryRefused, match=r"^FORBIDDEN: "):
        api.call(with_claims(recorded(name), groups=[]))
    assert api.store.calls == before


@pytest.mark.parametrize("groups", [["viewers"], ["operators"]])
@pytest.mark.parametrize("name", QUERIES)
def test_both_groups_read(api: ApiUnderTest, name: str, groups: list[str]) -> None:
    api.call(with_claims(recorded(name), groups=groups))


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_tenant_in_the_arguments_or_headers_counts_for_nothing(
    api: ApiUnderTest, name: str
) -> None:
    event = recorded(name)
    event["identity"] = {"tenant": "acme", "groups": ["operators"], "sub": "x", "username": "x"}
    event["request"]["headers"]["x-tenant"] = "acme"
    code, _ = error_of(api.call(event))
    assert code == "UNAUTHENTICATED"
