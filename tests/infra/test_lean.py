"""What is left out of a bundle is what no function reads, and nothing else."""

import json
from pathlib import Path

import pytest

from infra.lean import prune

KEPT = (
    "app/__init__.py",
    "app/testing.py",
    "boto3/data/s3/2006-03-01/resources-1.json",
    "botocore/data/_retry.json",
    "botocore/data/s3/2006-03-01/service-2.json.gz",
    "pkg-1.0.dist-info/METADATA",
    "pkg-1.0.dist-info/entry_points.txt",
    "pkg-1.0.dist-info/licenses/LICENSE",
)
DROPPED = (
    "app/__pycache__/app.pyc",
    "app/py.typed",
    "app/stub.pyi",
    "app/tests/test_app.py",
    "bin/tool",
    "boto3/data/ec2/2016-11-15/resources-1.json",
    "boto3/examples/s3.rst",
    "botocore/data/ec2/2016-11-15/service-2.json.gz",
    "botocore/data/s3/2006-03-01/examples-1.json",
    "pkg-1.0.dist-info/RECORD",
    "pkg-1.0.dist-info/direct_url.json",
)
ENDPOINTS = "botocore/data/endpoints.json"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in (*KEPT, *DROPPED):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    table = {"partitions": [{"partition": "aws", "services": {"ec2": {}, "s3": {"endpoints": {}}}}]}
    (tmp_path / ENDPOINTS).write_text(json.dumps(table))
    return tmp_path


def test_what_stays(tree: Path) -> None:
    prune(tree, frozenset({"s3"}))
    left = sorted(path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file())
    assert left == sorted((*KEPT, ENDPOINTS))
    assert json.loads((tree / ENDPOINTS).read_text()) == {
        "partitions": [{"partition": "aws", "services": {"s3": {"endpoints": {}}}}]
    }


def test_a_service_that_the_sdk_does_not_know_is_named(tree: Path) -> None:
    with pytest.raises(ValueError, match="no service dynamite"):
        prune(tree, frozenset({"dynamite", "s3"}))


def test_a_tree_without_the_sdk_is_fine(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    prune(tmp_path, frozenset({"s3"}))
    assert [path.name for path in tmp_path.iterdir()] == ["app"]
