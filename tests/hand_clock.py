"""A clock that a test moves by hand: no busy machine decides how long something waits."""

from __future__ import annotations

__all__ = ["HandClock"]


class HandClock:
    """Stands for the module `time`: seconds pass only when somebody sleeps."""

    def __init__(self, now_s: float = 0.0) -> None:
        self.now_s = now_s

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
