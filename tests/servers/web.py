"""A small web site within the test's process: pages with cookies, forms, redirects, errors and delays."""

from __future__ import annotations

import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["Site", "site"]


class Site(ThreadingHTTPServer):
    """What it was asked: requests by line, and connections."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: Counter[str] = Counter()
        self.n_connections = 0
        self.lock = threading.Lock()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])

    def handle_error(self, request: object, client_address: object) -> None:
        """A client may leave when it wants."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Site

    def setup(self) -> None:
        super().setup()
        with self.server.lock:
            self.server.n_connections += 1

    def do_GET(self) -> None:
        path = self._count()
        if path == "/home" and "id=7" not in self.headers.get("Cookie", ""):
            self._send(403, "who are you?")
        elif path == "/slow":
            time.sleep(3.0)
            self._send(200, "at last")
        elif path == "/old":
            self._send(301, "", ("Location", f"http://127.0.0.1:{self.server.port}/"))
        elif path == "/away":
            self._send(302, "", ("Location", "http://other.example/"))
        elif path == "/last":
            self._send(200, "bye", ("Connection", "close"))
        elif path in ("/missing", "/broken"):
            self._send(404 if path == "/missing" else 500, "sorry")
        else:
            self._send(200, f"<p>Welcome to {path}</p>" + "x" * 1000)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
        self._count()
        if body == "user=me":
            self._send(303, "", ("Location", "/home"), ("Set-Cookie", "id=7; Path=/"))
        else:
            self._send(400, "what?")

    def _count(self) -> str:
        path = self.path.partition("?")[0]
        with self.server.lock:
            self.server.asked[f"{self.command} {path}"] += 1
        return path

    def _send(self, status: int, text: str, *headers: tuple[str, str]) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in (("Content-Length", str(len(body))), *headers):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Not on the test's terminal."""


@contextmanager
def site(tls: ssl.SSLContext | None = None) -> Iterator[Site]:
    """A site that serves until the block is left."""
    with Site() as mine:
        if tls is not None:
            mine.socket = tls.wrap_socket(mine.socket, server_side=True)
        thread = threading.Thread(target=mine.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield mine
        finally:
            mine.shutdown()
            thread.join()
