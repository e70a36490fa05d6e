"""Clients of the benchmark: bare sockets, so that the cores that they share with the server are left to it.

Each has a connection that is kept open, sends one request, waits for its whole answer and reads that as JSON before it sends the
next one, as any client does.
"""

from __future__ import annotations

import json
import os
import resource
import selectors
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

TOKEN = "a-token-of-the-benchmark"
KNOBS = [{"name": name, "kind": "integer", "low": 0, "high": 10**6, "default": 1} for name in "abcd"]


class Client:
    """One connection."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self.socket = socket.create_connection((str(place.hostname), place.port or 80), timeout=120)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._headers = f"Host: {place.netloc}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
        self._seen = b""

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        """As it goes out."""
        head = f"{method} /api/v1{path} HTTP/1.1\r\n{self._headers}Content-Length: {len(body)}\r\n\r\n"
        return head.encode() + body

    def received(self) -> Any:
        """What there is of the answer is read; the answer as JSON values once it is whole, else None."""
        data = self.socket.recv(1 << 16)
        assert data, "the server has closed the connection"
        self._seen += data
        head, end, body = self._seen.partition(b"\r\n\r\n")
        if not end:
            return None
        length = int(head.lower().partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0])
        if len(body) < length:
            return None
        assert head.startswith(b"HTTP/1.1 2"), self._seen
        self._seen = b""
        return json.loads(body)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """What the server answers, as JSON values."""
        self.socket.sendall(self.request(method, path, b"" if body is None else json.dumps(body).encode()))
        while (found := self.received()) is None:
            pass
        return found


class Tuned(Client):
    """A client with a session of its own, which takes `n` trials and more: a study takes its baseline one run at a time."""

    def __init__(self, url: str, name: str, n: int) -> None:
        super().__init__(url)
        spec = {
            "name": name,
            "knobs": KNOBS,
            "searcher": "random",
            "budget": f"{n} trials",
            "patience": n,
            "proof": False,
        }
        self.ask("POST", "/sessions", spec)
        self._id = str(self.ask("POST", f"/sessions/{name}/clients", {"name": "bench"})["client"])
        self._name, self.n_reports = name, 0
        self._fetch = self.request("POST", f"/sessions/{name}/fetch", json.dumps({"client": self._id}).encode())

    def fetch(self) -> None:
        """Asks for the next point."""
        self.socket.sendall(self._fetch)

    def go_on(self) -> bool:
        """With what there is to be read: a point is reported at once; whether its report is acknowledged now."""
        found = self.received()
        if found is None:
            return False
        if "outcome" in found:
            self.n_reports += 1
            return True
        said = {"client": self._id, "ticket": found["ticket"], "value": 100.0 + self.n_reports % 7}
        self.socket.sendall(self.request("POST", f"/sessions/{self._name}/report", json.dumps(said).encode()))
        return False

    def trial(self) -> None:
        """One fetch and its report."""
        self.fetch()
        while not self.go_on():
            pass


def in_turns(clients: Sequence[Tuned], n: int) -> None:
    """`n` trials of each of `clients`, all at the same time, each waiting for its own answers only."""
    with selectors.DefaultSelector() as waiting:
        for each in clients:
            waiting.register(each.socket, selectors.EVENT_READ, each)
            each.fetch()
        while waiting.get_map():
            for key, _ in waiting.select():
                client: Tuned = key.data
                if not client.go_on():
                    continue
                if client.n_reports < n:
                    client.fetch()
                else:
                    waiting.unregister(client.socket)


def many(url: str, n_clients: int, n: int, ready: Any, go: Any, found: Any) -> None:
    """A process of clients with `n` trials each; `found` is told the seconds and the CPU seconds that it took."""
    clients = [Tuned(url, f"many{i}", n + 10) for i in range(n_clients)]
    ready.release()
    go.wait()
    began, cpu_s = time.perf_counter(), own_cpu_s()
    in_turns(clients, n)
    found.put((time.perf_counter() - began, own_cpu_s() - cpu_s))


def own_cpu_s() -> float:
    """CPU seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def cpu_s(pid: int) -> float:
    """CPU seconds of another process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
