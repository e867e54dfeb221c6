"""The operating system's randomness and names made from it."""

from __future__ import annotations

import secrets
from typing import Final

_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_TIME_BITS: Final = 48
_RANDOM_BITS: Final = 80
_ULID_LENGTH: Final = 26
_NONCE_BYTES: Final = 9


class SystemRandom:
    """`ports.Random` on the operating system's generator: no fork or snapshot repeats it."""

    def __init__(self) -> None:
        self._generator = secrets.SystemRandom()

    def uniform(self) -> float:
        """Return a number in [0, 1)."""
        return self._generator.random()

    def ulid(self, now_ms: int) -> str:
        """Return a ULID (github.com/ulid/spec): 26 characters that sort by millisecond.

        Raises `ValueError` when `now_ms` does not fit 48 bits.
        """
        if not 0 <= now_ms < 1 << _TIME_BITS:
            raise ValueError("a ULID holds times from 1970 to 10889 only")
        value = now_ms << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
        shifts = range(5 * (_ULID_LENGTH - 1), -1, -5)
        return "".join(_ALPHABET[value >> shift & 0x1F] for shift in shifts)

    def nonce(self) -> str:
        """Return 12 characters with 72 random bits."""
        return secrets.token_urlsafe(_NONCE_BYTES)
