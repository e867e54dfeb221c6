"""Who calls, for which tenant, and what they may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from piton.domain.errors import ErrorCode, Rejected
from piton.domain.names import Tenant, is_execution_id
from piton.domain.rows import ExecutionRef


class Group(StrEnum):
    """Groups of the user pool. Operators may do what viewers may."""

    VIEWERS = "viewers"
    OPERATORS = "operators"


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller. `subject` names them in histories."""

    tenant: Tenant
    subject: str
    groups: frozenset[Group]

    def require_reader(self) -> None:
        """Raise `Rejected` unless the caller may read."""
        if not self.groups:
            raise Rejected(
                ErrorCode.FORBIDDEN,
                f"You are in neither '{Group.VIEWERS}' nor '{Group.OPERATORS}'; "
                "ask an administrator to add you to one",
            )

    def require_operator(self) -> None:
        """Raise `Rejected` unless the caller may change anything."""
        if Group.OPERATORS not in self.groups:
            raise Rejected(
                ErrorCode.FORBIDDEN,
                f"Only members of '{Group.OPERATORS}' may do this; ask an administrator to add you",
            )

    def execution(self, execution_id: str) -> ExecutionRef | None:
        """Name an execution of the caller's tenant; None when `execution_id` cannot be one.

        The caller's own tenant is part of the key, so the id of another tenant's execution leads
        to the same empty place as an id that nobody has.
        """
        return ExecutionRef(self.tenant, execution_id) if is_execution_id(execution_id) else None


@dataclass(frozen=True, slots=True)
class RoleGrant:
    """What callers that sign with one IAM role are taken for."""

    tenant: Tenant
    groups: frozenset[Group]


Roles = Mapping[str, RoleGrant]
"""By ARN of the role (`arn:aws:iam::<account>:role/<path><name>`)."""
