"""Turns: requests of one session use a part of the server's threads at most, so that others find one while it is busy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["Turns"]


class _Gate:
    """Of one session; `n` requests are inside or wait."""

    def __init__(self, most: int) -> None:
        self.inside = asyncio.Semaphore(most)
        self.n = 0


class Turns:
    """Used by one event loop.

    Args:
        most: requests of one session that are in a thread at once; the others wait without one.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._gates: dict[str, _Gate] = {}

    def __len__(self) -> int:
        """Sessions with requests under way: names that clients make up are not kept."""
        return len(self._gates)

    @asynccontextmanager
    async def of(self, name: str) -> AsyncIterator[None]:
        """While a request of the session of that name is in a thread."""
        gate = self._gates.setdefault(name, _Gate(self._most))
        gate.n += 1
        try:
            async with gate.inside:
                yield
        finally:
            gate.n -= 1
            if gate.n == 0:
                del self._gates[name]
