"""What each function may do, as the stacks derive it from the declared access."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from infra.grants import key_statements, payload_statements, table_statements
from infra.statements import (
    Conditions,
    Statement,
    consume_statement,
    dispatch_statement,
    invoke_statement,
    log_statement,
    publish_statement,
    stream_statements,
)
from local.docs.markdown import code, codes, table
from piton.access import BY_FUNCTION, Function, Queue
from piton.storage.algebra import Table

ATTRIBUTES: Final = "dynamodb:Attributes"
REGION: Final = "<region>"
QUEUES: Final[Mapping[Queue, str]] = {
    Queue.ADVANCE: "advance queue",
    Queue.WORKER: "queue of the pool",
    Queue.WORKER_DLQ: "dead letters of each pool",
}

_WORDS: Final[Mapping[str, str]] = {
    "StringEquals": "is",
    "StringEqualsIfExists": "if given, is",
    "ForAllValues:StringEquals": "only",
    "ForAllValues:StringLike": "only like",
}


def statements(function: Function, region: str = REGION) -> Iterator[Statement]:
    """Yield every statement of a function's role, with words in the place of ARNs."""
    access = BY_FUNCTION[function]
    yield log_statement("its log group")
    yield from table_statements(access, {name: f"table {name.value}" for name in Table})
    yield from payload_statements(access, "bucket")
    if access.consumes:
        queue = QUEUES[access.consumes]
        yield consume_statement(access, queue.replace(" ", "-"), queue)
    if access.reads_stream:
        yield from stream_statements("change stream of executions", "queue stream-failures")
    if access.publishes:
        yield publish_statement("bus")
    if access.sends_to:
        yield dispatch_statement(["queue of each pool"])
    if function is Function.WORKER:
        yield invoke_statement(["functions on the pool's allow-list"])
    yield from key_statements(access, "key of the account, if there is one", region)


def function_table(function: Function) -> str:
    """Render one function's statements, one row each."""
    return table(
        ("Action", "Resource", "Attributes", "Condition", "Why"),
        (
            (
                codes(statement.actions),
                "any" if list(statement.resources) == ["*"] else ", ".join(statement.resources),
                codes(_attributes(statement.conditions)),
                "; ".join(_others(statement.conditions)),
                statement.why,
            )
            for statement in statements(function)
        ),
    )


RENDERERS: Final[Mapping[str, Callable[[], str]]] = {
    f"may-{function.value.replace('_', '-')}": partial(function_table, function)
    for function in Function
}


def _attributes(conditions: Conditions) -> list[str]:
    return [
        str(name)
        for tests in conditions.values()
        for key, names in tests.items()
        if key == ATTRIBUTES and isinstance(names, list)
        for name in names
    ]


def _others(conditions: Conditions) -> Iterator[str]:
    """Say every condition but those on attributes; `Null` only repeats the keys that must exist."""
    for operator, tests in conditions.items():
        for key, values in tests.items():
            if key != ATTRIBUTES and operator != "Null":
                wanted = values if isinstance(values, list) else [values]
                yield f"{code(key)} {_WORDS[operator]} {codes(wanted)}"
