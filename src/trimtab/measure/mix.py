"""Whether a run was one workload or two: the shares of its operation types in the first and in the second half."""

from __future__ import annotations

import math

import numpy as np

from trimtab.measure.measurement import Measurement
from trimtab.measure.second_log import SecondLog

__all__ = ["mix_shift"]

_LEAST_OPERATIONS = 500
"""In each half: with fewer, chance alone moves the shares."""


def mix_shift(measurement: Measurement) -> float:
    """Hellinger distance, in [0, 1], between the shares of the operation types in the two halves of the window.

    0 when the raw log is gone, is one of long operations (whose order is the mix), or holds fewer than 500 operations
    in a half. Failed operations count by what they were.
    """
    log = measurement.log
    if not isinstance(log, SecondLog) or len(log.labels) < 2:
        return 0.0
    low, high = (int(end) for end in measurement.window_s)
    middle = (low + high) // 2
    halves = [_counts(log, start, end) for start, end in ((low, middle), (middle, high))]
    if min(half.sum() for half in halves) < _LEAST_OPERATIONS:
        return 0.0
    first, second = (half / half.sum() for half in halves)
    return math.sqrt(max(0.0, 1.0 - float(np.sqrt(first * second).sum())))


def _counts(log: SecondLog, start: int, end: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    total = np.zeros(len(log.labels))
    for buckets in (log.response.within(start, end), log.error.within(start, end)):
        total += np.bincount(buckets.label, buckets.count, minlength=len(log.labels))
    return total
