"""One SQLite file with the engine's schema, and how rows are written into it."""

from __future__ import annotations

import base64
import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from piton.domain.errors import Bug, PitonError, Retry
from piton.domain.rows import Attributes, Value

IN_MEMORY: Final = ":memory:"
SCHEMA_VERSION: Final = 1
_APPLICATION_ID: Final = 0x5069746E

# Rows live in one B-tree by key, so a write touches one page and a partition is one range.
# The columns beside `doc` repeat what indexes and filters need.
_SCHEMA: Final = f"""
    BEGIN EXCLUSIVE;
    CREATE TABLE items (
        tbl TEXT NOT NULL,
        pk TEXT NOT NULL,
        sk TEXT NOT NULL,
        doc TEXT NOT NULL,
        due_at INTEGER,
        tenant_pk TEXT,
        tenant_sk TEXT,
        status TEXT,
        workflow_id TEXT,
        PRIMARY KEY (tbl, pk, sk)
    ) WITHOUT ROWID;
    CREATE INDEX due ON items (due_at, pk) WHERE due_at IS NOT NULL;
    CREATE INDEX by_tenant ON items (tenant_pk, tenant_sk) WHERE tenant_pk IS NOT NULL;
    CREATE TABLE feed (
        seq INTEGER PRIMARY KEY,
        tbl TEXT NOT NULL,
        pk TEXT NOT NULL,
        sk TEXT NOT NULL,
        old TEXT,
        new TEXT NOT NULL
    );
    CREATE TABLE blobs (key TEXT PRIMARY KEY, body BLOB NOT NULL);
    PRAGMA application_id = {_APPLICATION_ID};
    PRAGMA user_version = {SCHEMA_VERSION};
    COMMIT;
"""


class IncompatibleFile(PitonError):
    """The file is not a database of this engine, or a newer release wrote it."""


class Database:
    """A connection that threads share, one at a time.

    A file is opened in WAL mode and every commit is synced to disk; other processes may have the
    same file open. `IN_MEMORY` gives a private database that ends with the object. Raises
    `IncompatibleFile` when the file is not ours. Every method raises `Retry` when another process
    keeps the file locked longer than `busy_timeout_s` seconds.

    With `group_commits` several transactions share one sync: they are carried out at once, in
    their order, and reach the disk together at the next `flush`, so a crash loses the latest of
    them and never one from their midst. Nothing that follows from them may leave the process
    before that. Other processes wait for the lock meanwhile.
    """

    def __init__(
        self,
        path: str | Path = IN_MEMORY,
        *,
        busy_timeout_s: float = 5.0,
        group_commits: bool = False,
    ) -> None:
        self._group_commits = group_commits
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(
            path, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False
        )
        try:
            self._open(str(path))
        except BaseException:
            self._connection.close()
            raise

    def _open(self, path: str) -> None:
        try:
            self._create_or_check(path)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
        except sqlite3.OperationalError as error:
            _raise_retry_if_busy(error)
            raise

    def _create_or_check(self, path: str) -> None:
        try:
            version = self._pragma("user_version")
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            raise IncompatibleFile(f"{path} is no database; choose another file") from error
        if version == 0 and self._pragma("schema_version") == 0:
            try:
                self._connection.executescript(_SCHEMA)
            except sqlite3.OperationalError:
                # Another process may have created the schema in the meantime.
                if self._connection.in_transaction:
                    self._connection.rollback()
                if self._pragma("application_id") != _APPLICATION_ID:
                    raise
            version = self._pragma("user_version")
        if self._pragma("application_id") != _APPLICATION_ID:
            raise IncompatibleFile(f"{path} holds something else; choose another file")
        if version > SCHEMA_VERSION:
            raise IncompatibleFile(
                f"{path} has schema {version}, this release knows {SCHEMA_VERSION}; upgrade"
            )

    def _pragma(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])

    def close(self) -> None:
        """Commit what waits and close the connection."""
        with self._lock:
            self.flush()
            self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Hold the write lock; commit at the end of the block, roll back when it raises.

        With `group_commits` the block's changes wait for `flush`. A block that raises amid its
        changes then takes with it all that waits, as if the process had crashed.
        """
        with self._lock:
            connection = self._connection
            changes, waiting = connection.total_changes, connection.in_transaction
            try:
                if not waiting:
                    connection.execute("BEGIN IMMEDIATE")
                yield connection
                # A block that changed nothing, with nothing before it, must not keep the lock.
                changed = connection.total_changes != changes
                if not self._group_commits or not (waiting or changed):
                    connection.execute("COMMIT")
            except BaseException as error:
                changed = connection.total_changes != changes
                if connection.in_transaction and (changed or not self._group_commits):
                    connection.execute("ROLLBACK")
                _raise_retry_if_busy(error)
                raise

    def flush(self) -> None:
        """Commit what waits. On return it is on disk."""
        with self._lock:
            if self._connection.in_transaction:
                self._connection.execute("COMMIT")

    def read(self, sql: str, parameters: Sequence[object] | Mapping[str, object] = ()) -> list[Any]:
        """Return all rows of one consistent read."""
        with self._lock:
            try:
                return self._connection.execute(sql, parameters).fetchall()
            except sqlite3.OperationalError as error:
                _raise_retry_if_busy(error)
                raise


def _raise_retry_if_busy(error: BaseException) -> None:
    if isinstance(error, sqlite3.OperationalError):
        code = error.sqlite_errorcode & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise Retry("the database is locked by another process") from error


# Sets and bytes have no JSON form. Their tags begin with U+0000, which no stored text may hold,
# so no map can be mistaken for one.
_SET: Final = "\x00set"
_BYTES: Final = "\x00bytes"


def encode(attributes: Attributes) -> str:
    """Return the stored text of an item's attributes."""
    return _ENCODER.encode(attributes)


def decode(text: str) -> dict[str, Value]:
    """Read stored text back."""
    decoder = _TAGGED_DECODER if _ESCAPED_TAG in text else _DECODER
    value: dict[str, Value] = decoder.decode(text)
    return value


def _tag(value: object) -> dict[str, Any]:
    if isinstance(value, frozenset):
        return {_SET: sorted(value)}
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode("ascii")}
    raise Bug(f"{type(value).__name__} cannot be stored")


def _untag(value: dict[str, Any]) -> Any:
    if len(value) == 1:
        if _SET in value:
            return frozenset(value[_SET])
        if _BYTES in value:
            return base64.b64decode(value[_BYTES])
    return value


_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_tag
)
_ESCAPED_TAG: Final = "\\u0000"
_DECODER: Final = json.JSONDecoder()
_TAGGED_DECODER: Final = json.JSONDecoder(object_hook=_untag)
