"""ID tokens: which are believed."""

import base64
import hmac
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any, Final

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from jwt.algorithms import RSAAlgorithm

from local.tokens import TokenRefused, TokenVerifier
from piton.adapters.clock import SystemClock

ISSUER: Final = "https://cognito-idp.us-east-1.amazonaws.com/us-east-1_pool"
CLIENT: Final = "client-1"


class Jwks:
    """Serves the public halves of `keys`, and counts how often."""

    def __init__(self) -> None:
        self.keys: dict[str, RSAPrivateKey] = {}
        self.fetched = 0
        served = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                served.fetched += 1
                body = json.dumps({"keys": [*map(served.public, served.keys)]}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                del format, args

        self.server = HTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/jwks.json"

    def public(self, key_id: str) -> dict[str, Any]:
        public = RSAAlgorithm.to_jwk(self.keys[key_id].public_key(), as_dict=True)
        return {**public, "kid": key_id, "use": "sig", "alg": "RS256"}


@pytest.fixture(scope="module")
def keys() -> dict[str, RSAPrivateKey]:
    return {name: generate_private_key(65537, 2048) for name in ("first", "second")}


@pytest.fixture
def jwks(keys: dict[str, RSAPrivateKey]) -> Iterator[Jwks]:
    serving = Jwks()
    serving.keys["first"] = keys["first"]
    thread = Thread(target=serving.server.serve_forever, args=(0.01,))
    thread.start()
    yield serving
    serving.server.shutdown()
    thread.join()
    serving.server.server_close()


@pytest.fixture
def clock() -> list[float]:
    return [100.0]


@pytest.fixture
def verifier(jwks: Jwks, clock: list[float]) -> TokenVerifier:
    return TokenVerifier(
        jwks_url=jwks.url, issuer=ISSUER, client_id=CLIENT, monotonic=lambda: clock[0]
    )


def signed(key: RSAPrivateKey, /, key_id: str = "first", **changes: Any) -> str:
    now = SystemClock().now_ms() // 1000
    claims = {
        "sub": "1",
        "iss": ISSUER,
        "aud": CLIENT,
        "token_use": "id",
        "iat": now,
        "exp": now + 3600,
        "custom:tenant": "acme",
        **changes,
    }
    kept = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(kept, key, algorithm="RS256", headers={"kid": key_id})


def test_a_valid_token_gives_its_claims(
    verifier: TokenVerifier, keys: dict[str, RSAPrivateKey]
) -> None:
    claims = verifier.claims(signed(keys["first"], groups=["viewers"]))
    assert (claims["custom:tenant"], claims["groups"]) == ("acme", ["viewers"])


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": 1},
        {"exp": None},
        {"iat": None},
        {"iat": 2**40},
        {"aud": "client-2"},
        {"aud": None},
        {"iss": "https://cognito-idp.us-east-1.amazonaws.com/us-east-1_other"},
        {"iss": None},
        {"sub": None},
        {"token_use": "access"},
        {"token_use": None},
    ],
)
def test_a_claim_that_does_not_fit_is_refused(
    verifier: TokenVerifier, keys: dict[str, RSAPrivateKey], changes: dict[str, Any]
) -> None:
    with pytest.raises(TokenRefused):
        verifier.claims(signed(keys["first"], **changes))


def test_a_signature_of_somebody_else_is_refused(
    verifier: TokenVerifier, keys: dict[str, RSAPrivateKey]
) -> None:
    with pytest.raises(TokenRefused, match="Signature verification failed"):
        verifier.claims(signed(keys["second"]))


def test_changed_claims_are_refused(
    verifier: TokenVerifier, keys: dict[str, RSAPrivateKey]
) -> None:
    head, _, signature = signed(keys["first"]).split(".")
    _, other, _ = signed(keys["first"], sub="2").split(".")
    with pytest.raises(TokenRefused):
        verifier.claims(f"{head}.{other}.{signature}")


def forged(key: RSAPrivateKey, algorithm: str, secret: bytes) -> str:
    """A token with the claims of a valid one and another kind of signature."""

    def part(content: bytes) -> bytes:
        return base64.urlsafe_b64encode(content).rstrip(b"=")

    _, claims, _ = signed(key).encode().split(b".")
    head = part(json.dumps({"alg": algorithm, "kid": "first", "typ": "JWT"}).encode())
    digest = hmac.digest(secret, head + b"." + claims, "sha256") if secret else b""
    return b".".join((head, claims, part(digest))).decode()


def test_only_the_pools_algorithm_is_taken(
    verifier: TokenVerifier, keys: dict[str, RSAPrivateKey]
) -> None:
    # The public key as the secret of a symmetric signature is an old trick.
    public = (
        keys["first"]
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    for token in (
        forged(keys["first"], "none", b""),
        forged(keys["first"], "HS256", public),
        forged(keys["first"], "RS256", b""),
    ):
        with pytest.raises(TokenRefused):
            verifier.claims(token)


@pytest.mark.parametrize("token", ["", "x", "a.b", "a.b.c", "..", "é.é.é"])
def test_what_is_no_token_is_refused_without_a_look_at_the_keys(
    verifier: TokenVerifier, jwks: Jwks, token: str
) -> None:
    with pytest.raises(TokenRefused):
        verifier.claims(token)
    assert jwks.fetched == 0


def test_keys_are_fetched_once(
    verifier: TokenVerifier, keys: dict[str, RSAPrivateKey], jwks: Jwks
) -> None:
    for _ in range(3):
        verifier.claims(signed(keys["first"]))
    assert jwks.fetched == 1


def test_a_new_key_is_found_but_not_looked_for_at_every_request(
    verifier: TokenVerifier, keys: dict[str, RSAPrivateKey], jwks: Jwks, clock: list[float]
) -> None:
    verifier.claims(signed(keys["first"]))
    jwks.keys["second"] = keys["second"]
    token = signed(keys["second"], "second")
    for _ in range(3):
        with pytest.raises(TokenRefused, match="a key that the pool does not have"):
            verifier.claims(token)
    assert jwks.fetched == 1
    clock[0] += 60
    verifier.claims(token)
    assert jwks.fetched == 2


def test_a_refusal_does_not_repeat_the_token(
    verifier: TokenVerifier, keys: dict[str, RSAPrivateKey]
) -> None:
    token = signed(keys["second"])
    with pytest.raises(TokenRefused) as caught:
        verifier.claims(token)
    assert token.split(".")[1] not in str(caught.value)


def test_a_pool_that_does_not_answer_lets_nobody_in(keys: dict[str, RSAPrivateKey]) -> None:
    nowhere = TokenVerifier.of_pool("http://127.0.0.1:9", "us-east-1", "us-east-1_pool", CLIENT)
    with pytest.raises(TokenRefused, match="cannot be read"):
        nowhere.claims(signed(keys["first"]))
