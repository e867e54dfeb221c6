"""Lambda bundles: locked dependencies and source packages in one reproducible archive.

The same locks and sources give the same bytes. Builds are cached by what goes in, so that a synth
without changes costs a few reads; installed dependencies are cached apart from sources, so that
a change of code does not install again.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from packaging.markers import default_environment

from infra.archive import Files, digest, identity, read_sources, read_tree, write_archive
from infra.lean import SDK_SERVICES, prune
from infra.lockfile import LockError, check_complete, narrow

ROOT: Final = Path(__file__).resolve().parents[1]

ENGINE_LOCK: Final = ROOT / "functions" / "requirements.txt"

LAMBDA_PYTHON: Final = (3, 13)
"""The Python of the deployed functions; their CDK runtime has to be the same."""

# Lambda's Python 3.13 runs on Amazon Linux 2023, which has glibc 2.34.
_LAMBDA_PLATFORMS = ("manylinux2014", "manylinux_2_17", "manylinux_2_28", "manylinux_2_34")
_LAMBDA_MACHINE = "aarch64"

_FORMAT = "1"  # part of every cache key: raise it when this module builds differently
_KEPT_ARCHIVES = 8


class BundleError(RuntimeError):
    """A bundle cannot be built; the message says what to repair."""


class Target(StrEnum):
    """Where a bundle will run."""

    LAMBDA = "lambda"
    """AWS Lambda on arm64 with `LAMBDA_PYTHON`."""

    LOCAL = "local"
    """The interpreter that runs now, on which the embedded AWS runs functions too."""


# Every function process of the embedded AWS unpacks the archive again, and inflating takes longer
# than reading more.
_COMPRESSION = {Target.LAMBDA: zipfile.ZIP_DEFLATED, Target.LOCAL: zipfile.ZIP_STORED}


@dataclass(frozen=True, slots=True)
class Bundle:
    """A built archive."""

    path: Path
    """A zip file, ready for upload."""

    sha256: str
    """Identity of the code: covers names and contents of all but compiled files."""

    compiled: bool
    """Whether modules are compiled ahead; if not, each cold start takes about three times as long
    to import them."""


def engine_sources() -> list[Path]:
    """The packages that every function runs: all that lie in the bundle's root."""
    return sorted(path.parent for path in (ROOT / "functions").glob("*/__init__.py"))


def build_bundle(
    output_dir: Path,
    *,
    requirements: Sequence[Path],
    sources: Sequence[Path],
    target: Target,
    sdk_services: frozenset[str] = SDK_SERVICES,
) -> Bundle:
    """Build, or find in `output_dir`, the archive of these locks and packages for `target`.

    `requirements` are locks with hashes that are complete together. `sources` are package
    folders or single modules; each is imported by its own name. `sdk_services` names the AWS
    services whose API descriptions boto3 keeps. A pool's bundle is the base's locks and packages
    plus its own. Safe to call from several processes at once.

    Raises BundleError if a lock is wrong, a hash differs, a wheel for the target is missing, a
    source has the name of an installed package, or a source does not compile (which is tried only
    if an interpreter of the target's version is at hand).
    """
    compiler = _compiler(target)
    output_dir.mkdir(parents=True, exist_ok=True)
    try:
        lock = narrow(requirements, _environment(target))
        code = read_sources(sources)
        installed_key = _key(_platform(target), compiler, sorted(sdk_services), lock)
        archive = output_dir / f"{target}-{_key(installed_key, digest(code))}.zip"
        recorded = archive.with_suffix(".sha256")
        with _alone(output_dir):
            if recorded.exists() and archive.exists():
                os.utime(archive)
                return Bundle(archive, recorded.read_text(), compiler is not None)
            installed = output_dir / "installed" / f"{target}-{installed_key}"
            if not installed.exists():
                _install(installed, lock, target, compiler, sdk_services)
            _assemble(archive, installed, code, target, compiler)
            _forget_old(output_dir, target)
            return Bundle(archive, recorded.read_text(), compiler is not None)
    except (LockError, OSError, ValueError) as error:
        raise BundleError(str(error)) from error


def _install(
    place: Path,
    lock: str,
    target: Target,
    compiler: str | None,
    sdk_services: frozenset[str],
) -> None:
    """Install a narrowed lock into `place`, leaned and compiled; all of it or nothing."""
    place.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=place.parent) as scratch:
        narrowed, tree = Path(scratch, "requirements.txt"), Path(scratch, "tree")
        narrowed.write_text(lock)
        _run(
            [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--no-input"),
                *("--disable-pip-version-check", "--no-compile", "--no-deps"),
                *("--only-binary=:all:", "--require-hashes", *_pip_options(target)),
                *("--target", str(tree), "--requirement", str(narrowed)),
            ]
        )
        tree.mkdir(exist_ok=True)
        check_complete(tree, _environment(target))
        prune(tree, sdk_services)
        if compiler:
            # Packages may carry templates that were never meant to compile.
            _compile(compiler, tree, check=False)
        tree.rename(place)


def _assemble(
    archive: Path, installed: Path, code: Files, target: Target, compiler: str | None
) -> None:
    """Write the archive and, beside it, its identity."""
    taken = {path.name for path in installed.iterdir()}
    if shadowed := sorted({name.partition("/")[0] for name in code} & taken):
        raise BundleError(f"A source has the name of an installed package: {', '.join(shadowed)}")
    with tempfile.TemporaryDirectory(prefix=".new-", dir=archive.parent) as scratch:
        tree, draft = Path(scratch, "tree"), Path(scratch, "bundle.zip")
        for name, content in code.items():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes(content)
        if compiler:
            _compile(compiler, tree, check=True)
        files = {**read_tree(installed), **read_tree(tree)}
        write_archive(draft, files, _COMPRESSION[target])
        archive.with_suffix(".sha256").write_text(identity(files))
        draft.rename(archive)


def _compile(interpreter: str, tree: Path, *, check: bool) -> None:
    """Compile every module of `tree` so that its age is never asked for when it is loaded."""
    _run(
        [
            *(interpreter, "-S", "-m", "compileall", "-q", "-f"),
            *("--invalidation-mode", "unchecked-hash", "-s", str(tree), str(tree)),
        ],
        # The bytes must not follow the hash seed of the day.
        env={"PYTHONHASHSEED": "0"},
        check=check,
    )


def _run(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, check: bool = True
) -> None:
    done = subprocess.run(command, env=env, check=False, capture_output=True, text=True)
    if check and done.returncode:
        raise BundleError(f"Building a bundle failed:\n{(done.stdout + done.stderr).strip()}")


def _compiler(target: Target) -> str | None:
    """An interpreter whose compiled files the target can load, if there is one here."""
    if target is Target.LOCAL or sys.version_info[:2] == LAMBDA_PYTHON:
        return sys.executable
    found = shutil.which("python{}.{}".format(*LAMBDA_PYTHON))
    if found is None:
        return None
    probe = subprocess.run([found, "-V"], check=False, capture_output=True)
    return found if probe.returncode == 0 else None


def _environment(target: Target) -> dict[str, str]:
    """The values of environment markers on the target."""
    environment = {name: str(value) for name, value in default_environment().items()}
    if target is Target.LOCAL:
        return environment
    version = "{}.{}".format(*LAMBDA_PYTHON)
    return {
        "implementation_name": "cpython",
        "implementation_version": f"{version}.0",
        "os_name": "posix",
        "platform_machine": _LAMBDA_MACHINE,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": f"{version}.0",
        "python_version": version,
        "sys_platform": "linux",
    }


def _pip_options(target: Target) -> list[str]:
    if target is Target.LOCAL:
        return []
    digits = "{}{}".format(*LAMBDA_PYTHON)
    platforms = [f"--platform={platform}_{_LAMBDA_MACHINE}" for platform in _LAMBDA_PLATFORMS]
    return [*platforms, "--implementation=cp", f"--python-version={digits}", f"--abi=cp{digits}"]


def _platform(target: Target) -> str:
    if target is Target.LOCAL:
        return f"{sys.implementation.cache_tag}-{sys.version}-{sysconfig.get_platform()}"
    return " ".join(_pip_options(target))


def _key(*parts: object) -> str:
    text = json.dumps([_FORMAT, *parts], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@contextmanager
def _alone(output_dir: Path) -> Iterator[None]:
    """Let one process at a time build there: the second one finds what the first one made."""
    with (output_dir / ".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _forget_old(output_dir: Path, target: Target) -> None:
    archives = sorted(output_dir.glob(f"{target}-*.zip"), key=lambda path: path.stat().st_mtime)
    for archive in archives[:-_KEPT_ARCHIVES]:
        archive.unlink()
        archive.with_suffix(".sha256").unlink(missing_ok=True)
