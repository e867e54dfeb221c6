"""The table of documented decisions, and what this evaluator makes of each."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tests.iam.account import Account, TableKeys
from tests.iam.policy import VERSION, Principal, Request, Statement, decide, parse_policy
from tests.iam.requests import authorizations

TABLE: Final = Path(__file__).with_name("decisions.yaml")
ACCOUNT_ID: Final = "123456789012"
_CALLER: Final = Principal("AWS", f"arn:aws:iam::{ACCOUNT_ID}:user/caller")


@dataclass(frozen=True, slots=True)
class Documented:
    """One row: statements that may apply, requests that must all pass, and what AWS says."""

    name: str
    page: str
    statements: tuple[Statement, ...]
    requests: tuple[Request, ...]
    allowed: bool

    @property
    def decided(self) -> bool:
        """Whether this evaluator allows the row's call."""
        return all(decide(request, self.statements).allowed for request in self.requests)


def documented_decisions() -> list[Documented]:
    """Read the table. Every row names a page of the table's own list."""
    table = yaml.safe_load(TABLE.read_text())
    policies = {
        name: parse_policy({"Version": VERSION, "Statement": statements})
        for name, statements in table["policies"].items()
    }
    tables = {
        name: TableKeys(tuple(keys["key"]), _tuples(keys.get("indexes", {})))
        for name, keys in table["tables"].items()
    }
    account = Account(ACCOUNT_ID, "us-west-2", tables)
    return [
        _row(number, row, table["pages"], policies, account)
        for number, row in enumerate(table["decisions"], start=1)
    ]


def _row(
    number: int,
    row: Mapping[str, Any],
    pages: Mapping[str, Mapping[str, str]],
    policies: Mapping[str, tuple[Statement, ...]],
    account: Account,
) -> Documented:
    policy = row["policy"] if "policy" in row else row["of_resource"]
    return Documented(
        name=f"{number}: {row['page']}: {policy}: {row['expect']}: {row['why']}",
        page=pages[row["page"]]["title"],
        statements=policies[policy],
        requests=tuple(_requests(row, account)),
        allowed={"allow": True, "deny": False}[row["expect"]],
    )


def _requests(row: Mapping[str, Any], account: Account) -> list[Request]:
    extra = _context(row.get("as", {}))
    if "call" in row:
        service, operation, params = row["call"]
        found = authorizations(service, operation, params, account, _CALLER)
    else:
        bare = row["request"]
        principal = Principal(*bare["principal"]) if "principal" in bare else _CALLER
        context = _context(bare.get("context", {}))
        found = [Request(bare["action"], bare["resource"], context, principal)]
    return [
        Request(each.action, each.resource, {**each.context, **extra}, each.principal)
        for each in found
    ]


def _context(values: Mapping[str, str | list[str]]) -> dict[str, tuple[str, ...]]:
    return {
        key.lower(): tuple(value) if isinstance(value, list) else (value,)
        for key, value in values.items()
    }


def _tuples(lists: Mapping[str, list[str]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(values) for name, values in lists.items()}
