"""Reading locks with hashes for an interpreter that is not the running one.

pip judges environment markers by the interpreter it runs on, whatever `--python-version` says. So
locks are narrowed here to the pins that hold on the target before pip sees them, and what pip
installed is checked to be complete there.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

_HASH_OPTION = "--hash="


class LockError(ValueError):
    """A lock is malformed, contradicts another one, or leaves a dependency out."""


def narrow(locks: Sequence[Path], environment: Mapping[str, str]) -> str:
    """Merge locks into the text of one that has no markers: the pins for `environment`.

    Raises LockError if a line is no exact pin with hashes, or if two locks pin one package
    differently.
    """
    pins: dict[str, tuple[str, frozenset[str]]] = {}
    for lock in locks:
        for line in _logical_lines(lock):
            requirement, hashes = _parse(lock, line)
            if requirement.marker and not requirement.marker.evaluate(dict(environment)):
                continue
            name = canonicalize_name(requirement.name)
            pin = f"{name}{requirement.specifier}"
            known, known_hashes = pins.get(name, (pin, frozenset()))
            if known != pin:
                raise LockError(f"{lock} pins {pin}, another lock of this bundle pins {known}")
            pins[name] = pin, known_hashes | hashes
    return "".join(
        " ".join((pin, *sorted(f"{_HASH_OPTION}{digest}" for digest in hashes))) + "\n"
        for pin, hashes in (pins[name] for name in sorted(pins))
    )


def check_complete(tree: Path, environment: Mapping[str, str]) -> None:
    """Raise LockError unless everything that the distributions in `tree` need is there too."""
    found = {canonicalize_name(item.name): item for item in distributions(path=[str(tree)])}
    for name, distribution in sorted(found.items()):
        for text in distribution.requires or ():
            needed = Requirement(text)
            if needed.marker and not needed.marker.evaluate({**environment, "extra": ""}):
                continue
            installed = found.get(canonicalize_name(needed.name))
            if installed is None:
                raise LockError(f"{name} needs {text}, which no lock pins; compile the lock again")
            if not needed.specifier.contains(installed.version, prereleases=True):
                raise LockError(f"{name} needs {text}, but {installed.version} is pinned")


def _logical_lines(lock: Path) -> Iterator[str]:
    text = lock.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        stripped = line.split(" #", maxsplit=1)[0].strip()
        if stripped and not stripped.startswith("#"):
            yield stripped


def _parse(lock: Path, line: str) -> tuple[Requirement, frozenset[str]]:
    text, *hashes = (part.strip() for part in line.split(_HASH_OPTION))
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        raise LockError(f"{lock}: {text!r} is no pinned requirement") from error
    specifiers = list(requirement.specifier)
    if len(specifiers) != 1 or specifiers[0].operator != "==" or not hashes:
        raise LockError(f"{lock}: {text!r} is not pinned by == with hashes")
    return requirement, frozenset(hashes)
