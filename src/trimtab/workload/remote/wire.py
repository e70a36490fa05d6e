"""Wires: the streams to and from a generator that was started as a command, or that listens on a port."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from typing import IO, Protocol

from trimtab.errors import LoadError
from trimtab.load.listen import TOKEN
from trimtab.load.token import MIN_CHARACTERS, TokenError, enter
from trimtab.load.wiredtiger import LOAD
from trimtab.workload.remote.place import Place

__all__ = ["Wire", "open_wire"]

_CONNECT_S = 10.0
_ALIVE_S = 5


class Wire(Protocol):
    """Streams to and from a generator."""

    @property
    def incoming(self) -> IO[bytes]:
        """Of messages from it."""

    @property
    def outgoing(self) -> IO[bytes]:
        """Of messages to it."""

    @property
    def errors(self) -> IO[bytes] | None:
        """What it says besides; None where that does not come to us."""

    @property
    def hint(self) -> str:
        """How a person finds out why it does not start."""

    @property
    def fate(self) -> str:
        """What became of a generator that has ended, in few words."""

    def end(self, patience_s: float) -> None:
        """Ends the generator, which leaves by itself when nobody directs it; after so many seconds in another way. Idempotent."""


class _Command:
    """A process of ours, whatever it reaches."""

    def __init__(self, place: Place) -> None:
        self.hint = f"try it by hand: {' '.join(place.argv)} --version"
        try:
            # A session of its own: Ctrl-C in a terminal is ours to handle.
            self._process = subprocess.Popen(
                place.argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise LoadError(
                f"the load generator from={place} cannot be started: {error}", hint=f"is {place.argv[0]} installed?"
            ) from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.outgoing, self.incoming, self.errors = self._process.stdin, self._process.stdout, self._process.stderr

    @property
    def fate(self) -> str:
        return f"exit status {self._process.returncode}"

    def end(self, patience_s: float) -> None:
        with contextlib.suppress(OSError):
            self.outgoing.close()
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            # All of its session, which it leads.
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


class _Connection:
    """A generator that listens."""

    errors = None
    fate = "the connection was closed"

    def __init__(self, place: Place) -> None:
        self.hint = f"start it there: {TOKEN}=... python3 -m trimtab.load --listen 0.0.0.0:{place.port}"
        token = os.environ.get(TOKEN, "")
        if len(token) < MIN_CHARACTERS:
            raise LoadError(
                f"the load generator from={place} needs a token, and {TOKEN} has {len(token)} characters",
                hint=f"set {TOKEN} to the same {MIN_CHARACTERS} or more characters here and there",
            )
        try:
            self._socket = _entered(place, token)
        except (OSError, TokenError) as error:
            raise LoadError(f"the load generator from={place} cannot be used: {error}", hint=self.hint) from error
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A machine that is gone says nothing.
        for option, value in (
            (socket.TCP_KEEPIDLE, _ALIVE_S),
            (socket.TCP_KEEPINTVL, _ALIVE_S),
            (socket.TCP_KEEPCNT, 3),
        ):
            self._socket.setsockopt(socket.IPPROTO_TCP, option, value)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.incoming, self.outgoing = self._socket.makefile("rb"), self._socket.makefile("wb")

    def end(self, patience_s: float) -> None:
        # The generator sees the end and leaves; whoever reads here, too.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self.outgoing.close()
        self._socket.close()


class _InEngine:
    """The process of an engine, which becomes a generator."""

    errors = None
    fate = "the engine's process has ended"

    def __init__(self, place: Place) -> None:
        self.hint = "see the target's log"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(place.socket)
            self._socket.sendall(LOAD)
        except OSError as error:
            self._socket.close()
            raise LoadError(
                f"the load cannot run in {place}: socket={place.socket}: {error.strerror or error}", hint=self.hint
            ) from error
        self.incoming, self.outgoing = self._socket.makefile("rb"), self._socket.makefile("wb")

    def end(self, patience_s: float) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self.outgoing.close()
        self._socket.close()


def _entered(place: Place, token: str) -> socket.socket:
    connection = socket.create_connection((place.host, place.port), _CONNECT_S)
    try:
        enter(connection, token)
    except BaseException:
        connection.close()
        raise
    return connection


def open_wire(place: Place) -> Wire:
    """Starts the generator, or reaches the one that listens.

    Raises:
        LoadError: that is not possible.
    """
    if place.socket:
        return _InEngine(place)
    return _Connection(place) if place.is_listening else _Command(place)
