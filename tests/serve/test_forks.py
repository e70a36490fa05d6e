"""A program of Python that forks: each of its processes is a client with connections of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from trimtab.client import Server

_BEST = {"config": {"x": 1}, "gain": 1.0, "is_proven": False}

_PROGRAM = """
import os, sys
from trimtab.client import Server

with Server(sys.argv[1], "a token", patience_s=0) as server:
    session = server.join("s")
    point = session.fetch()
    for what in ("measures", "ends", "reports"):
        if os.fork() == 0:
            if what == "measures":
                session.fetch()
            if what == "reports":
                point.report(1.0)
            sys.exit()
        os.wait()
"""


class Playing(BaseHTTPRequestHandler):
    """Takes every client in and hands out points; keeps what was asked, over which connection."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """As `trimtab serve` does."""
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        what, asked = self.path.rpartition("/")[2], self.server.asked  # type: ignore[attr-defined]
        answer = {"state": "point", "ticket": "1.0.1.x", "config": {"x": 1}, "role": "search", "effort": "quick"}
        if what == "clients":
            answer = {"client": f"c{sum(each[0] == 'clients' for each in asked)}"}
        asked.append((what, body.get("client", ""), self.client_address[1]))
        data = json.dumps({**answer, "best": _BEST}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_DELETE(self) -> None:
        """The same."""
        self.do_POST()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Nothing."""


@pytest.fixture
def playing() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Playing) as server:
        server.asked = []  # type: ignore[attr-defined]
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_a_process_that_is_forked_is_a_client_with_connections_of_its_own(playing: ThreadingHTTPServer) -> None:
    """Over shared ones each process would read what is meant for the other; and who ends would take the other's point away."""
    url = f"http://127.0.0.1:{playing.server_port}"
    done = subprocess.run([sys.executable, "-c", _PROGRAM, url], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    asked = playing.asked  # type: ignore[attr-defined]
    assert [each[:2] for each in asked] == [
        ("clients", ""), ("fetch", "c0"),
        ("clients", ""), ("fetch", "c1"), ("c1", ""),
        ("report", "c0"),
        ("c0", ""),
    ]  # fmt: skip
    (ours, ours_too, *measuring, reporting, last) = [port for _, _, port in asked]
    assert ours == ours_too == last
    assert len({ours, *measuring, reporting}) == 3


def test_who_was_not_forked_keeps_its_connection(playing: ThreadingHTTPServer) -> None:
    with Server(f"http://127.0.0.1:{playing.server_port}", "a token", patience_s=0) as server:
        session = server.join("s")
        session.fetch()
        session.leave()
    assert len({port for _, _, port in playing.asked}) == 1  # type: ignore[attr-defined]
