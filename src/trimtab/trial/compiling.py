"""Compiling: whether tiers still compile what a load runs, as Java does.

A machine that compiles in threads of its own is several times slower until the last of its code is compiled, and its throughput
may look steady meanwhile. Under a load that takes all cores these threads get as little of them as any other: on two cores
Cassandra needed 70 s of load, of which the compiler had 17. So a warm-up pauses now and then, and they work alone.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from trimtab.systems import CompilingTarget

if TYPE_CHECKING:
    from trimtab.systems import Tier

__all__ = ["Compiling"]

_SPAN_S = 5.0
_LEAST_S = 3.0
_BUSY = 0.08
"""Share of a core over `_SPAN_S` of a load: code that is compiled late, now and then, takes less; a compiler that waits for a
core among a load's threads takes more."""

_PAUSE_SPAN_S = 0.25
_BUSY_ALONE = 0.3
"""The same in a pause: what there is to compile takes a whole core then."""

_LITTLE_S = 0.15
"""CPU seconds of a compiler with little to do, in a short load and the pause after it."""


class Compiling:
    """See the module; of those tiers that are looked at.

    Args:
        tiers: whose targets are `CompilingTarget`s.
        now, sleep: of time.
    """

    def __init__(
        self,
        tiers: Sequence[Tier],
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._targets = [tier.target for tier in tiers if isinstance(tier.target, CompilingTarget)]
        self._now, self._sleep = now, sleep
        self._seen: deque[tuple[float, float]] = deque()

    @property
    def has_seen_enough(self) -> bool:
        """Whether `is_busy` knows, or only assumes."""
        return bool(self._seen) and self._seen[-1][0] - self._seen[0][0] >= _LEAST_S

    def is_busy(self) -> bool:
        """Whether the last seconds of the load were compiled in; asked once a second. True while too little was seen."""
        self._seen.append((self._now(), self.total_s()))
        while len(self._seen) > 1 and self._seen[-1][0] - self._seen[1][0] >= _SPAN_S:
            self._seen.popleft()
        seconds = self._seen[-1][0] - self._seen[0][0]
        return not self.has_seen_enough or self._seen[-1][1] - self._seen[0][1] > _BUSY * seconds

    def pause(self, most_s: float, is_interrupted: Callable[[], bool] = lambda: False) -> None:
        """Waits until nothing is left to compile, `most_s` at most."""
        until, before = self._now() + most_s, self.total_s()
        while self._now() < until and not is_interrupted():
            self._sleep(_PAUSE_SPAN_S)
            now = self.total_s()
            if now - before < _BUSY_ALONE * _PAUSE_SPAN_S:
                return
            before = now

    def has_done_little(self, since_s: float) -> bool:
        """Whether next to nothing was compiled since `total_s` was `since_s`."""
        return self.total_s() - since_s <= _LITTLE_S

    def total_s(self) -> float:
        """CPU seconds that were compiled for so far."""
        return sum(target.compile_s() or 0.0 for target in self._targets)
