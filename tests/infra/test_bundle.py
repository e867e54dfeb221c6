"""Bundles are the same bytes every time, run alone, and hold what the locks say."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from infra.bundle import (
    ENGINE_LOCK,
    LAMBDA_PYTHON,
    ROOT,
    Bundle,
    BundleError,
    Target,
    build_bundle,
    engine_sources,
)

POOL_LOCK = ROOT / "examples" / "requirements.txt"
ELF_MACHINE_AARCH64 = (183).to_bytes(2, "little")


@pytest.fixture(scope="session")
def engine() -> dict[Target, Bundle]:
    """The engine's bundles, out of the cache that a deployment uses."""
    return {
        target: build_bundle(
            ROOT / "build" / "bundles",
            requirements=[ENGINE_LOCK],
            sources=engine_sources(),
            target=target,
        )
        for target in Target
    }


@pytest.fixture
def small_lock(tmp_path: Path) -> Path:
    """A lock of one pure package, cut out of the engine's."""
    pin = re.search(r"^jmespath==.*?(?=^    #)", ENGINE_LOCK.read_text(), re.M | re.S)
    assert pin
    lock = tmp_path / "small.txt"
    lock.write_text(pin.group())
    return lock


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A source package with one module and things that have no place in a bundle."""
    package = tmp_path / "tasks"
    for name, text in {
        "__init__.py": "",
        "totals.py": "import jmespath\n\nTOTAL = jmespath.search('a.b', {'a': {'b': 3}})\n",
        "rules/limits.yaml": "limit: 1\n",
        "requirements.in": "jmespath\n",
        "tests/test_totals.py": "",
        "__pycache__/totals.cpython-311.pyc": "stale",
        ".secret": "no",
    }.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    return package


def names(bundle: Bundle) -> list[str]:
    with zipfile.ZipFile(bundle.path) as archive:
        return archive.namelist()


def run_alone(bundle: Bundle, place: Path, script: str) -> str:
    """Run `script` on nothing but the standard library and the unpacked bundle."""
    root = place / bundle.path.stem
    with zipfile.ZipFile(bundle.path) as archive:
        archive.extractall(root)
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            f"import sys; sys.path.insert(0, {str(root)!r})\n{script}",
        ],
        check=False,
        capture_output=True,
        text=True,
        env={},
        cwd=place,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


IMPORT_EVERYTHING = """
import importlib, json, pkgutil
for name in PACKAGES:
    for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
        importlib.import_module(module.name)
print(json.dumps(sorted(
    module.__file__ for module in sys.modules.values() if getattr(module, "__file__", None)
)))
"""


def test_case_68_the_engine_imports_alone(engine: dict[Target, Bundle], tmp_path: Path) -> None:
    packages = [source.name for source in engine_sources()]
    assert "piton" in packages
    files = json.loads(
        run_alone(engine[Target.LOCAL], tmp_path, f"PACKAGES = {packages}\n{IMPORT_EVERYTHING}")
    )
    standard = str(Path(os.__file__).parent)
    assert [path for path in files if not path.startswith((str(tmp_path), standard))] == []
    assert [path for path in files if "site-packages" in path] == []


def test_a_client_of_every_kept_service_can_be_made(
    engine: dict[Target, Bundle], tmp_path: Path
) -> None:
    script = (
        "import boto3\n"
        "session = boto3.Session('key', 'secret', region_name='eu-central-1')\n"
        "print(session.get_available_services())\n"
        "for name in session.get_available_services():\n"
        "    print(session.client(name).meta.endpoint_url)\n"
    )
    services, *endpoints = run_alone(engine[Target.LOCAL], tmp_path, script).splitlines()
    assert services == "['dynamodb', 'events', 'lambda', 's3', 'sqs', 'sts']"
    assert len(endpoints) == 6
    assert all(re.fullmatch(r"https://\S+eu-central-1\S*", endpoint) for endpoint in endpoints)


@pytest.mark.parametrize("target", Target)
def test_a_build_elsewhere_gives_the_same_bytes(target: Target, tmp_path: Path) -> None:
    def copy_and_build(name: str, output_dir: Path) -> Bundle:
        sources = [tmp_path / name / source.name for source in engine_sources()]
        return build_bundle(output_dir, requirements=[ENGINE_LOCK], sources=sources, target=target)

    shutil.copytree(ROOT / "functions", tmp_path / "here")
    shutil.copytree(tmp_path / "here", tmp_path / "else" / "where")
    for path in (tmp_path / "else").rglob("*.py"):
        os.utime(path, (1, 1))
    cached = copy_and_build("here", ROOT / "build" / "bundles")
    anew = copy_and_build("else/where", tmp_path / "out")
    assert anew.sha256 == cached.sha256
    assert anew.path.read_bytes() == cached.path.read_bytes()


def test_the_deployed_bundle_holds_wheels_for_lambda(engine: dict[Target, Bundle]) -> None:
    with zipfile.ZipFile(engine[Target.LAMBDA].path) as archive:
        libraries = [name for name in archive.namelist() if ".so" in name]
        assert {archive.read(name)[18:20] for name in libraries} == {ELF_MACHINE_AARCH64}
    tag = "cpython-{}{}-aarch64".format(*LAMBDA_PYTHON)
    assert all(tag in name or ".abi3." in name for name in libraries)


def test_the_deployed_bundle_stays_small(engine: dict[Target, Bundle]) -> None:
    with zipfile.ZipFile(engine[Target.LAMBDA].path) as archive:
        unpacked = sum(entry.file_size for entry in archive.infolist())
    assert engine[Target.LAMBDA].path.stat().st_size < 12_000_000
    assert unpacked < 40_000_000


def test_only_what_functions_read_is_shipped(engine: dict[Target, Bundle]) -> None:
    for bundle in engine.values():
        shipped = names(bundle)
        assert [
            name for name in shipped if re.search(r"/tests/|RECORD$|direct_url|^bin/", name)
        ] == []
        assert any(name.endswith("LICENSE") for name in shipped)
    assert engine[Target.LOCAL].compiled
    compiled = set(names(engine[Target.LOCAL]))
    tag = sys.implementation.cache_tag
    assert all(
        f"{path.parent.as_posix()}/__pycache__/{path.stem}.{tag}.pyc" in compiled
        for path in map(Path, compiled)
        if path.suffix == ".py" and path.parts[0] == "piton"
    )


def test_a_pool_bundle_holds_the_engine_and_the_pools_own(tmp_path: Path, package: Path) -> None:
    pool = build_bundle(
        ROOT / "build" / "bundles",
        requirements=[ENGINE_LOCK, POOL_LOCK],
        sources=[*engine_sources(), package],
        target=Target.LOCAL,
    )
    script = "import defusedxml, pypdf, piton, tasks.totals\nprint(tasks.totals.TOTAL)"
    assert run_alone(pool, tmp_path, script) == "3\n"


def test_contents_of_a_source_package(tmp_path: Path, small_lock: Path, package: Path) -> None:
    bundle = build_bundle(
        tmp_path / "out", requirements=[small_lock], sources=[package], target=Target.LOCAL
    )
    tag = sys.implementation.cache_tag
    assert [name for name in names(bundle) if name.startswith("tasks/")] == [
        "tasks/__init__.py",
        f"tasks/__pycache__/__init__.{tag}.pyc",
        f"tasks/__pycache__/totals.{tag}.pyc",
        "tasks/rules/limits.yaml",
        "tasks/totals.py",
    ]


def test_the_hash_follows_contents_and_a_change_of_code_installs_nothing(
    tmp_path: Path, small_lock: Path, package: Path
) -> None:
    def build() -> Bundle:
        return build_bundle(
            tmp_path / "out", requirements=[small_lock], sources=[package], target=Target.LOCAL
        )

    first = build()
    original = (package / "totals.py").read_text()
    (package / "totals.py").touch()
    (package / ".editor").write_text("swap file")
    assert build() == first

    [installed] = (tmp_path / "out" / "installed").iterdir()
    made = installed.stat().st_ctime_ns
    (package / "totals.py").write_text("TOTAL = 4\n")
    changed = build()
    assert changed.sha256 != first.sha256
    assert changed.path != first.path
    assert list((tmp_path / "out" / "installed").iterdir()) == [installed]
    assert installed.stat().st_ctime_ns == made

    (package / "totals.py").write_text(original)
    assert build() == first


def test_a_tampered_lock_is_refused_and_leaves_nothing(
    tmp_path: Path, small_lock: Path, package: Path
) -> None:
    text = small_lock.read_text()
    small_lock.write_text(re.sub(r"sha256:[0-9a-f]{8}", "sha256:00000000", text))
    with pytest.raises(BundleError, match="DO NOT MATCH THE HASHES"):
        build_bundle(
            tmp_path / "out", requirements=[small_lock], sources=[package], target=Target.LOCAL
        )
    left = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert left == [tmp_path / "out" / ".lock"]


def test_a_source_that_hides_an_installed_package_is_refused(
    tmp_path: Path, small_lock: Path, package: Path
) -> None:
    package = package.rename(tmp_path / "jmespath")
    with pytest.raises(BundleError, match="name of an installed package: jmespath"):
        build_bundle(
            tmp_path / "out", requirements=[small_lock], sources=[package], target=Target.LOCAL
        )


def test_a_source_that_does_not_compile_is_named(
    tmp_path: Path, small_lock: Path, package: Path
) -> None:
    (package / "broken.py").write_text("def half(:\n")
    with pytest.raises(BundleError, match=r"broken\.py"):
        build_bundle(
            tmp_path / "out", requirements=[small_lock], sources=[package], target=Target.LOCAL
        )


def test_a_missing_source_is_named(tmp_path: Path, small_lock: Path) -> None:
    with pytest.raises(BundleError, match="nowhere is neither"):
        build_bundle(
            tmp_path / "out",
            requirements=[small_lock],
            sources=[tmp_path / "nowhere"],
            target=Target.LOCAL,
        )


def test_old_archives_are_forgotten(tmp_path: Path, small_lock: Path, package: Path) -> None:
    built = []
    for number in range(10):
        (package / "totals.py").write_text(f"TOTAL = {number}\n")
        bundle = build_bundle(
            tmp_path / "out", requirements=[small_lock], sources=[package], target=Target.LOCAL
        )
        os.utime(bundle.path, (number, number))
        built.append(bundle.path)
    assert sorted((tmp_path / "out").glob("*.zip")) == sorted(built[2:])
    assert len(list((tmp_path / "out").glob("*.sha256"))) == 8


def test_an_archive_can_be_read_back_whole(tmp_path: Path, small_lock: Path, package: Path) -> None:
    bundle = build_bundle(
        tmp_path / "out", requirements=[small_lock], sources=[package], target=Target.LOCAL
    )
    with zipfile.ZipFile(io.BytesIO(bundle.path.read_bytes())) as archive:
        assert archive.testzip() is None
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
