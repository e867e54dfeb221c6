"""Synthesized variants of the application."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.infra.synthesis import Assembly, Variant, synthesize

Synthesize = Callable[[Variant], Assembly]


@pytest.fixture(scope="session")
def assemblies(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Synthesize:
    """Synthesizes a variant, or reads what another test process has synthesized."""
    base = tmp_path_factory.getbasetemp()
    shared: Path = base if worker_id == "master" else base.parent
    made: dict[Variant, Assembly] = {}

    def assembly(variant: Variant) -> Assembly:
        if variant not in made:
            made[variant] = synthesize(variant, shared)
        return made[variant]

    return assembly


@pytest.fixture(scope="session", params=[Variant.DEV, Variant.PROD, Variant.LOCAL], ids=str)
def stage(request: pytest.FixtureRequest, assemblies: Synthesize) -> Assembly:
    """The application on each stage."""
    return assemblies(request.param)


@pytest.fixture(scope="session")
def dev(assemblies: Synthesize) -> Assembly:
    return assemblies(Variant.DEV)


@pytest.fixture(scope="session")
def prod(assemblies: Synthesize) -> Assembly:
    return assemblies(Variant.PROD)


@pytest.fixture(scope="session")
def local(assemblies: Synthesize) -> Assembly:
    return assemblies(Variant.LOCAL)


@pytest.fixture(scope="session")
def full(assemblies: Synthesize) -> Assembly:
    return assemblies(Variant.FULL)
