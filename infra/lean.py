"""What a bundle does without: a cold start unpacks and scans all that is left in it."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SDK_SERVICES: Final = frozenset({"dynamodb", "events", "lambda", "s3", "sqs", "sts"})
"""The AWS services that the engine's own functions call, and STS for credentials."""

# Paths from the bundle's root. Nothing imports or reads these while a function runs.
_UNUSED = (
    "bin",
    "__pycache__",
    "boto3/examples",
    "aws_lambda_powertools/event_handler/openapi/swagger_ui/swagger-ui-bundle.min.js",
    "aws_lambda_powertools/event_handler/openapi/swagger_ui/swagger-ui.min.css",
    "*.dist-info/sboms",
    "*.dist-info/RECORD",
    "*.dist-info/INSTALLER",
    "*.dist-info/REQUESTED",
    "*.dist-info/WHEEL",
    "*.dist-info/direct_url.json",
    "*/tests",
    "**/__pycache__",
    "**/*.pyi",
    "**/*.pyx",
    "**/*.pxd",
    "**/py.typed",
)
_SDK_DATA = ("botocore/data", "boto3/data")
_SDK_UNUSED = ("examples-1.json", "completions-1.json")


def prune(tree: Path, sdk_services: frozenset[str]) -> None:
    """Delete from an installed `tree` what no function reads; licences and versions stay.

    Of boto3's API descriptions only those of `sdk_services` and the shared ones are kept. Raises
    ValueError if boto3 does not know one of them.
    """
    for pattern in _UNUSED:
        for path in list(tree.glob(pattern)):
            _delete(path)
    if (tree / "botocore").is_dir():
        known = {folder.name for folder in (tree / "botocore/data").iterdir() if folder.is_dir()}
        if unknown := sdk_services - known:
            raise ValueError(f"boto3 knows no service {', '.join(sorted(unknown))}")
        for path in list(_unused_descriptions(tree, sdk_services)):
            _delete(path)
        _trim_endpoints(tree / "botocore/data/endpoints.json", sdk_services)


def _trim_endpoints(table: Path, sdk_services: frozenset[str]) -> None:
    """Keep the rows of `sdk_services`: every new client parses this table, a megabyte if whole."""
    endpoints = json.loads(table.read_bytes())
    for partition in endpoints["partitions"]:
        services = partition["services"]
        partition["services"] = {name: services[name] for name in services if name in sdk_services}
    table.write_text(json.dumps(endpoints, separators=(",", ":")))


def _unused_descriptions(tree: Path, sdk_services: frozenset[str]) -> Iterator[Path]:
    for data in _SDK_DATA:
        for path in (tree / data).iterdir():
            if not path.is_dir():
                continue  # endpoints, partitions, retry rules: shared by all services
            if path.name not in sdk_services:
                yield path
            else:
                yield from (file for name in _SDK_UNUSED for file in path.glob(f"*/{name}"))


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
