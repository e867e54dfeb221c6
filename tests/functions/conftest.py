"""The API over an embedded store of its own."""

from collections.abc import Iterator

import pytest

from piton.storage.sqlite import SqliteStore
from tests.support.api import ApiUnderTest


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Powertools reads when metrics are written."""
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "Piton")
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "api")


@pytest.fixture
def store() -> Iterator[SqliteStore]:
    opened = SqliteStore()
    yield opened
    opened.close()


@pytest.fixture
def api(store: SqliteStore) -> ApiUnderTest:
    """The API, with the workflow that the recorded events speak of."""
    under_test = ApiUnderTest.embedded(store)
    under_test.register()
    return under_test
