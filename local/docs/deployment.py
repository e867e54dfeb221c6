"""What can be chosen at deployment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from infra.contract import ContextKey
from local.docs.markdown import code, table

CHOICES: Final[Mapping[ContextKey, tuple[str, str]]] = {
    ContextKey.STAGE: (
        "dev",
        (
            "`prod` keeps data and protects it, and has alarms, a dashboard and point-in-time "
            "recovery. `dev` can be thrown away. `local` is for the embedded AWS."
        ),
    ),
    ContextKey.CUSTOMER_KEY: (
        "false",
        "`true` encrypts tables and payloads with a KMS key of the account.",
    ),
    ContextKey.RESERVE_CONCURRENCY: (
        "true",
        (
            "`false` reserves nothing for the watchdog: for accounts whose Lambda quota is too "
            "small to reserve from. Overlapping sweeps are safe."
        ),
    ),
    ContextKey.SETTINGS: ("{}", "Overrides of the settings below, as JSON."),
    ContextKey.IAM_TENANTS: (
        "{}",
        (
            "Who may call the API with an IAM role: JSON of "
            '`{"<role ARN>": {"tenant": "acme", "groups": ["operators"]}}`.'
        ),
    ),
    ContextKey.LOG_LEVEL: ("INFO", "`DEBUG`, `INFO`, `WARNING` or `ERROR`."),
    ContextKey.ALARM_TOPIC: ("", "ARN of the SNS topic that alarms notify."),
    ContextKey.BODY_LOG: (
        "",
        "`local` only: a file in which workers note every task that they start.",
    ),
}
"""Every context value: its default and what it does."""


def choices_table() -> str:
    """Render every context value."""
    return table(
        ("`-c`", "Default", "Does"),
        ((code(key.value), code(CHOICES[key][0]), CHOICES[key][1]) for key in ContextKey),
    )
