"""A proxy between one deployed function and the embedded AWS."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Final, Self

from local.crashtest.deployed.wire import Request, read
from local.crashtest.points import Side
from local.demo.clock import DeadlinePassed
from local.emulator import HOST

Meet = Callable[[Request], Side | None]
"""Told of each request; says on which side of it its process has to die."""

Kill = Callable[[int], None]
"""Ends the process that is connected from this local port, and returns when it is dead."""

Alter = Callable[[Request, bytes], bytes]
"""Returns the body to pass on instead of the one that came, to break an engine on purpose."""

_TIMEOUT_S: Final = 30.0
_IDLE_S: Final = 600
_UNMANAGEABLE: Final = (
    DeadlinePassed,
    LookupError,
    OSError,
    ValueError,
    http.client.HTTPException,
)
_BETWEEN_HOPS: Final = frozenset({"connection", "content-length", "expect", "transfer-encoding"})


class Proxy:
    """Passes requests on to the local port `upstream`. Use it as a context manager.

    `errors` are requests that it could not deal with; they were not answered.
    """

    def __init__(self, upstream: int, meet: Meet, kill: Kill, alter: Alter | None = None) -> None:
        self.errors: list[str] = []
        self._server = _Server((HOST, 0), _Handler)
        self._server.upstream = upstream
        self._server.meet = meet
        self._server.kill = kill
        self._server.alter = alter
        self._server.errors = self.errors
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{HOST}:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    upstream: int
    meet: Meet
    kill: Kill
    alter: Alter | None
    errors: list[str]

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep quiet: a client that is gone is what this is for."""


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_S
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Keep quiet: there is a request for every call of the engine."""

    def do_POST(self) -> None:
        """Pass a request on, unless its process has to die before that, or right after it."""
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if len(body) < length:
            # Its process was killed at a call of another thread, in the middle of asking.
            self.close_connection = True
            return
        try:
            request = read(self.command, self.path, self.headers.get("X-Amz-Target", ""), body)
            side = self.server.meet(request)
            if side is Side.BEFORE:
                self._kill()
                return
            alter = self.server.alter
            answer = self._forward(alter(request, body) if alter else body)
            if side is Side.AFTER:
                self._kill()
                return
        except _UNMANAGEABLE as error:
            self.server.errors.append(f"{self.command} {self.path}: {error!r}")
            self.close_connection = True
            return
        self._send(answer)

    def do_GET(self) -> None:
        """Pass a request on as a POST is."""
        self.do_POST()

    def do_PUT(self) -> None:
        """Pass a request on as a POST is."""
        self.do_POST()

    def _kill(self) -> None:
        self.close_connection = True
        self.server.kill(self.client_address[1])

    def _forward(self, body: bytes) -> _Answer:
        # A connection for each request: one that had been kept could break after the request has
        # arrived, and to send it once more would be a call that nobody made.
        connection = http.client.HTTPConnection(HOST, self.server.upstream, timeout=_TIMEOUT_S)
        try:
            connection.request(self.command, self.path, body, _kept(self.headers.items()))
            answer = connection.getresponse()
            headers = _kept(answer.getheaders())
            return _Answer(answer.status, answer.reason, headers, answer.read())
        finally:
            connection.close()

    def _send(self, answer: _Answer) -> None:
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)


def _kept(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {name: value for name, value in headers if name.lower() not in _BETWEEN_HOPS}
