"""Pace: how many operations each second of a load tells of, so that no test takes seconds for more evidence than they are."""

from __future__ import annotations

import math

from trimtab.workload import Frame

__all__ = ["Pace"]


class Pace:
    """Fed with every second of one run, from its start.

    A second tells of the operations that ended in it. One in which none ended tells of nothing as long as the one that runs may
    take no longer than the baseline's longest, and then of as many as the baseline would have ended: they hang.

    Args:
        per_s: operations that the baseline ends in a second; 0: not known.
        longest_s: the longest of its operations.
    """

    def __init__(self, per_s: float = 0.0, longest_s: float = math.inf) -> None:
        self._per_s, self._longest_s = per_s, longest_s
        self._has_ended = False
        self._silent_s = 0

    def take(self, frame: Frame) -> float | None:
        """Operations that the second tells of; None while the first of all may still run: its rate is not known either."""
        n = frame.n_ok + frame.n_error + frame.n_timed_out
        self._has_ended |= n > 0
        self._silent_s = 0 if n else self._silent_s + 1
        if n:
            return float(n)
        if self._silent_s > self._longest_s:
            return self._per_s
        return 0.0 if self._has_ended else None
