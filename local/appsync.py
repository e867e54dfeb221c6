"""What AppSync does with a request once it knows the caller.

The schema is executed by graphql-core; each wired field becomes the event of a direct Lambda
resolver. Scalars, limits and the form of errors follow AppSync.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final

from graphql import (
    DocumentNode,
    ExecutionResult,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    GraphQLResolveInfo,
    GraphQLScalarType,
    GraphQLSchema,
    InlineFragmentNode,
    OperationDefinitionNode,
    SelectionNode,
    SelectionSetNode,
    build_schema,
    default_field_resolver,
    execute,
    parse,
    print_ast,
    validate,
)

from local.wiring import Wiring

_PARALLEL: Final = 8

PRELUDE: Final = """
scalar AWSDateTime
scalar AWSJSON
directive @aws_cognito_user_pools(cognito_groups: [String!]) on FIELD_DEFINITION | OBJECT
directive @aws_iam on FIELD_DEFINITION | OBJECT
"""


class FunctionFailed(Exception):
    """The function behind a field raised; the message is that of its error."""


Invoke = Callable[[str, dict[str, Any]], Any]
"""Calls a function by name with an event; returns its answer or raises `FunctionFailed`."""


@dataclass(frozen=True, slots=True)
class Request:
    """A GraphQL request of a known caller."""

    query: str
    variables: Mapping[str, Any]
    operation_name: str | None
    identity: Mapping[str, Any]
    headers: Mapping[str, str]


@dataclass(slots=True)
class _Context:
    request: Request
    resolvers: int = 0


class AppSync:
    """One API. Threads may share it."""

    def __init__(self, schema: str, wiring: Wiring, invoke: Invoke) -> None:
        self._schema = _build(schema)
        self._wiring = wiring
        self._invoke = invoke
        self._pool = ThreadPoolExecutor(_PARALLEL, thread_name_prefix="resolver")

    def answer(self, request: Request) -> dict[str, Any]:
        """Execute a request; faults of the query or of a field are part of the answer."""
        try:
            document = parse(request.query)
        except GraphQLError as error:
            return _refusal([error])
        errors = validate(self._schema, document)
        if not errors and (depth := _depth(document)) > self._wiring.depth_limit:
            limit = self._wiring.depth_limit
            errors = [GraphQLError(f"The query is {depth} levels deep; at most {limit} may be")]
        if errors:
            return _refusal(errors)
        return asyncio.run(self._execute(document, request))

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()

    async def _execute(self, document: DocumentNode, request: Request) -> dict[str, Any]:
        result = execute(
            self._schema,
            document,
            context_value=_Context(request),
            variable_values=dict(request.variables),
            operation_name=request.operation_name,
            field_resolver=self._resolve,
        )
        done = result if isinstance(result, ExecutionResult) else await result
        answer: dict[str, Any] = {"data": done.data}
        if done.errors:
            answer["errors"] = [_error_view(error) for error in done.errors]
        return answer

    def _resolve(self, source: Any, info: GraphQLResolveInfo, **arguments: Any) -> Any:
        type_name, name = info.parent_type.name, info.field_name
        function = self._wiring.functions.get((type_name, name))
        if function is not None:
            context: _Context = info.context
            context.resolvers += 1
            if context.resolvers > self._wiring.resolver_limit:
                raise GraphQLError(f"More than {self._wiring.resolver_limit} resolvers would run")
            return self._call(function, _event(source, info, arguments))
        if source is None:
            raise GraphQLError(f"No function is wired to {type_name}.{name}")
        return default_field_resolver(source, info, **arguments)

    async def _call(self, function: str, event: dict[str, Any]) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._invoke, function, event)


def _event(source: Any, info: GraphQLResolveInfo, arguments: dict[str, Any]) -> dict[str, Any]:
    request: Request = info.context.request
    selections = [node.selection_set for node in info.field_nodes if node.selection_set]
    return {
        "arguments": arguments,
        "identity": request.identity,
        "source": source,
        "request": {"headers": dict(request.headers), "domainName": None},
        "prev": None,
        "info": {
            "fieldName": info.field_name,
            "parentTypeName": info.parent_type.name,
            "variables": dict(request.variables),
            "selectionSetList": [
                path for each in selections for path in _paths(each, info.fragments, "")
            ],
            "selectionSetGraphQL": "\n".join(print_ast(each) for each in selections),
        },
        "stash": {},
    }


def _paths(
    selection: SelectionSetNode, fragments: Mapping[str, FragmentDefinitionNode], prefix: str
) -> Iterator[str]:
    for node in selection.selections:
        match node:
            case FieldNode():
                path = f"{prefix}{(node.alias or node.name).value}"
                yield path
                if node.selection_set:
                    yield from _paths(node.selection_set, fragments, f"{path}/")
            case InlineFragmentNode():
                yield from _paths(node.selection_set, fragments, prefix)
            case FragmentSpreadNode():
                fragment = fragments[node.name.value]
                yield from _paths(fragment.selection_set, fragments, prefix)
            case _:
                pass


def _depth(document: DocumentNode) -> int:
    """Levels of the deepest operation. The document is valid, so fragments form no cycle."""
    fragments = {
        node.name.value: node
        for node in document.definitions
        if isinstance(node, FragmentDefinitionNode)
    }

    @cache
    def of_fragment(name: str) -> int:
        return of(fragments[name].selection_set)

    def of(selection: SelectionSetNode | None) -> int:
        if selection is None:
            return 0
        return max(of_node(node) for node in selection.selections)

    def of_node(node: SelectionNode) -> int:
        match node:
            case FieldNode():
                introspects = node.name.value.startswith("__")
                return 0 if introspects else 1 + of(node.selection_set)
            case InlineFragmentNode():
                return of(node.selection_set)
            case FragmentSpreadNode():
                return of_fragment(node.name.value)
            case _:
                return 0

    operations = [d for d in document.definitions if isinstance(d, OperationDefinitionNode)]
    return max((of(operation.selection_set) for operation in operations), default=0)


def _refusal(errors: list[GraphQLError]) -> dict[str, Any]:
    return {"data": None, "errors": [_error_view(error) for error in errors]}


def _error_view(error: GraphQLError) -> dict[str, Any]:
    failed = isinstance(error.original_error, FunctionFailed)
    return {
        "path": error.path,
        "data": None,
        "errorType": "Lambda:Unhandled" if failed else None,
        "errorInfo": None,
        "locations": [
            {"line": place.line, "column": place.column, "sourceName": None}
            for place in error.locations or ()
        ],
        "message": error.message,
    }


# --- Scalars -------------------------------------------------------------------------------


def _build(sdl: str) -> GraphQLSchema:
    schema = build_schema(PRELUDE + sdl)
    for name, (serialize, read) in _SCALARS.items():
        scalar = schema.type_map[name]
        if isinstance(scalar, GraphQLScalarType):
            # `graphql-core` builds scalars of a schema text without behaviour of their own.
            setattr(scalar, "serialize", serialize)  # noqa: B010
            setattr(scalar, "parse_value", read)  # noqa: B010
    return schema


def _write_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _read_json(value: Any) -> Any:
    if not isinstance(value, str):
        raise GraphQLError("AWSJSON must be a string of JSON")
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise GraphQLError("AWSJSON must be a string of JSON") from error


def _moment(value: Any) -> str:
    try:
        zone = datetime.fromisoformat(value).tzinfo if isinstance(value, str) else None
    except ValueError:
        zone = None
    if zone is None:
        raise GraphQLError("AWSDateTime must be ISO 8601 with a time zone")
    return str(value)


_SCALARS: Final[Mapping[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]]] = {
    "AWSJSON": (_write_json, _read_json),
    "AWSDateTime": (_moment, _moment),
}
