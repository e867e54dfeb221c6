"""Workflow documents, as their authors write them."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import ConfigDict, Discriminator, Field, JsonValue, Tag, model_validator

from piton.contracts.base import Id, Seconds, Strict
from piton.domain.compile import MAX_NODES
from piton.domain.graph import DEFAULT_POOL
from piton.domain.retry import MAX_ATTEMPTS_LIMIT, MAX_CAP_S, RetryPolicy
from piton.domain.status import EdgeOn


class RetryDocument(Strict):
    """How often and how soon a failed attempt is repeated. Seconds."""

    max_attempts: Annotated[int, Field(ge=1, le=MAX_ATTEMPTS_LIMIT)] = 3
    base_s: Annotated[float, Field(ge=0, le=MAX_CAP_S)] = 1.0
    cap_s: Annotated[float, Field(ge=0, le=MAX_CAP_S)] = 60.0

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        self.policy()
        return self

    def policy(self) -> RetryPolicy:
        """The engine's form."""
        return RetryPolicy(self.max_attempts, self.base_s, self.cap_s)


class NeedDocument(Strict):
    """An incoming edge: after which node, on which outcome, under which condition."""

    node: Id
    on: Annotated[EdgeOn, Field(strict=False)] = EdgeOn.SUCCESS
    when: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=4096,
            description='JMESPath over the result of `node`, or over {"reason": code} if it failed',
        ),
    ] = None


def _need_form(need: object) -> str:
    return "id" if isinstance(need, str) else "edge"


class NodeDocument(Strict):
    """A step: either a task of its pool or a Lambda function of the pool's allow-list."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["task"]}, {"required": ["lambda"]}]}
    )

    id: Id
    task: Id | None = None
    lambda_arn: Annotated[str | None, Field(alias="lambda", min_length=1, max_length=512)] = None
    pool: Id = DEFAULT_POOL
    timeout_s: Seconds | None = None
    retry: RetryDocument | None = None
    params: dict[str, JsonValue] = Field(default_factory=dict)
    needs: list[
        Annotated[
            Annotated[Id, Tag("id")] | Annotated[NeedDocument, Tag("edge")],
            Discriminator(_need_form),
        ]
    ] = Field(default_factory=list)


class WorkflowDocument(Strict):
    """A workflow as its author writes it."""

    id: Id
    description: Annotated[str, Field(max_length=4096)] = ""
    timeout_s: Seconds | None = None
    nodes: Annotated[list[NodeDocument], Field(min_length=1, max_length=MAX_NODES)]
