"""Arrivals: a server with TLS counts its connections from when they are made, and not from the end of their handshake."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any

from trimtab.serve.connections import Address, Connections

__all__ = ["Arrivals"]

_PAUSE_S = 0.1
"""Before the next try where no connection can be accepted."""


class Arrivals:
    """Accepts the connections of one server and shakes hands with them; used by its event loop.

    A loop that does both by itself tells nobody of a connection before its handshake is done: whoever opened many and sent
    nothing would have all descriptors of the server for a minute.

    Args:
        listening: where they come.
        context: of TLS.
        connections: counts them.
        made: makes the protocol of one, which tells `connections` when its handshake is done and when it is lost after that.
    """

    def __init__(
        self, listening: socket.socket, context: ssl.SSLContext, connections: Connections, made: Callable[[], Any]
    ) -> None:
        self._listening, self._context, self._connections, self._made = listening, context, connections, made
        self._shaking: set[asyncio.Task[None]] = set()

    async def accept(self) -> None:
        """Goes on until it is cancelled; then nobody listens any more, and handshakes that are under way end."""
        loop = asyncio.get_running_loop()
        self._listening.setblocking(False)
        try:
            while True:
                try:
                    client, address = await loop.sock_accept(self._listening)
                except OSError:  # no descriptor is free, or the client has gone again
                    await asyncio.sleep(_PAUSE_S)
                else:
                    self._arrived(client, (str(address[0]), int(address[1])))
        finally:
            self._listening.close()
            for task in list(self._shaking):
                task.cancel()

    def _arrived(self, client: socket.socket, address: Address) -> None:
        spoken = self._made()
        task = asyncio.get_running_loop().create_task(self._shake_hands(client, spoken))
        self._shaking.add(task)
        task.add_done_callback(partial(self._done, client, address, spoken))
        self._connections.made(address, task.cancel)

    async def _shake_hands(self, client: socket.socket, spoken: Any) -> None:
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: spoken, client, ssl=self._context, ssl_handshake_timeout=self._connections.idle_s
        )

    def _done(self, client: socket.socket, address: Address, spoken: Any, task: asyncio.Task[None]) -> None:
        self._shaking.discard(task)
        if spoken.transport is None:
            client.close()
            self._connections.lost(address)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, OSError):  # else: no TLS, nothing that both know, or too slow
            raise error
