"""Workflows of known form whose bodies do nothing."""

from __future__ import annotations

from pathlib import Path

from local.published import TASK, PublishedWorkflow
from piton.domain.canonical import Json

PUBLISHED = Path(__file__).parents[2] / "shared" / "workflows"
"""Where the README says that published workflows lie: beside the repository."""


def chain(length: int) -> dict[str, Json]:
    """Return a definition of nodes one after another."""
    nodes = [_node(f"step-{number}", f"step-{number - 1}") for number in range(1, length)]
    return _workflow(f"chain-{length}", [_node("step-0"), *nodes])


def fan(width: int) -> dict[str, Json]:
    """Return a definition of `width` nodes side by side, between one first and one last node."""
    names = [f"side-{number}" for number in range(width)]
    sides = [_node(name, "first") for name in names]
    return _workflow(f"fan-{width}", [_node("first"), *sides, _node("last", *names)])


def published(name: str) -> dict[str, Json] | None:
    """Return the definition of a published workflow, None when its file is not there."""
    path = PUBLISHED / f"{name}.json"
    return PublishedWorkflow.read(path).definition() if path.exists() else None


def _workflow(id_: str, nodes: list[dict[str, Json]]) -> dict[str, Json]:
    return {"id": id_, "nodes": list[Json](nodes)}


def _node(id_: str, *needs: str) -> dict[str, Json]:
    return {"id": id_, "task": TASK, "needs": list[Json](needs)}
