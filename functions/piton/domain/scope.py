"""Effective scope: on whose authority and over what an execution works.

Compared by meaning: the order of ids, defaults left out and the order of keys do not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from piton.domain import canonical
from piton.domain.canonical import Json


@dataclass(frozen=True, slots=True)
class Scope:
    """Semantic scope. `scope_ids` is a set; an empty one means the whole tenant."""

    source_kind: str = "api"
    resolution_status: str = "resolved"
    visibility: str = "tenant"
    scope_ids: frozenset[str] = frozenset()

    def to_json(self) -> dict[str, Json]:
        """Return the canonical document of this scope."""
        return {
            "source_kind": self.source_kind,
            "resolution_status": self.resolution_status,
            "visibility": self.visibility,
            "scope_ids": list[Json](sorted(self.scope_ids)),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Json]) -> Scope:
        """Read a scope document; missing keys take their defaults."""
        ids = document.get("scope_ids") or []
        if not isinstance(ids, list):
            raise ValueError("scope_ids must be a list")
        base = cls()
        return cls(
            source_kind=str(document.get("source_kind") or base.source_kind),
            resolution_status=str(document.get("resolution_status") or base.resolution_status),
            visibility=str(document.get("visibility") or base.visibility),
            scope_ids=frozenset(str(item) for item in ids),
        )

    @property
    def text(self) -> str:
        """The canonical text that rows store: equal scopes have equal texts."""
        return canonical.dumps(self.to_json())


def scope_hash(text: str) -> str:
    """A short name of a scope's meaning, from its canonical text."""
    return canonical.digest(text)[:16]
