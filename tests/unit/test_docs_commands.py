"""Every command that the documents show is one that its tool takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from graphql import build_ast_schema, parse, validate
from graphql.execution.values import get_variable_values

from infra.schema import SCHEMA
from tests.support.commands import WrongCommand, check, commands
from tests.support.markdown import Block, blocks

SHELL = ("bash make", "bash local", "bash stack", "bash aws")
SCALARS = "scalar AWSJSON scalar AWSDateTime"

schema = build_ast_schema(parse(SCHEMA.read_text() + SCALARS), assume_valid_sdl=True)


def check_request(query: str, variables: Mapping[str, Any]) -> None:
    """Raise unless the API would take this request."""
    document = parse(query)
    assert validate(schema, document) == []
    [operation] = document.definitions
    found = get_variable_values(schema, operation.variable_definitions, dict(variables))  # type: ignore[attr-defined]
    assert isinstance(found, dict), found


def check_line(text: str) -> None:
    """Check every command of a text; there has to be one."""
    found = list(commands(text))
    assert found
    for words in found:
        check(words, check_request)


@pytest.mark.parametrize("block", blocks(*SHELL), ids=str)
def test_commands_are_taken(block: Block) -> None:
    check_line(block.text)


@pytest.mark.parametrize("block", blocks("bash make"), ids=str)
def test_what_needs_no_deployment_is_a_target_of_make(block: Block) -> None:
    assert {words[0] for words in commands(block.text)} == {"make"}


@pytest.mark.parametrize("block", blocks("graphql"), ids=str)
def test_graphql_fits_the_schema(block: Block) -> None:
    assert validate(schema, parse(block.text)) == []


@pytest.mark.parametrize(
    "line",
    [
        "make no-such-target",
        "make demo WORKFLOW=examples/none.json",
        "piton resume",
        "piton start hello --input '[1]'",
        "piton register examples/none.yaml",
        "piton crashtest examples/none.yaml",
        "piton frobnicate",
        "npx cdk deploy --everything",
        "npx cdk deploy -c stage=staging",
        "npx cdk deploy -c flavour=mild",
        "npx cdk deploy -c settings='{\"leese_ms\": 1}'",
        "aws sqs receive-messages --queue-url x",
        "aws sqs receive-message --queue x",
        "aws sqs receive-message",
        "aws events put-rule --name x --event-patern '{}'",
        "rm -rf build",
        'X="$(piton tokn ada)"',
        "make help && piton resume",
        ". venv/bin/activate",
        """curl x -H "Authorization: t" -d '{"query": "{ x }", "variables": {}}'""",
    ],
)
def test_wrong_commands_are_found(line: str) -> None:
    with pytest.raises((WrongCommand, ValueError)):
        check_line(line)


@pytest.mark.parametrize(
    ("query", "variables"),
    [
        ("{ getExecution(id: 1) { state } }", {}),
        ("mutation ($id: ID!) { resumeExecution(executionId: $id) { error { code } } }", {}),
    ],
)
def test_wrong_requests_are_found(query: str, variables: dict[str, Any]) -> None:
    body = json.dumps({"query": query, "variables": variables})
    with pytest.raises(AssertionError):
        check(
            [
                *("curl", "x", "-H", "Authorization: t", "-H", "Content-Type: application/json"),
                *("-d", body),
            ],
            check_request,
        )
