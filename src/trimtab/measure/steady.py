"""When warm-up ends: by a rule on the series itself, not after a magic number of seconds.

The rule is MSER: drop as many leading values as make the mean of the rest most certain. White (1997), "An effective
truncation heuristic for bias reduction in simulation output", Simulation 69(6); White, Cobb & Spratt (2000)
for the version on batches of five (MSER-5).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import UsageError

__all__ = ["SteadyDetector", "warmup_end"]

Floats = NDArray[np.float64]

_BATCH = 5
_MIN_BATCHES = 10
"""MSER-5 needs at least this many batches; with fewer values the batches are made smaller."""

_MIN_TAIL = 4
"""Frames that must remain after the cut before the series is called steady: two halves of two."""

_TOLERANCE = 0.02
"""Halves of the tail that differ by less than this share of the mean are level, however small their noise is."""

_MAX_Z = 2.0
"""Halves of the tail that differ by more than this many standard errors are not level."""

_RISE, _RISE_Z = 0.05, 1.0
"""Those that differ by more than this share of the mean must be closer: a large rise may well hide behind large noise."""


def warmup_end(series: Floats, *, batch: int | None = None) -> int:
    """How many leading values of `series` belong to warm-up, at most half of them.

    Args:
        series: (k,) equally spaced values, for instance credited throughput of each second.
        batch: values averaged before the search; by default 5 (MSER-5) from 50 values on and less below, so that
            one-second frames of a short run can be used.
    """
    k = len(series)
    size = max(1, min(_BATCH, k // _MIN_BATCHES)) if batch is None else batch
    m = k // size
    if m < 2:
        return 0
    means = series[: m * size].reshape(m, size).mean(axis=1)
    n_left = np.arange(m, 0, -1)
    reverse_sum = np.cumsum(means[::-1])[::-1]
    centred = np.cumsum((means[::-1] - means.mean()) ** 2)[::-1]
    squares = centred - n_left * (reverse_sum / n_left - means.mean()) ** 2
    score = np.maximum(squares, 0.0) / n_left.astype(np.float64) ** 2
    # White: an optimum in the second half says that the run is too short, so it is not looked for there.
    return int(np.argmin(score[: m // 2 + 1])) * size


class SteadyDetector:
    """Watches the one-second frames of a run and says when warm-up is over.

    Fed with one value per second. The series is steady when MSER cuts less than half of it, what is left is positive,
    at least 4 frames long, and its two halves differ by less than 2 %, than twice their standard error and 5 %, or than once
    their standard error.

        detector = SteadyDetector(floor_s=5, cap_s=60)
        while not detector.update(frame.credited): ...
        window_start = detector.warmup_s     # the frames after it already count

    Not safe for several threads.
    """

    def __init__(self, floor_s: float = 5.0, cap_s: float = 60.0) -> None:
        """Takes the least and the greatest length of warm-up in seconds.

        Raises:
            UsageError: not 0 <= floor_s <= cap_s.
        """
        if not 0 <= floor_s <= cap_s:
            raise UsageError(f"floor_s={floor_s!r} and cap_s={cap_s!r} must hold 0 <= floor_s <= cap_s")
        self._floor_s = floor_s
        self._cap_s = cap_s
        self._frames: list[float] = []
        self._cut: int | None = None

    def update(self, credited: float) -> bool:
        """Takes the next second's value; True once warm-up is over, by rule or by cap. Stays True."""
        if self.is_over:
            return True
        self._frames.append(credited)
        if self.observed_s >= self._floor_s:
            self._cut = _steady_cut(np.asarray(self._frames))
        return self.is_over

    @property
    def observed_s(self) -> float:
        """Seconds seen until the decision."""
        return float(len(self._frames))

    @property
    def is_steady(self) -> bool:
        """Whether the rule found the series steady; False while undecided and when the cap decided."""
        return self._cut is not None

    @property
    def is_over(self) -> bool:
        """Whether warm-up is over, by rule or by cap."""
        return self.is_steady or self.observed_s >= self._cap_s

    @property
    def warmup_s(self) -> float:
        """Where the window may begin: the cut found by the rule, never before the floor; else all that was seen."""
        return self.observed_s if self._cut is None else max(float(self._cut), self._floor_s)


def _steady_cut(frames: Floats) -> int | None:
    cut = warmup_end(frames, batch=1)
    tail = frames[cut:]
    if len(tail) < _MIN_TAIL or (cut > 0 and cut >= len(frames) // 2) or not tail.mean() > 0:
        return None
    half = len(tail) // 2
    first, second = tail[:half], tail[-half:]
    gap = abs(float(second.mean() - first.mean()))
    se = math.sqrt((first.var(ddof=1) + second.var(ddof=1)) / half)
    mean = float(tail.mean())
    return cut if gap <= max(_TOLERANCE * mean, min(_MAX_Z * se, _RISE * mean), _RISE_Z * se) else None
