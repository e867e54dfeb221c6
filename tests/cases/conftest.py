"""Bodies fail here as planned: the log stays silent."""

from collections.abc import Iterator

import pytest

from tests.support.logs import silent_engine

pytest.register_assert_rewrite("tests.support.chaos", "tests.support.cases")


@pytest.fixture(autouse=True)
def _silent() -> Iterator[None]:
    with silent_engine():
        yield


@pytest.fixture
def metrics_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names without which the embedded engine's metrics do not start."""
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "Piton")
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "embedded")
