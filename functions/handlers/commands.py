"""Mutations of the API."""

from __future__ import annotations

from functools import cache

from handlers.graphql import MUTATION, Call, Fields, serve
from handlers.runtime import make_logger
from piton import bootstrap
from piton.contracts import StartExecutionInput
from piton.domain.canonical import Json
from piton.services.commands import Commands
from piton.services.views import execution_view, workflow_view

fields: Fields[Commands] = Fields()


@fields.resolve(MUTATION, "startExecution")
def start_execution(call: Call[Commands]) -> Json:
    """Start an execution."""
    asked = StartExecutionInput.model_validate(call.arguments["input"])
    started = call.service.start_execution(call.caller, asked)
    return {"execution": execution_view(started.execution), "created": started.created}


@fields.resolve(MUTATION, "resumeExecution")
def resume_execution(call: Call[Commands]) -> Json:
    """Look over a running execution now."""
    row = call.service.resume_execution(call.caller, call.arguments["executionId"])
    return {"execution": execution_view(row)}


@fields.resolve(MUTATION, "cancelExecution")
def cancel_execution(call: Call[Commands]) -> Json:
    """End an execution."""
    row = call.service.cancel_execution(
        call.caller, call.arguments["executionId"], call.optional("reason")
    )
    return {"execution": execution_view(row)}


@fields.resolve(MUTATION, "registerWorkflow")
def register_workflow(call: Call[Commands]) -> Json:
    """Register a workflow."""
    workflow = call.service.register_workflow(call.caller, call.arguments["definition"])
    return {"workflow": workflow_view(workflow)}


handler = serve(fields, cache(bootstrap.build_commands), make_logger())
