"""The deployment that is evaluated, and what came of its exercise."""

from pathlib import Path

import pytest

from tests.iam.exercise import Exercise, deployment, exercise
from tests.iam.template import Deployment


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder that all test processes of the session share."""
    base = tmp_path_factory.getbasetemp()
    return base if worker_id == "master" else base.parent


@pytest.fixture(scope="session")
def deployed(shared: Path) -> Deployment:
    return deployment(shared)


@pytest.fixture(scope="session")
def exercised(shared: Path) -> Exercise:
    return exercise(shared)
