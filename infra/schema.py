"""Which function answers which field of the GraphQL schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from graphql import GraphQLError, ObjectTypeDefinitionNode, parse

from piton.access import Function

SCHEMA: Final = Path(__file__).resolve().parent.parent / "schema" / "schema.graphql"

Field = tuple[str, str]
"""A field by type and name."""

ROOTS: Final = ("Query", "Mutation")

RESOLVERS: Final[Mapping[Field, Function]] = {
    ("Mutation", "startExecution"): Function.COMMANDS,
    ("Mutation", "resumeExecution"): Function.COMMANDS,
    ("Mutation", "cancelExecution"): Function.COMMANDS,
    ("Mutation", "registerWorkflow"): Function.COMMANDS,
    ("Query", "getExecution"): Function.QUERIES,
    ("Query", "listExecutions"): Function.QUERIES,
    ("Query", "getWorkflow"): Function.QUERIES,
    ("Query", "listWorkflows"): Function.QUERIES,
    ("Execution", "nodes"): Function.QUERIES,
    ("Execution", "input"): Function.QUERIES,
    ("Execution", "output"): Function.QUERIES,
    ("Execution", "history"): Function.QUERIES,
}
"""Every field that a function answers by itself. Others come with the object they are on."""


class SchemaError(ValueError):
    """The schema and its resolvers do not fit; the message names the fields."""


def check_resolvers(schema: str, resolvers: Mapping[Field, Function]) -> None:
    """Raise `SchemaError` unless every field that needs a resolver has one, and all have a field.

    Fields of `ROOTS` need one, and so do fields that take arguments: nobody else would read them.
    """
    try:
        needs = dict(_fields(schema))
    except GraphQLError as error:
        raise SchemaError(f"The schema cannot be read: {error}") from error
    if unwired := {field for field, needed in needs.items() if needed} - resolvers.keys():
        raise SchemaError(f"No function answers {_names(unwired)}; add to infra/schema.py")
    if spare := resolvers.keys() - needs.keys():
        raise SchemaError(f"The schema lacks {_names(spare)}, which infra/schema.py resolves")


def _fields(schema: str) -> Iterator[tuple[Field, bool]]:
    """Yield every field of every object type, and whether it needs a resolver."""
    for definition in parse(schema).definitions:
        if isinstance(definition, ObjectTypeDefinitionNode):
            kind = definition.name.value
            for field in definition.fields:
                yield (kind, field.name.value), kind in ROOTS or bool(field.arguments)


def _names(fields: set[Field]) -> str:
    return ", ".join(sorted(f"{kind}.{name}" for kind, name in fields))
