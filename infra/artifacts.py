"""Which code each function gets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from infra.bundle import Bundle, Target, build_bundle
from infra.lean import SDK_SERVICES
from infra.pool import Pool

ROOT: Final = Path(__file__).resolve().parent.parent
BUNDLES: Final = ROOT / "build" / "bundles"

_FUNCTIONS: Final = ROOT / "functions"
_ENGINE_LOCK: Final = _FUNCTIONS / "requirements.txt"
_ENGINE_PACKAGES: Final = (_FUNCTIONS / "piton", _FUNCTIONS / "handlers")


class Artifacts(Protocol):
    """Where the stacks get code from."""

    def engine(self) -> Bundle:
        """Code of the functions that run no task."""
        ...

    def worker(self, pool: Pool) -> Bundle:
        """Code of a pool's workers: the engine with the pool's tasks and their requirements."""
        ...


@dataclass(frozen=True, slots=True)
class Bundles:
    """Bundles built here for `target`, or found where an earlier run left them."""

    target: Target
    folder: Path = BUNDLES

    def engine(self) -> Bundle:
        """Code of the functions that run no task. Raises `BundleError`."""
        return build_bundle(
            self.folder,
            requirements=[_ENGINE_LOCK],
            sources=_ENGINE_PACKAGES,
            target=self.target,
        )

    def worker(self, pool: Pool) -> Bundle:
        """Code of a pool's workers. Raises `BundleError`."""
        return build_bundle(
            self.folder,
            requirements=[_ENGINE_LOCK, *([pool.requirements] if pool.requirements else [])],
            sources=[*_ENGINE_PACKAGES, *pool.packages],
            target=self.target,
            sdk_services=SDK_SERVICES | pool.aws_services,
        )
