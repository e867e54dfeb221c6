"""A local AppSync: GraphQL over HTTP in front of the deployed functions.

The emulator's own AppSync lets any caller through. Here a caller proves who they are with an ID
token of the user pool, exactly as on AWS, and only fields that the deployed template wires are
answered.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from local.appsync import AppSync, FunctionFailed, Request
from local.tokens import TokenRefused, TokenVerifier
from local.wiring import Wiring

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

HOST: Final = "127.0.0.1"
PATH: Final = "/graphql"
SCHEMA: Final = Path(__file__).resolve().parent.parent / "schema" / "schema.graphql"
MAX_BODY: Final = 1024 * 1024
"""Bytes of a request, as on AppSync."""
_READ_AWAY: Final = 8 * MAX_BODY

_TIMEOUT_S: Final = 30
_IDLE_S: Final = 60
_BEARER: Final = "Bearer "


class LambdaCaller:
    """Calls deployed functions and waits for their answers."""

    def __init__(self, client: LambdaClient) -> None:
        self._client = client

    @classmethod
    def at(cls, endpoint_url: str, region: str) -> LambdaCaller:
        """Call functions of the AWS at `endpoint_url`, with the SDK's own credentials."""
        config = Config(
            # A mutation must not be sent twice behind its caller's back.
            retries={"total_max_attempts": 1},
            read_timeout=_TIMEOUT_S,
            max_pool_connections=16,
            proxies={},
        )
        return cls(
            boto3.client("lambda", endpoint_url=endpoint_url, region_name=region, config=config)
        )

    def __call__(self, function: str, event: dict[str, Any]) -> Any:
        """Return the function's answer. Raises `FunctionFailed`."""
        try:
            answer = self._client.invoke(FunctionName=function, Payload=json.dumps(event))
            payload = json.load(answer["Payload"])
        except (BotoCoreError, ClientError, ValueError) as error:
            raise FunctionFailed(f"{function} cannot be called: {error}") from error
        if answer.get("FunctionError"):
            message = payload.get("errorMessage") if isinstance(payload, dict) else None
            raise FunctionFailed(str(message or "the function failed"))
        return payload


class Front:
    """The HTTP server. Use it as a context manager, or `start` and `stop` it."""

    def __init__(self, api: AppSync, verifier: TokenVerifier, *, port: int = 0) -> None:
        self._api = api
        self._server = _Server((HOST, port), _Handler)
        self._server.api, self._server.verifier = api, verifier
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @classmethod
    def of_stack(
        cls,
        assembly: Path,
        *,
        endpoint_url: str,
        region: str,
        user_pool_id: str,
        client_id: str,
        port: int = 0,
    ) -> Self:
        """Serve what `assembly` wires, deployed at `endpoint_url`. Raises `WiringError`."""
        return cls(
            AppSync(
                SCHEMA.read_text(), Wiring.read(assembly), LambdaCaller.at(endpoint_url, region)
            ),
            TokenVerifier.of_pool(endpoint_url, region, user_pool_id, client_id),
            port=port,
        )

    @property
    def url(self) -> str:
        """Address of the API."""
        return f"http://{HOST}:{self._server.server_port}{PATH}"

    def start(self) -> Self:
        """Serve in a thread of its own."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """End the server and its threads."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._api.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    api: AppSync
    verifier: TokenVerifier


class _Refused(Exception):
    """A request that is answered with an HTTP error."""

    def __init__(self, status: HTTPStatus, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_S
    server: _Server

    def do_POST(self) -> None:
        """Answer a GraphQL request."""
        try:
            # Read in any case: what is left over would be taken for the next request.
            body = self._body()
            claims = self._claims()
            answer = self.server.api.answer(self._request(body, claims))
        except _Refused as refusal:
            error = {"errorType": refusal.kind, "message": str(refusal)}
            self._send(refusal.status, {"errors": [error]})
        else:
            self._send(HTTPStatus.OK, answer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Keep quiet: the functions log."""

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MAX_BODY:
            self.close_connection = True
            if length.isdigit() and int(length) <= _READ_AWAY:
                # A client that is still sending would meet a closed connection, not the answer.
                self.rfile.read(int(length))
            raise _Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                "RequestEntityTooLargeException",
                f"A request may have {MAX_BODY} bytes and must say how many it has",
            )
        return self.rfile.read(int(length))

    def _claims(self) -> dict[str, Any]:
        # A page that resolves its own name to this machine still sends its own name.
        if self.headers.get("Host", "").rpartition(":")[0] not in (HOST, "localhost"):
            raise _Refused(HTTPStatus.FORBIDDEN, "ForbiddenException", "Ask for 127.0.0.1")
        if self.path != PATH:
            raise _Refused(HTTPStatus.NOT_FOUND, "NotFoundException", f"Post to {PATH}")
        token = self.headers.get("Authorization", "").removeprefix(_BEARER).strip()
        if not token:
            raise _Refused(
                HTTPStatus.UNAUTHORIZED,
                "UnauthorizedException",
                "Send an ID token in the Authorization header",
            )
        try:
            return self.server.verifier.claims(token)
        except TokenRefused as error:
            raise _Refused(HTTPStatus.UNAUTHORIZED, "UnauthorizedException", str(error)) from error

    def _request(self, body: bytes, claims: dict[str, Any]) -> Request:
        try:
            content = json.loads(body)
        except (ValueError, RecursionError):
            content = None
        if isinstance(content, dict):
            query, operation = content.get("query"), content.get("operationName")
            variables = content.get("variables") or {}
            if (
                isinstance(query, str)
                and isinstance(variables, dict)
                and isinstance(operation, str | None)
            ):
                headers = {name.lower(): value for name, value in self.headers.items()}
                return Request(query, variables, operation, self._identity(claims), headers)
        raise _Refused(
            HTTPStatus.BAD_REQUEST,
            "MalformedHttpRequestException",
            'Send {"query": ..., "variables": {...}} as JSON',
        )

    def _identity(self, claims: dict[str, Any]) -> dict[str, Any]:
        return {
            "claims": claims,
            "defaultAuthStrategy": "ALLOW",
            "groups": claims.get("cognito:groups"),
            "issuer": claims["iss"],
            "sourceIp": [self.client_address[0]],
            "sub": claims["sub"],
            "username": claims.get("cognito:username", claims["sub"]),
        }

    def _send(self, status: HTTPStatus, answer: dict[str, Any]) -> None:
        body = json.dumps(answer, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json;charset=UTF-8")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """Serve until a signal ends it."""
    parser = argparse.ArgumentParser(prog="python -m local.front", description=__doc__)
    parser.add_argument("--assembly", type=Path, required=True)
    parser.add_argument("--endpoint-url", default=os.environ.get("AWS_ENDPOINT_URL"))
    parser.add_argument("--region", required=True)
    parser.add_argument("--user-pool-id", required=True)
    parser.add_argument("--client-id", required=True)
    parser.add_argument("--port", type=int, default=0)
    asked = parser.parse_args()
    front = Front.of_stack(
        asked.assembly,
        endpoint_url=asked.endpoint_url,
        region=asked.region,
        user_pool_id=asked.user_pool_id,
        client_id=asked.client_id,
        port=asked.port,
    )
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with front:
        print(front.url, flush=True)
        ended.wait()


if __name__ == "__main__":
    main()
