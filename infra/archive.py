"""Trees of files in memory: read once, named by content, written as one reproducible archive."""

import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

_EPOCH = (1980, 1, 1, 0, 0, 0)
_NOT_SHIPPED = ("__pycache__", "requirements.in", "requirements.txt", "tests")

Files = Mapping[str, bytes]
"""Contents by path in the bundle, with forward slashes."""


def read_sources(sources: Sequence[Path]) -> Files:
    """The files of packages and modules by their names in the bundle.

    They are read once, so that what is named, compiled and archived is the same even if an editor
    saves meanwhile.
    """
    code: dict[str, bytes] = {}
    for source in sources:
        if source.is_file():
            code[source.name] = source.read_bytes()
        elif not source.is_dir():
            raise ValueError(f"{source} is neither a package folder nor a module")
        for path in source.rglob("*"):
            parts = path.relative_to(source.parent).parts
            hidden = any(part.startswith(".") or part in _NOT_SHIPPED for part in parts)
            if path.is_file() and not hidden:
                code["/".join(parts)] = path.read_bytes()
    return code


def read_tree(root: Path) -> Files:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


def digest(files: Files) -> str:
    """SHA-256 over names and contents, whatever the order."""
    total = hashlib.sha256()
    for name, content in sorted(files.items()):
        total.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    return total.hexdigest()


def identity(files: Files) -> str:
    """Digest of what a person wrote: all but compiled files, whose bytes follow their compiler."""
    return digest({name: content for name, content in files.items() if "__pycache__/" not in name})


def write_archive(archive: Path, files: Files, compression: int) -> None:
    """Write a zip file whose bytes follow from `files` and `compression` alone."""
    with zipfile.ZipFile(archive, "w") as bundle:
        for name, content in sorted(files.items()):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system = 3  # Unix, wherever this runs
            entry.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16
            bundle.writestr(entry, content, compression, compresslevel=6)
