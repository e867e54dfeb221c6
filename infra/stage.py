"""What differs between deployments, read from the CDK context.

    cdk deploy --all -c stage=prod -c customerKey=true

`dev` can be thrown away and leaves nothing behind, `prod` keeps its data, and `local` is `dev`
without what the embedded AWS cannot do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Final, TypeVar

from aws_cdk import RemovalPolicy
from aws_cdk.aws_logs import RetentionDays
from constructs import Node

from infra.bundle import Target
from infra.contract import ContextKey, StageName
from piton.domain.names import Tenant
from piton.domain.settings import Settings

T = TypeVar("T")

GROUPS: Final = {
    "viewers": "May read what belongs to their tenant",
    "operators": "May also start, resume and cancel executions and register workflows",
}
"""What callers may be members of, in the user pool or through their role."""


class ContextError(ValueError):
    """A context value cannot be used; the message names it and says what is allowed."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One deployment's choices.

    `protect` guards tables, users and stacks against deletion. `customer_key` encrypts tables and
    payloads with a key of this account instead of one that AWS owns (about $1 a month).
    `reserve_concurrency` holds the watchdog to one run at a time; switch it off in an account
    whose Lambda quota is too small to reserve from, overlapping sweeps are safe. `settings` holds
    the overrides of the engine's own, as JSON. `iam_tenants` maps the ARN of a role to the tenant
    and the groups of its callers, as JSON. `alarm_topic` is the ARN of the SNS topic that alarms
    notify. `body_log` is a file in which workers note every task that they start. `most_consumers`
    holds the consumer of every queue to so many runs at a time.
    """

    name: StageName
    target: Target
    removal: RemovalPolicy
    log_retention: RetentionDays
    protect: bool
    point_in_time_recovery: bool
    empty_bucket: bool
    api_logs: bool
    monitoring: bool
    most_consumers: int
    customer_key: bool = False
    reserve_concurrency: bool = True
    settings: str = "{}"
    iam_tenants: str = "{}"
    log_level: str = "INFO"
    alarm_topic: str | None = None
    body_log: str | None = None

    def named(self, name: str) -> str:
        """Return the physical name of something that operators call by name."""
        return f"piton-{self.name}-{name}"

    @property
    def engine(self) -> Settings:
        """The engine's settings with this stage's overrides."""
        return Settings(**json.loads(self.settings))

    @classmethod
    def from_context(cls, node: Node) -> Stage:
        """Read the context. Raises `ContextError` on a value that is not understood."""
        name = _read(node, ContextKey.STAGE, StageName, StageName.DEV)
        body_log = _read(node, ContextKey.BODY_LOG, str, None)
        if body_log is not None and name is not StageName.LOCAL:
            raise ContextError(f"{ContextKey.BODY_LOG} exists on stage {StageName.LOCAL} only")
        prod, local = name is StageName.PROD, name is StageName.LOCAL
        return cls(
            name=name,
            target=Target.LOCAL if local else Target.LAMBDA,
            removal=RemovalPolicy.RETAIN if prod else RemovalPolicy.DESTROY,
            log_retention=RetentionDays.THREE_MONTHS if prod else RetentionDays.ONE_WEEK,
            protect=prod,
            # A deleted table that had it leaves a system backup behind for 35 days.
            point_in_time_recovery=prod,
            empty_bucket=name is StageName.DEV,
            api_logs=not local,
            monitoring=prod,
            # A run of the embedded AWS is a process with a copy of the bundle, all on one machine.
            most_consumers=6 if local else 1000,
            customer_key=_read(node, ContextKey.CUSTOMER_KEY, _boolean, default=False),
            reserve_concurrency=_read(node, ContextKey.RESERVE_CONCURRENCY, _boolean, default=True),
            settings=_read(node, ContextKey.SETTINGS, _settings, "{}"),
            iam_tenants=_read(node, ContextKey.IAM_TENANTS, _iam_tenants, "{}"),
            log_level=_read(node, ContextKey.LOG_LEVEL, _log_level, "INFO"),
            alarm_topic=_read(node, ContextKey.ALARM_TOPIC, str, None),
            body_log=body_log,
        )


def _read(node: Node, key: ContextKey, parse: Callable[[str], T], default: T) -> T:
    value = node.try_get_context(key)
    if value is None:
        return default
    try:
        return parse(value if isinstance(value, str) else json.dumps(value))
    except (TypeError, ValueError) as error:
        raise ContextError(f"Context value {key}: {error}") from error


def _boolean(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError(f"{text!r} is neither true nor false")
    return text == "true"


def _log_level(text: str) -> str:
    levels = ("DEBUG", "INFO", "WARNING", "ERROR")
    if text not in levels:
        raise ValueError(f"{text!r} is none of {', '.join(levels)}")
    return text


def _settings(text: str) -> str:
    known = asdict(Settings())
    overrides = _object(text)
    for name, value in overrides.items():
        if name not in known:
            raise ValueError(f"{name!r} is no setting; known are {', '.join(known)}")
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ValueError(f"{name} must be a whole number of at least 0")
    return json.dumps(overrides, sort_keys=True)


def _iam_tenants(text: str) -> str:
    callers = _object(text)
    for arn, caller in callers.items():
        if not arn.startswith("arn:"):
            raise ValueError(f"{arn!r} is not the ARN of a role")
        match caller:
            case {"tenant": str(tenant), "groups": list(groups), **rest} if not rest:
                Tenant(tenant)
                if not GROUPS.keys() >= set(groups):
                    raise ValueError(f"groups of {arn} are not among {', '.join(GROUPS)}")
            case _:
                raise ValueError(f'{arn} must map to {{"tenant": ..., "groups": [...]}}')
    return json.dumps(callers, sort_keys=True)


def _object(text: str) -> Mapping[str, object]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise TypeError("a JSON object is needed")
    return value
