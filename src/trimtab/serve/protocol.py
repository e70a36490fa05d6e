"""How answers are written to a connection: head and body at once."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

__all__ = ["Joined", "protocol"]


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


def protocol() -> type[asyncio.Protocol] | Literal["auto"]:
    """What uvicorn is to speak HTTP with: by httptools, with answers in one piece; its own choice without that."""
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:
        return "auto"

    class Protocol(HttpToolsProtocol):
        def connection_made(self, transport: Any) -> None:
            joined: Any = Joined(transport, self.loop)
            super().connection_made(joined)

    return Protocol
