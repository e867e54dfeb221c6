"""From the identity in a resolver's event to a caller."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from piton.domain.errors import ErrorCode, Rejected
from piton.domain.names import Tenant
from piton.services.caller import Caller, Group, Roles

TENANT_CLAIM: Final = "custom:tenant"
GROUPS_CLAIM: Final = "cognito:groups"
MAX_SUBJECT: Final = 128

_ASSUMED_ROLE: Final = re.compile(
    r"arn:(?P<partition>aws[a-z-]*):sts::(?P<account>\d{12}):assumed-role/"
    r"(?P<role>[\w+=,.@-]+)/(?P<session>[\w+=,.@-]+)"
)
_ROLE: Final = re.compile(
    r"arn:(?P<partition>aws[a-z-]*):iam::(?P<account>\d{12}):role/(.+/)?(?P<role>[\w+=,.@-]+)"
)


def caller_of(identity: object, roles: Roles) -> Caller:
    """Return who calls. Raises `Rejected` for nobody, and for whoever has no valid tenant.

    AppSync verified the token or the signature; nothing of the request itself is trusted here.
    """
    if isinstance(identity, Mapping):
        claims = identity.get("claims")
        if isinstance(claims, Mapping) and claims:
            return _user(claims)
        user_arn = identity.get("userArn")
        if isinstance(user_arn, str) and user_arn:
            return _application(user_arn, roles)
    raise Rejected(
        ErrorCode.UNAUTHENTICATED,
        "The request names no caller; sign in and send your ID token, or sign it with an IAM role",
    )


def _user(claims: Mapping[str, Any]) -> Caller:
    if claims.get("token_use", "id") != "id":
        raise Rejected(
            ErrorCode.FORBIDDEN, "This is an access token, which has no tenant; send the ID token"
        )
    subject = claims.get("cognito:username") or claims.get("sub")
    if not isinstance(subject, str) or not subject:
        raise Rejected(ErrorCode.UNAUTHENTICATED, "The token names no user; sign in again")
    groups = claims.get(GROUPS_CLAIM)
    return Caller(
        tenant=_tenant(claims.get(TENANT_CLAIM)),
        subject=subject[:MAX_SUBJECT],
        groups=_groups(groups if isinstance(groups, list) else []),
    )


def _application(user_arn: str, roles: Roles) -> Caller:
    assumed = _ASSUMED_ROLE.fullmatch(user_arn)
    if assumed:
        # The session's ARN leaves out the path of the role; role names are unique without it.
        wanted = assumed.group("partition", "account", "role")
        for arn, grant in roles.items():
            role = _ROLE.fullmatch(arn)
            if role and role.group("partition", "account", "role") == wanted:
                subject = f"{assumed['role']}/{assumed['session']}"
                return Caller(grant.tenant, subject[:MAX_SUBJECT], grant.groups)
    raise Rejected(
        ErrorCode.FORBIDDEN,
        "Your IAM role belongs to no tenant; ask an administrator to map it to one",
    )


def _tenant(claim: object) -> Tenant:
    try:
        return Tenant(claim if isinstance(claim, str) else "")
    except ValueError as error:
        raise Rejected(
            ErrorCode.FORBIDDEN,
            "Your account has no valid tenant; ask an administrator to create one that has",
        ) from error


def _groups(names: Iterable[object]) -> frozenset[Group]:
    known = {group.value: group for group in Group}
    return frozenset(known[name] for name in names if isinstance(name, str) and name in known)
