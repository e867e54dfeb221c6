"""Large payloads in S3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from botocore.exceptions import ClientError

from piton.adapters.aws_errors import error_code, translated

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_MISSING: Final = frozenset({"NoSuchKey", "404", "AccessDenied", "403"})
"""S3 says `AccessDenied` for a missing object to whoever may not list the bucket: nobody may."""


class S3Blobs:
    """`ports.BlobStore` in one bucket. An object that may not be read counts as missing."""

    def __init__(self, client: S3Client, bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def put(self, key: str, body: bytes) -> None:
        """Store `body`. Raises `Retry` and `Bug` as `translated` does."""
        with translated("blobs.put"):
            self._client.put_object(Bucket=self._bucket, Key=key, Body=body)

    def get(self, key: str) -> bytes | None:
        """Return what is stored, or None. Raises `Retry` and `Bug` as `translated` does."""
        with translated("blobs.get"):
            try:
                answer = self._client.get_object(Bucket=self._bucket, Key=key)
            except ClientError as error:
                if error_code(error) in _MISSING:
                    return None
                raise
            return answer["Body"].read()
