"""Queries of the API, and the fields of an execution that are read only when asked for."""

from __future__ import annotations

from functools import cache
from typing import Final

from handlers.graphql import Call, Fields, serve
from handlers.runtime import make_logger
from piton import bootstrap
from piton.domain.canonical import Json
from piton.domain.status import ExecutionStatus
from piton.services.queries import Queries

QUERY: Final = "Query"
EXECUTION: Final = "Execution"

fields: Fields[Queries] = Fields()


@fields.resolve(QUERY, "getExecution")
def get_execution(call: Call[Queries]) -> Json:
    """Return an execution."""
    return call.service.get_execution(call.caller, call.arguments["id"])


@fields.resolve(QUERY, "listExecutions")
def list_executions(call: Call[Queries]) -> Json:
    """Return a page of executions."""
    status = call.optional("status")
    return call.service.list_executions(
        call.caller,
        status=ExecutionStatus[status] if status else None,
        workflow=call.optional("workflow"),
        limit=_limit(call, 20),
        token=call.optional("nextToken"),
    )


@fields.resolve(QUERY, "getWorkflow")
def get_workflow(call: Call[Queries]) -> Json:
    """Return a version of a workflow."""
    return call.service.get_workflow(call.caller, call.arguments["id"], call.optional("version"))


@fields.resolve(QUERY, "listWorkflows")
def list_workflows(call: Call[Queries]) -> Json:
    """Return a page of workflows."""
    return call.service.list_workflows(
        call.caller, limit=_limit(call, 50), token=call.optional("nextToken")
    )


@fields.resolve(EXECUTION, "nodes")
def nodes(call: Call[Queries]) -> Json:
    """Return a page of an execution's nodes."""
    return call.service.nodes(
        call.caller, call.source["id"], limit=_limit(call, 100), token=call.optional("nextToken")
    )


@fields.resolve(EXECUTION, "input")
def execution_input(call: Call[Queries]) -> Json:
    """Return an execution's input."""
    return call.service.input(call.caller, call.source["id"])


@fields.resolve(EXECUTION, "output")
def execution_output(call: Call[Queries]) -> Json:
    """Return an execution's output."""
    return call.service.output(call.caller, call.source["id"])


@fields.resolve(EXECUTION, "history")
def history(call: Call[Queries]) -> Json:
    """Return a page of an execution's history."""
    return call.service.history(
        call.caller, call.source["id"], limit=_limit(call, 200), token=call.optional("nextToken")
    )


def _limit(call: Call[Queries], default: int) -> int:
    limit = call.optional("limit")
    return default if limit is None else int(limit)


handler = serve(fields, cache(bootstrap.build_queries), make_logger())
