"""A way to the emulator that carries a request out and loses its answer."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


class LossyWay:
    """A proxy in front of `endpoint_url`. `lose(n)` swallows the next `n` answers."""

    def __init__(self, endpoint_url: str) -> None:
        self._target = urlsplit(endpoint_url)
        self._lock = threading.Lock()
        self._to_lose = 0
        self.requests = 0
        way = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, headers, answer = way._forward(self.path, dict(self.headers), body)
                if way._takes_it():
                    self.close_connection = True
                    return
                self.send_response(status)
                for name, value in headers:
                    if name.lower() not in ("content-length", "transfer-encoding", "date"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                del format, args

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    @property
    def endpoint_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def lose(self, answers: int) -> None:
        with self._lock:
            self._to_lose = answers

    @contextmanager
    def open(self) -> Iterator["LossyWay"]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()

    def _takes_it(self) -> bool:
        with self._lock:
            self.requests += 1
            if self._to_lose:
                self._to_lose -= 1
                return True
            return False

    def _forward(
        self, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(self._target.netloc, timeout=30)
        try:
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()
