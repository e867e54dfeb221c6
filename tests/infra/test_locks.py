"""The committed locks agree with each other and tie nobody to one package index."""

import re
import subprocess
from itertools import combinations
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from infra.bundle import ROOT

LOCKS = ("requirements.txt", "functions/requirements.txt", "examples/requirements.txt")
INDEX_ADDRESS = re.compile(
    r"pypi\.org|pythonhosted\.org|npmjs\.(org|com)|yarnpkg\.com|"
    r"index-url|find-links|\"resolved\"\s*:|registry\s*=\s*http",
    re.IGNORECASE,
)


def pins(lock: str) -> dict[str, set[str]]:
    versions: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([\w.-]+)==([^\s;]+)", (ROOT / lock).read_text(), re.M):
        versions.setdefault(canonicalize_name(name), set()).add(version)
    return versions


@pytest.mark.parametrize(("one", "other"), list(combinations(LOCKS, 2)))
def test_shared_packages_have_one_version(one: str, other: str) -> None:
    ours, theirs = pins(one), pins(other)
    assert {name: ours[name] for name in ours.keys() & theirs.keys()} == {
        name: theirs[name] for name in ours.keys() & theirs.keys()
    }


@pytest.mark.parametrize("lock", LOCKS)
def test_everything_asked_for_is_locked(lock: str) -> None:
    asked = {
        canonicalize_name(Requirement(line).name)
        for text in (ROOT / lock).with_suffix(".in").read_text().splitlines()
        if (line := text.partition("#")[0].strip()) and not line.startswith("-")
    }
    assert asked <= pins(lock).keys()


def test_no_tracked_file_names_a_package_index() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    here = Path(__file__).relative_to(ROOT).as_posix()
    found = [
        f"{name}: {match.group()}"
        for name in filter(None, listed.split("\0"))
        if name != here
        and (path := ROOT / name).is_file()
        and (match := INDEX_ADDRESS.search(path.read_text(errors="ignore")))
    ]
    assert found == []
