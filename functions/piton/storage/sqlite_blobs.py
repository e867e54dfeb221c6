"""Large payloads in the embedded store's file."""

from __future__ import annotations

from typing import Final

from piton.storage.sqlite_database import Database

_PUT: Final = "INSERT OR IGNORE INTO blobs (key, body) VALUES (?, ?)"
_GET: Final = "SELECT body FROM blobs WHERE key = ?"


class SqliteBlobs:
    """`ports.BlobStore` beside the rows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, key: str, body: bytes) -> None:
        """Store `body`; what a content-addressed key already holds is left as it is."""
        with self._database.transaction() as connection:
            connection.execute(_PUT, (key, body))

    def get(self, key: str) -> bytes | None:
        """Return what is stored, or None."""
        found = self._database.read(_GET, (key,))
        if not found:
            return None
        body: bytes = found[0][0]
        return body
