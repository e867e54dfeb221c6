"""Environment variables of the functions: one validated model each, read once per process.

A field is the variable's name in lower case without `PITON_`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Json

from piton.domain.compile import PoolLimits
from piton.domain.settings import Settings

_PREFIX: Final = "PITON_"


class Environment(BaseModel):
    """What every function has. `settings` overrides the engine's limits by name."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    stage: str
    code_hash: str
    settings: Json[dict[str, int]] = Field(default_factory=dict)

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Self:
        """Validate `environ`. Raises `pydantic.ValidationError` naming every faulty variable."""
        return cls.model_validate(
            {
                name.removeprefix(_PREFIX).lower(): value
                for name, value in environ.items()
                if name.startswith(_PREFIX)
            }
        )

    def engine_settings(self) -> Settings:
        """Return the limits. Raises `TypeError` on an unknown name."""
        return Settings(**self.settings)


class StateEnvironment(Environment):
    """A function that reads or writes executions."""

    executions_table: str
    workflows_table: str
    payloads_bucket: str


class Pool(BaseModel):
    """What registration must know of a pool."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_timeout_s: float
    allowed_lambdas: frozenset[str] = frozenset()

    def limits(self) -> PoolLimits:
        """The engine's form."""
        return PoolLimits(self.max_timeout_s, self.allowed_lambdas)


class IamTenant(BaseModel):
    """The tenant and groups of callers with one IAM role."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tenant: str
    groups: frozenset[str] = frozenset()


class CommandsEnvironment(StateEnvironment):
    """commands."""

    pools: Json[dict[str, Pool]]
    iam_tenants: Json[dict[str, IamTenant]] = Field(default_factory=dict)


class QueriesEnvironment(StateEnvironment):
    """queries."""

    iam_tenants: Json[dict[str, IamTenant]] = Field(default_factory=dict)
    worker_log_groups: Json[dict[str, str]] = Field(default_factory=dict)


class RelayEnvironment(Environment):
    """outbox_relay."""

    bus_name: str
    worker_queues: Json[dict[str, str]]


def _split(text: object) -> object:
    return [part for part in text.split(",") if part] if isinstance(text, str) else text


class WorkerEnvironment(StateEnvironment):
    """worker. `body_log` is a file that gets a line for every body that starts."""

    pool: str
    max_timeout_s: float
    allowed_lambdas: Json[frozenset[str]] = frozenset()
    task_modules: Annotated[tuple[str, ...], BeforeValidator(_split)]
    worker_queue_url: str
    body_log: str | None = None
