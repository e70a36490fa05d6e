"""What the operations tell that still ran when a run of many short ones was stopped.

They are few beside those that ended, unless operations take seconds, or the server hangs: a log that forgot them would show too
little throughput in the first case, and no long latency in the second. Both rules are those of a `QueryLog` (see `credit` and
`summary`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trimtab.measure.credit import expected_share
from trimtab.measure.second_log import Buckets, SecondLog

__all__ = ["hanging", "unfinished_credit"]

Floats = NDArray[np.float64]

_US_PER_S = 1e6


def unfinished_credit(log: SecondLog) -> Floats:
    """(k,) for each second of the run, what the operations that still ran did of their work in it: the share of a whole one that
    those of the same label had done after as long, on average; 1 in all where none was longer."""
    edges = np.arange(len(log.credited) + 1, dtype=np.float64)
    credit = np.zeros(len(log.credited))
    for label in np.unique(log.unfinished.label):
        mine, done = (part.where(part.label == label) for part in (log.unfinished, log.service))
        order = np.argsort(done.value_us)
        elapsed_s = np.minimum(mine.value_us / _US_PER_S, log.duration_s)
        share = expected_share(elapsed_s, done.value_us[order] / _US_PER_S, done.count[order].astype(np.float64))
        start_s = log.duration_s - elapsed_s
        for start, length, each in zip(start_s, elapsed_s, share * mine.count, strict=True):
            inside = np.clip(np.minimum(edges[1:], log.duration_s) - np.maximum(edges[:-1], start), 0.0, None)
            credit += each * inside / length if length > 0 else 0.0
    return credit


def hanging(log: SecondLog, high: int) -> Buckets:
    """Those that ran at second `high`, the window's end, and had run longer than every completed one of their label when the run
    was stopped: they took at least as long as that."""
    longest = np.zeros(max(len(log.labels), 1))
    np.maximum.at(longest, log.response.label, log.response.value_us)
    running = log.unfinished
    ran_then = log.duration_s - running.value_us / _US_PER_S < high
    found = running.where(ran_then & (running.value_us > longest[running.label]))
    return Buckets(np.full(len(found), high - 1, dtype=np.int64), found.label, found.value_us, found.count)
