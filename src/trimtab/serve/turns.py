"""Turns: requests of one session use a part of the server's threads at most, so that others find one while it is busy; and what
may take seconds has threads of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cached_property
from typing import TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

__all__ = ["Pool", "Turns"]

T = TypeVar("T")


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


class Pool(Turns):
    """Turns for what may take seconds: one of each name at a time, and all names together in a few threads of their own.

    Args:
        most: threads.
    """

    def __init__(self, most: int) -> None:
        super().__init__(1)
        self._most_threads = most

    @cached_property
    def _limiter(self) -> CapacityLimiter:
        """Made when the loop runs: not every version of the library makes one before."""
        return CapacityLimiter(self._most_threads)

    async def run(self, call: Callable[[], T]) -> T:
        """What `call` gives, in one of these threads; for whoever has its turn."""
        return await run_sync(call, limiter=self._limiter)
