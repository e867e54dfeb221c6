"""The README's example runs as it stands there, and the log queries name what logs contain."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers import watchdog
from local import cli
from piton import tasks
from piton.bootstrap import Watchdog
from piton.domain.compile import PoolLimits
from piton.domain.status import ExecutionStatus
from piton.tasks import Registry
from tests.support.commands import commands
from tests.support.embedded import OPERATOR, Embedded
from tests.support.markdown import ROOT, blocks

README = (ROOT / "README.md",)
POOLS = {"default": PoolLimits(50)}


def readme_block(info: str, holding: str) -> str:
    [found] = [block.text for block in blocks(info, documents=README) if holding in block.text]
    return found


@pytest.fixture
def hello(monkeypatch: pytest.MonkeyPatch) -> Iterator[Embedded]:
    """An engine with the tasks and the workflow that the README shows."""
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "Piton")
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "embedded")
    registry = Registry()
    monkeypatch.setattr(tasks, "REGISTRY", registry)
    exec(readme_block("python", "hello.words"), {})  # noqa: S102
    with Embedded(registry, POOLS) as engine:
        engine.register(readme_block("yaml", "id: hello"))
        yield engine


def shown_input() -> dict[str, Any]:
    """The input of the command that the README shows."""
    [words] = [
        words
        for block in blocks("bash stack", documents=README)
        for words in commands(block.text)
        if words[:3] == ["piton", "start", "hello"]
    ]
    return cli._input(words[words.index("--input") + 1])


def test_the_example_runs_to_its_end(hello: Embedded) -> None:
    execution_id = hello.start("hello", shown_input())
    hello.run_to_end()
    execution = hello.queries.get_execution(OPERATOR, execution_id)
    assert execution is not None
    assert execution["status"] == ExecutionStatus.COMPLETED.name
    assert hello.queries.output(OPERATOR, execution_id) == {"report": "to"}


def test_the_example_tells_what_it_lacks(hello: Embedded) -> None:
    execution_id = hello.start("hello", {})
    hello.run_to_end()
    execution = hello.queries.get_execution(OPERATOR, execution_id)
    assert execution is not None
    assert execution["status"] == ExecutionStatus.FAILED.name
    assert (execution["reason"], execution["reasonNode"]) == ("TEXT_MISSING", "words")


# --- Queries of the logs -------------------------------------------------------------------

_KEYWORDS = {
    *("fields", "filter", "sort", "limit", "stats", "by", "desc", "asc", "and", "or", "not"),
    *("ispresent", "sum", "bin", "like", "as"),
}


@contextmanager
def captured_log() -> Iterator[StringIO]:
    """Have the engine's loggers write into a buffer, in the form that they have on Lambda."""
    written = StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(watchdog.logger.registered_formatter)
    loggers = [logging.getLogger(name) for name in ("piton", watchdog.logger.name)]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    try:
        yield written
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)


@pytest.fixture
def log_lines(
    hello: Embedded, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[dict[str, Any]]:
    """What workers and watchdog write when a task fails and when a sweep meets a fault."""

    def broken(*_: object) -> NoReturn:
        raise ValueError("broken")

    context = SimpleNamespace(get_remaining_time_in_millis=lambda: 60_000)
    with captured_log() as written:
        hello.start("hello", {})
        hello.run_to_end()
        hello.start("hello", shown_input())
        hello.clock.shift_ms = 60_000
        monkeypatch.setattr(hello.rows, "query_nodes", broken)
        monkeypatch.setattr(watchdog, "services", lambda: Watchdog(hello.sweep, hello.metrics))
        answer = watchdog.handler({}, cast(LambdaContext, context))
    assert answer == {"swept": 1, "failed": 1}
    text = written.getvalue() + capsys.readouterr().out
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def names_in(query: str) -> set[str]:
    """Fields that a query names, without those that CloudWatch adds and without literals."""
    without_texts = re.sub(r'"[^"]*"|@\w+|\b\d\w*', " ", query)
    words = set(re.findall(r"[A-Za-z_]\w*", without_texts))
    return words - _KEYWORDS


def texts_in(query: str) -> set[str]:
    """Messages that a query asks for."""
    return set(re.findall(r'message = "([^"]*)"', query))


def test_log_queries_name_what_is_logged(log_lines: list[dict[str, Any]]) -> None:
    fields = {name for line in log_lines for name in line}
    messages = {line.get("message") for line in log_lines}
    queries = blocks("insights")
    assert queries
    for query in queries:
        assert names_in(query.text)
        assert names_in(query.text) <= fields, query.place
        assert texts_in(query.text) <= messages, query.place


def test_the_shown_filter_finds_every_line_of_an_execution(log_lines: list[dict[str, Any]]) -> None:
    [failed] = [line for line in log_lines if line.get("message") == "body failed"]
    assert failed["correlation_id"] == failed["execution_id"]
    assert "TEXT_MISSING" in failed["exception"]


def test_a_metric_is_the_first_of_a_list(log_lines: list[dict[str, Any]]) -> None:
    # Hence the `.0` behind every metric in the queries.
    [figures] = [line for line in log_lines if "ExecutionsSwept" in line]
    assert figures["ExecutionsSwept"] == [1.0]
    assert (figures["service"], figures["stage"]) == ("embedded", "dev")
