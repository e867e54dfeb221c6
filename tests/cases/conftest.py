"""Bodies fail here as planned: the log stays silent."""

import logging

import pytest

pytest.register_assert_rewrite("tests.support.chaos", "tests.support.cases")

logging.getLogger("piton").setLevel(logging.CRITICAL)


@pytest.fixture
def metrics_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names without which the embedded engine's metrics do not start."""
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "Piton")
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "embedded")
