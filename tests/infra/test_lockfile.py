"""Locks are read for the target, not for the interpreter that happens to run."""

from pathlib import Path

import pytest

from infra.lockfile import LockError, check_complete, narrow

ARM = {"platform_machine": "aarch64", "python_version": "3.13", "python_full_version": "3.13.0"}


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def install(tree: Path, name: str, version: str, *needs: str) -> None:
    info = tree / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    info.joinpath("METADATA").write_text(
        "\n".join([*lines, *(f"Requires-Dist: {need}" for need in needs), ""])
    )


def test_pins_are_chosen_by_the_targets_markers(tmp_path: Path) -> None:
    lock = write(
        tmp_path,
        "lock.txt",
        "# comment\n"
        "Old_Name==1.0 ; python_version < '3.12' \\\n    --hash=sha256:aa\n"
        "Always==2.0 \\\n    --hash=sha256:cc \\\n    --hash=sha256:bb\n    # via something\n"
        "onarm==3.0 ; platform_machine == 'aarch64' --hash=sha256:dd\n",
    )
    assert narrow([lock], ARM) == (
        "always==2.0 --hash=sha256:bb --hash=sha256:cc\nonarm==3.0 --hash=sha256:dd\n"
    )


def test_locks_that_agree_are_merged(tmp_path: Path) -> None:
    one = write(tmp_path, "one", "a==1 --hash=sha256:aa\nb==1 --hash=sha256:bb\n")
    two = write(tmp_path, "two", "a==1 --hash=sha256:ab\n")
    assert narrow([one, two], ARM) == (
        "a==1 --hash=sha256:aa --hash=sha256:ab\nb==1 --hash=sha256:bb\n"
    )


def test_locks_that_disagree_are_refused(tmp_path: Path) -> None:
    one = write(tmp_path, "one", "a==1 --hash=sha256:aa\n")
    two = write(tmp_path, "two", "a==2 --hash=sha256:aa\n")
    with pytest.raises(LockError, match="pins a==2, another lock of this bundle pins a==1"):
        narrow([one, two], ARM)


@pytest.mark.parametrize(
    "line",
    ["a==1", "a>=1 --hash=sha256:aa", "a --hash=sha256:aa", "a==1,!=2 --hash=sha256:aa", "-e ."],
)
def test_a_line_without_an_exact_pin_and_a_hash_is_refused(tmp_path: Path, line: str) -> None:
    lock = write(tmp_path, "lock.txt", line)
    with pytest.raises(LockError, match=r"lock\.txt"):
        narrow([lock], ARM)


def test_a_missing_dependency_is_named(tmp_path: Path) -> None:
    install(
        tmp_path, "app", "1.0", "needed>=2", "never; python_version < '3.12'", "x; extra == 'x'"
    )
    with pytest.raises(LockError, match="app needs needed>=2, which no lock pins"):
        check_complete(tmp_path, ARM)
    install(tmp_path, "needed", "2.1")
    check_complete(tmp_path, ARM)


def test_a_pin_outside_what_is_needed_is_named(tmp_path: Path) -> None:
    install(tmp_path, "app", "1.0", "needed>=2")
    install(tmp_path, "needed", "1.9")
    with pytest.raises(LockError, match=r"app needs needed>=2, but 1\.9 is pinned"):
        check_complete(tmp_path, ARM)
