"""Results and inputs: inline while small, content-addressed blobs beyond that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from piton.domain import canonical
from piton.domain.canonical import Json
from piton.domain.errors import Bug
from piton.domain.rows import ExecutionRef, NodeRow
from piton.domain.settings import Settings
from piton.ports import BlobStore, Store
from piton.services.recent import Recent
from piton.storage import keys
from piton.storage.views import INPUT_VIEW

_CACHED_INPUTS: Final = 64


class PayloadMissing(Exception):
    """A stored reference leads nowhere, or to other bytes than its hash promises."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Where a payload lies: `body` inline or `ref` in the blob store, and its SHA-256."""

    hash: str
    body: str | None = None
    ref: str | None = None


class Payloads:
    """Stores and loads the JSON that travels between nodes."""

    def __init__(self, store: Store, blobs: BlobStore, settings: Settings) -> None:
        self._store = store
        self._blobs = blobs
        self._settings = settings
        self._inputs: Recent[ExecutionRef, str] = Recent(_CACHED_INPUTS)

    def save(self, ref: ExecutionRef, text: str) -> Stored:
        """Keep canonical `text` and return where.

        The key holds the content's hash, so an attempt that lost its fence cannot overwrite what
        the winner stored.
        """
        body = text.encode("utf-8")
        hash_ = canonical.digest(text)
        if len(body) <= self._settings.inline_bytes:
            return Stored(hash_, body=text)
        key = keys.payload_blob(ref, hash_)
        self._blobs.put(key, body)
        return Stored(hash_, ref=key)

    def load_result(self, row: NodeRow) -> Json:
        """Return the result of a completed node; gates have none. Raises `PayloadMissing`."""
        if row.result is None and row.result_ref is None:
            return None
        return canonical.loads(self._text(Stored(row.result_hash, row.result, row.result_ref)))

    def load_input(self, ref: ExecutionRef) -> Json:
        """Return the execution's input, a copy of its own for each caller.

        It never changes, so the texts of the latest ones are kept. Raises `PayloadMissing`.
        """
        text = self._inputs.get(ref)
        if text is None:
            stored = self._store.get_raw(keys.execution_input(ref), INPUT_VIEW)
            if stored is None:
                raise PayloadMissing
            text = self._text(
                Stored(
                    str(stored.get("input_hash")),
                    _optional_text(stored.get("input_body")),
                    _optional_text(stored.get("input_ref")),
                )
            )
            self._inputs.put(ref, text)
        return canonical.loads(text)

    def _text(self, stored: Stored) -> str:
        text = stored.body
        if text is None:
            body = self._blobs.get(stored.ref) if stored.ref else None
            if body is None:
                raise PayloadMissing
            text = body.decode("utf-8")
            if canonical.digest(text) != stored.hash:
                raise PayloadMissing
        return text


def _optional_text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise Bug("payload attribute is not text")
