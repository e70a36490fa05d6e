"""What this server adds to the protocol: head and body of an answer go out at once, a connection without a whole request is
closed after a while, and so is one whose head is too long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

from trimtab.serve.connections import Connections
from trimtab.serve.problem import problem

__all__ = ["Joined", "protocol"]

_MOST_HEAD = 1 << 16
"""Bytes of a request before or behind its body, as uvicorn's other parser has it: they are kept before anybody knows who sends
them."""


def _bound(n_bytes: int, transport: Any, cycle: Any) -> None:
    """Closes the connection of a head that is too long, and says so where no other answer is under way (`cycle`)."""
    if n_bytes <= _MOST_HEAD:
        return
    if (cycle is None or cycle.response_complete) and not transport.is_closing():
        transport.write(_too_long())
    transport.close()


def _count(connections: Connections, spoken: Any, close: Callable[[], object]) -> None:
    """A connection that can be spoken over now; with TLS it was counted when it arrived."""
    count = connections.made if spoken.scheme == "http" else connections.shaken
    count(spoken.client, close)


def _too_long() -> bytes:
    answer = problem(431, f"the head of the request is longer than {_MOST_HEAD} bytes", "send fewer or shorter headers")
    lines = (b"%s: %s\r\n" % header for header in answer.raw_headers)
    head = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n"
    return b"".join((head, *lines, b"\r\n", answer.body))


class Joined:
    """A transport that sends the head of an answer with its body, which the server hands over one after the other.

    Each is a call of the system and a packet else, and a client may be woken twice. A head without a body goes out at the end of
    the loop's turn. Everything else is the transport's own.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._head = b""

    def write(self, data: bytes) -> None:
        """Sends it, or holds it if it may be a head."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.endswith(b"\r\n\r\n"):
            self._head = data
            self._loop.call_soon(self._flush)
            return
        self._transport.write(data)

    def close(self) -> None:
        """Sends what is held, and closes the connection."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            data, self._head = self._head, b""
            if not self._transport.is_closing():
                self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def protocol(connections: Connections) -> type[asyncio.Protocol] | Literal["auto"]:
    """What uvicorn is to speak HTTP with: by httptools, as above; its own choice without that, which watches no connection."""
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:
        return "auto"

    class Protocol(HttpToolsProtocol):
        _is_whole = False
        _n_bare = 0
        _closing: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            joined: Any = Joined(transport, self.loop)
            super().connection_made(joined)
            _count(connections, self, transport.close)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            connections.lost(self.client)
            self._is_whole = True
            self._watch()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            self._n_bare += len(data)
            super().data_received(data)
            _bound(self._n_bare, self.transport, self.cycle)
            if self._is_whole == (self._closing is not None):
                self._watch()

        def on_message_begin(self) -> None:
            self._is_whole, self._n_bare = False, 0
            super().on_message_begin()

        def on_body(self, body: bytes) -> None:
            self._n_bare = 0
            super().on_body(body)

        def on_message_complete(self) -> None:
            self._is_whole = True
            super().on_message_complete()

        def _watch(self) -> None:
            """A request is to be whole in time, however slowly it comes; between two of them uvicorn's own timer runs."""
            if self._closing is not None:
                self._closing.cancel()
                self._closing = None
            if not self._is_whole:
                self._closing = self.loop.call_later(connections.idle_s, self.transport.close)

    return Protocol
