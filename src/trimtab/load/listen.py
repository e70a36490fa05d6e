"""Listener: starts a generator for everybody who knows the token, each in a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from trimtab.load.token import TokenError, admit

__all__ = ["TOKEN", "Listener"]

TOKEN = "TRIMTAB_LOAD_TOKEN"
"""The environment variable that holds the token, on both sides."""

_ENTER_S = 10.0
_BACKLOG = 16
_PAUSE_S = 1.0
"""After a connection that the system did not let us take: it has no descriptor left, for instance."""
_MOST_STRANGERS = 64
"""Connections at once that have not shown the token yet; one more is closed."""


class Listener:
    """Listens on construction; `serve` never returns.

    Args:
        host: address to listen on.
        port: 0 for a free one.
        token: that a client must know.
        tell: gets a line of text about who came and what became of it.

    Raises:
        OSError: the port cannot be had.
    """

    def __init__(self, host: str, port: int, token: str, tell: Callable[[str], None]) -> None:
        self._token, self._tell = token, tell
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        self.port = int(self._socket.getsockname()[1])
        self._room = threading.BoundedSemaphore(_MOST_STRANGERS)

    def serve(self) -> None:
        """Takes one client after the other; loads run beside each other."""
        while True:
            try:
                connection, (host, *_) = self._socket.accept()
            except OSError as error:
                self._tell(f"a connection could not be taken: {error.strerror or error}")
                time.sleep(_PAUSE_S)
                continue
            if self._room.acquire(blocking=False):
                threading.Thread(target=self._meet, args=(connection, host), daemon=True).start()
            else:
                connection.close()

    def _meet(self, connection: socket.socket, host: str) -> None:
        with connection:
            connection.settimeout(_ENTER_S)
            try:
                admit(connection, self._token)
            except (TokenError, OSError) as error:
                self._tell(f"{host} was refused: {error}")
                return
            finally:
                self._room.release()
            connection.settimeout(None)
            environment = {name: value for name, value in os.environ.items() if name != TOKEN}
            try:
                child = subprocess.Popen(
                    [sys.executable, "-m", "trimtab.load"],
                    stdin=connection.fileno(),
                    stdout=connection.fileno(),
                    env=environment,
                )
            except OSError as error:
                self._tell(f"{host} gets no generator: {error.strerror or error}")
                return
        self._tell(f"{host} has a generator, process {child.pid}")
        self._tell(f"process {child.pid} ended with exit status {child.wait()}")
