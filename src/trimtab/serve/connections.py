"""Connections: how many a server has, and which of them have borne no token yet, so that idle ones keep nobody else out."""

from __future__ import annotations

import resource
from collections.abc import Callable
from contextlib import suppress

__all__ = ["Address", "Connections"]

Address = tuple[str, int]

_MOST = 2000
_FILES = 256
"""Descriptors for everything else: the history, logs, studies that are started."""
_LEAST = 16
_IDLE_S = 60.0


class Connections:
    """Those of one server; used by its event loop.

    A connection is a stranger until a request with the token has come over it. Half of all may be strangers: one more closes the
    oldest of them, so that whoever opens many and sends nothing only takes places from himself.

    Args:
        most: connections at once.
        idle_s: seconds without a whole request after which one is closed.
    """

    def __init__(self, most: int = _MOST, idle_s: float = _IDLE_S) -> None:
        self._most, self.idle_s = most, idle_s
        self._n = 0
        self._strangers: dict[Address, Callable[[], object]] = {}

    @classmethod
    def of_this_process(cls) -> Connections:
        """As many as there are file descriptors for; the process is given more of them where the system allows it."""
        (soft, hard), wanted = resource.getrlimit(resource.RLIMIT_NOFILE), _MOST + _FILES
        if soft != resource.RLIM_INFINITY and soft < wanted:
            most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            with suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return cls(_MOST if soft == resource.RLIM_INFINITY else max(_LEAST, min(_MOST, soft - _FILES)))

    @property
    def are_too_many(self) -> bool:
        """Whether requests are to be refused."""
        return self._n > self._most

    def made(self, address: Address | None, close: Callable[[], object]) -> None:
        """One was opened by a client at `address` (None: it has gone again); `close` closes it."""
        self._n += 1
        if address is not None:
            self._strangers[address] = close
        while len(self._strangers) > self._most // 2:
            self._strangers.pop(next(iter(self._strangers)))()

    def shaken(self, address: Address | None, close: Callable[[], object]) -> None:
        """The handshake of that one is done: `close` closes it from now on."""
        if address in self._strangers:
            self._strangers[address] = close

    def known(self, address: Address | None) -> None:
        """A request from there bore the token."""
        if address is not None:
            self._strangers.pop(address, None)

    def lost(self, address: Address | None) -> None:
        """That one is closed."""
        self._n -= 1
        self.known(address)
