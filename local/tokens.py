"""Checks ID tokens of a Cognito user pool, as AppSync does."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, Final

import jwt

_REQUIRED: Final = ("exp", "iat", "iss", "aud", "sub", "token_use")
_ID_USE: Final = "id"
_TIMEOUT_S: Final = 5.0
_REFRESH_S: Final = 10.0
"""Keys are fetched again for an unknown key id, but not more often than this."""

# Keys come from the machine itself here, whatever proxies its environment names.
_OPENER: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class TokenRefused(Exception):
    """The token proves nothing; the message says why, without repeating it."""


class TokenVerifier:
    """Verifies signature, issuer, audience, expiry and use. Threads may share it."""

    def __init__(
        self,
        *,
        jwks_url: str,
        issuer: str,
        client_id: str,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._jwks_url = jwks_url
        self._issuer = issuer
        self._client_id = client_id
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched_at: float | None = None

    @classmethod
    def of_pool(cls, endpoint_url: str, region: str, pool_id: str, client_id: str) -> TokenVerifier:
        """Verify tokens of a pool whose keys are served at `endpoint_url`."""
        return cls(
            jwks_url=f"{endpoint_url}/{pool_id}/.well-known/jwks.json",
            issuer=f"https://cognito-idp.{region}.amazonaws.com/{pool_id}",
            client_id=client_id,
        )

    def claims(self, token: str) -> dict[str, Any]:
        """Return the claims of a valid ID token. Raises `TokenRefused`."""
        try:
            key_id = jwt.get_unverified_header(token).get("kid")
            claims: dict[str, Any] = jwt.decode(
                token,
                self._key(str(key_id)),
                algorithms=["RS256"],
                audience=self._client_id,
                issuer=self._issuer,
                options={"require": list(_REQUIRED)},
            )
        except jwt.InvalidTokenError as error:
            raise TokenRefused(f"the token is not valid: {error}") from error
        if claims["token_use"] != _ID_USE:
            raise TokenRefused("the token is not an ID token")
        return claims

    def _key(self, key_id: str) -> jwt.PyJWK:
        with self._lock:
            if key_id not in self._keys and self._may_fetch():
                self._keys = self._fetch()
            if key_id not in self._keys:
                raise TokenRefused("the token is signed with a key that the pool does not have")
            return self._keys[key_id]

    def _may_fetch(self) -> bool:
        now = self._monotonic()
        if self._fetched_at is not None and now - self._fetched_at < _REFRESH_S:
            return False
        self._fetched_at = now
        return True

    def _fetch(self) -> dict[str, jwt.PyJWK]:
        try:
            with _OPENER.open(self._jwks_url, timeout=_TIMEOUT_S) as answer:
                keys = jwt.PyJWKSet.from_dict(json.load(answer)).keys
        except (urllib.error.URLError, ValueError, jwt.PyJWTError) as error:
            self._fetched_at = None
            raise TokenRefused("the keys of the user pool cannot be read") from error
        return {key.key_id: key for key in keys if key.key_id}
