"""What a deployment costs while nothing runs on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from infra.functions import SIZES
from infra.pools import POOLS
from local.docs.figures import ALARMS
from local.docs.markdown import table
from piton.access import Function
from piton.storage.keys import DUE_SHARDS

# Public prices in us-east-1, in dollars.
_LAMBDA_REQUEST: Final = Decimal("0.20") / 1_000_000
_LAMBDA_GB_SECOND: Final = Decimal("0.0000166667")
_READ_UNIT: Final = Decimal("0.125") / 1_000_000
_SQS_REQUEST: Final = Decimal("0.40") / 1_000_000
_ALARM_MONTH: Final = Decimal("0.10")
_DASHBOARD_MONTH: Final = Decimal(3)
_LOG_GB: Final = Decimal("0.50")
_KEY_MONTH: Final = Decimal(1)
_ACL_MONTH: Final = Decimal(5)
_ACL_RULE_MONTH: Final = Decimal(1)

_SWEEPS: Final = 30 * 24 * 60
_SWEEP_S: Final = Decimal("0.1")
_SWEEP_LOG_BYTES: Final = 2000
_POLLERS: Final = 5
_POLL_S: Final = 20
_MONTH_S: Final = 30 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Item:
    """One line of the bill, in dollars a month."""

    what: str
    how: str
    dollars: Decimal


def idle_items() -> list[Item]:
    """Return what runs by itself on every stage."""
    watchdog = SIZES[Function.WATCHDOG]
    gigabytes = Decimal(watchdog.memory_mb) / 1024
    # Half a unit for an eventually consistent query that finds nothing.
    units = Decimal(len(DUE_SHARDS)) / 2 * _SWEEPS
    queues = 1 + 2 * len(POOLS)
    polls = queues * _POLLERS * _MONTH_S // _POLL_S
    return [
        Item(
            "Watchdog",
            f"{_SWEEPS:,} sweeps of about {_SWEEP_S * 1000:.0f} ms with {watchdog.memory_mb} MB",
            _SWEEPS * (_LAMBDA_REQUEST + gigabytes * _SWEEP_S * _LAMBDA_GB_SECOND),
        ),
        Item(
            "DynamoDB",
            f"{len(DUE_SHARDS)} empty queries a sweep: {units:,.0f} read units",
            units * _READ_UNIT,
        ),
        Item(
            "CloudWatch Logs",
            f"about {_SWEEP_LOG_BYTES:,} bytes a sweep",
            Decimal(_SWEEPS * _SWEEP_LOG_BYTES) / 10**9 * _LOG_GB,
        ),
        Item(
            "SQS",
            f"Lambda polls {queues} queues, {_POLLERS} requests every {_POLL_S} s each: {polls:,}",
            polls * _SQS_REQUEST,
        ),
    ]


def optional_items() -> Iterator[Item]:
    """Yield what only some deployments have."""
    yield Item("`prod`: alarms", f"{len(ALARMS)} alarms", len(ALARMS) * _ALARM_MONTH)
    yield Item("`prod`: web ACL", "the ACL and its one rule", _ACL_MONTH + _ACL_RULE_MONTH)
    yield Item("`prod`: dashboard", "free for an account's first three", _DASHBOARD_MONTH)
    yield Item("`-c customerKey=true`", "one KMS key", _KEY_MONTH)


def idle_table() -> str:
    """Render the bill."""
    items = idle_items()
    total = sum((item.dollars for item in items), Decimal())
    return table(
        ("Idle, a month", "Why", "Dollars"),
        [
            *((item.what, item.how, f"{item.dollars:.2f}") for item in items),
            ("**Sum**", "", f"**{total:.2f}**"),
            *((item.what, item.how, f"+ {item.dollars:.2f}") for item in optional_items()),
        ],
    )


def idle_summary() -> str:
    """Render the bill in two sentences."""
    items = {item.what: item.dollars for item in idle_items()}
    total = sum(items.values(), Decimal())
    polling = items["SQS"]
    rest = total - polling
    return (
        f"About {total:.2f} dollars a month in us-east-1, without the account's free tiers: "
        f"{polling:.2f} for Lambda's polling of the queues, and {rest:.2f} for {_SWEEPS:,} sweeps "
        "that find nothing. A stage in use also pays 0.30 for each metric it writes, by the hour. "
        "Tables, bus, API, users and functions cost nothing while they are unused, and there is no "
        "key to pay for unless you ask for one. `prod` adds alarms, a dashboard and a web ACL."
    )
