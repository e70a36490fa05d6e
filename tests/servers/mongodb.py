"""A private server of MongoDB's protocol: SecantusDB, which keeps its data in WiredTiger. It is no mongod."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["private_mongodb"]

_WAIT_S = 120.0


@contextmanager
def private_mongodb(folder: Path, *options: str) -> Iterator[int]:
    """Its port; it ends when the block is left."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    log = folder / "server.log"
    argv = [
        sys.executable,
        "-m",
        "secantus",
        "--port",
        str(port),
        "--standalone",
        "--storage-path",
        str(folder / "data"),
    ]
    with log.open("wb") as out, subprocess.Popen([*argv, *options], stdout=out, stderr=out) as server:
        try:
            deadline = time.monotonic() + _WAIT_S
            while not _listens(port):
                if server.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(log.read_text(errors="replace"))
                time.sleep(0.05)
            yield port
        finally:
            server.terminate()
            try:
                server.wait(_WAIT_S)
            except subprocess.TimeoutExpired:
                server.kill()  # Popen would wait for it for ever
                raise


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
