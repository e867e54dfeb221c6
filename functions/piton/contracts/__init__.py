"""Everything that crosses an edge of the system, as strict models.

Workflow documents, arguments of the API, dispatches and events are validated here and nowhere
else; behind this package data has its declared type. Messages of validation errors never repeat
the input, so they may be logged and answered.
"""

from piton.contracts.api import IdempotencyInput, ScopeInput, StartExecutionInput
from piton.contracts.base import place_of, problems_of
from piton.contracts.messages import (
    DispatchMessage,
    ExecutionDetail,
    ExecutionEvent,
    MalformedMessage,
    NodeDetail,
    NodeEvent,
    UnknownSchemaVersion,
    parse_dispatch,
    parse_event,
)
from piton.contracts.workflow import (
    NeedDocument,
    NodeDocument,
    RetryDocument,
    WorkflowDocument,
)

__all__ = [
    "DispatchMessage",
    "ExecutionDetail",
    "ExecutionEvent",
    "IdempotencyInput",
    "MalformedMessage",
    "NeedDocument",
    "NodeDetail",
    "NodeDocument",
    "NodeEvent",
    "RetryDocument",
    "ScopeInput",
    "StartExecutionInput",
    "UnknownSchemaVersion",
    "WorkflowDocument",
    "parse_dispatch",
    "parse_event",
    "place_of",
    "problems_of",
]
