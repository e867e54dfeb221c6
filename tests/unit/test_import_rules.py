"""Allow-lists of imports, which contracts over known offenders cannot express."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STANDARD = frozenset(sys.stdlib_module_names)

DECLARATIONS = frozenset(
    {
        "piton.access",
        "piton.storage.algebra",
        "piton.storage.keys",
        "piton.storage.operations",
        "piton.storage.views",
    }
)


def imported(module: Path) -> Iterator[str]:
    """Full names of the modules, or of the names in them, that a module imports anywhere."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(name: str, packages: frozenset[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


@pytest.mark.parametrize(
    ("package", "watched", "allowed"),
    [
        pytest.param(
            "functions/piton/domain", frozenset(), STANDARD | {"piton.domain"}, id="domain"
        ),
        pytest.param("infra", frozenset({"piton"}), DECLARATIONS | {"piton.domain"}, id="infra"),
    ],
)
def test_a_package_imports_only_what_it_may(
    package: str, watched: frozenset[str], allowed: frozenset[str]
) -> None:
    """`watched` narrows the rule to imports of these packages; empty means all imports."""
    modules = list((ROOT / package).rglob("*.py"))
    assert modules
    assert [
        f"{module.relative_to(ROOT)}: {name}"
        for module in modules
        for name in imported(module)
        if (not watched or within(name, watched)) and not within(name, allowed)
    ] == []
