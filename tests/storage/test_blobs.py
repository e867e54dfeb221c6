"""Large payloads, on every host."""

import hashlib

import pytest

from piton.adapters.blobs import S3Blobs
from piton.domain.errors import Bug
from piton.ports import BlobStore
from tests.support.emulator import Clients


@pytest.mark.parametrize("body", [b"", b"{}", b"\x00\xff" * 500_000], ids=len)
def test_a_body_comes_back_as_it_was_put(blobs: BlobStore, body: bytes) -> None:
    key = f"payloads/acme/01K0/{hashlib.sha256(body).hexdigest()}"
    blobs.put(key, body)
    blobs.put(key, body)
    assert blobs.get(key) == body


def test_a_missing_body_is_none(blobs: BlobStore) -> None:
    assert blobs.get("payloads/acme/01K0/missing") is None


def test_a_missing_bucket_is_a_bug(aws: Clients) -> None:
    blobs = S3Blobs(aws.s3, "never-created")
    with pytest.raises(Bug, match="NoSuchBucket"):
        blobs.get("x")
    with pytest.raises(Bug, match="NoSuchBucket"):
        blobs.put("x", b"")
