"""Credits every successful operation to the time in which it ran, not to the instant in which it committed.

Counting commits makes the throughput of long queries jump with the position of the window's edges: a query that ran
9 s in one window and 1 s in the next counts wholly for the next (Zhou 2013, section 5.4.1, "the sampling problem").
Here an operation of duration T that overlaps a bin by u seconds gives the bin u / T.

    symbol   meaning                                              shape
    w        credit of an operation over its whole run, in [0, 1]  (n,)
    edges    bin edges in seconds since the run's start            (k + 1,)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import LoadError, UsageError
from trimtab.measure.measurement import Outcome, QueryLog

__all__ = ["credit_in_window", "credited_bins", "credited_series", "expected_share", "operation_credit"]

Floats = NDArray[np.float64]

_EDGE_TOLERANCE = 1e-9
"""Share of a bin by which a run may fall short and its last bin still count as whole (rounding of 0.1 * 30)."""


def operation_credit(log: QueryLog) -> Floats:
    """The credit w of every operation over its whole run, shape (n,).

    * OK: 1. ERROR and TIMED_OUT: 0; failed requests are not throughput.
    * CANCELLED after t seconds: the share of its run that was done, t / T with T unknown, is estimated by the mean of
      t / T over the completed operations of the same label with T > t. That is unbiased when the cancelled one is like
      those. When no completed one was longer, it counts as 1, an upper bound: at worst one operation per stream.
    """
    credit: Floats = np.where(log.outcome == Outcome.OK, 1.0, 0.0)
    duration = log.end_s - log.start_s
    for label in np.unique(log.label[log.outcome == Outcome.CANCELLED]):
        of_label = log.label == label
        cut = of_label & (log.outcome == Outcome.CANCELLED)
        done = np.sort(duration[of_label & (log.outcome == Outcome.OK)])
        credit[cut] = expected_share(duration[cut], done, np.ones(len(done)))
    return credit


def expected_share(elapsed: Floats, done: Floats, count: Floats) -> Floats:
    """E[t / T | T > t] for each of `elapsed` over the ascending durations `done`, each of which `count` operations had; 1 where
    none of them is longer."""
    n_shorter = np.searchsorted(done, elapsed, side="right")
    inverse = np.divide(count, done, out=np.zeros(len(done)), where=done > 0)
    # From the longest on, so that no two large sums are subtracted.
    sums, counts = (np.concatenate([np.cumsum(part[::-1])[::-1], [0.0]]) for part in (inverse, count))
    share = elapsed * sums[n_shorter] / np.maximum(counts[n_shorter], 1.0)
    return np.asarray(np.where(counts[n_shorter] > 0, np.minimum(share, 1.0), 1.0), dtype=np.float64)


def credited_bins(log: QueryLog, edges: Floats) -> Floats:
    """Credited operations (not a rate) in every bin, shape (k,), for ascending `edges` of shape (k + 1,).

    Over bins that hold the whole run the sum is the sum of `operation_credit`. An operation of no duration belongs to
    the bin that starts at its instant.
    """
    check_log(log)
    n_bins = len(edges) - 1
    credit = operation_credit(log)
    is_credited = credit > 0
    credit, start, end = credit[is_credited], log.start_s[is_credited], log.end_s[is_credited]
    # Bins 0 and n_bins + 1 take what lies before the first and after the last edge.
    wide = np.concatenate([[-np.inf], edges, [np.inf]])
    first = np.searchsorted(edges, start, side="right")
    last = np.searchsorted(edges, end, side="right")
    within = first == last
    bins = _sum_by_bin(first[within], credit[within], n_bins + 2)

    spans = first < last
    first, last, credit, start, end = first[spans], last[spans], credit[spans], start[spans], end[spans]
    rate = credit / (end - start)
    bins += _sum_by_bin(first, rate * (wide[first + 1] - start), n_bins + 2)
    bins += _sum_by_bin(last, rate * (end - wide[last]), n_bins + 2)
    steps = _sum_by_bin(first + 1, rate, n_bins + 2) - _sum_by_bin(last, rate, n_bins + 2)
    # The steps cancel only up to rounding, which must not leave a negative throughput.
    inside = np.maximum(np.cumsum(steps)[1:-1], 0.0) * np.diff(edges)
    return np.asarray(bins[1:-1] + inside, dtype=np.float64)


def _sum_by_bin(index: NDArray[np.intp], weights: Floats, n_bins: int) -> Floats:
    # Without the cast, numpy returns integers when there is nothing to sum.
    return np.bincount(index, weights, minlength=n_bins).astype(np.float64)


def credited_series(log: QueryLog, bin_s: float = 1.0, until_s: float | None = None) -> Floats:
    """Credited throughput of every whole bin of the run, in operations per second, shape (k,).

    Args:
        log: the run.
        bin_s: width of a bin in seconds, more than 0.
        until_s: where the last bin ends at the latest; the run's duration when None.

    Raises:
        UsageError: `bin_s` is not a positive number.
        LoadError: the log's columns differ in length.
    """
    if not (bin_s > 0 and np.isfinite(bin_s)):
        raise UsageError(f"bin_s={bin_s!r} is not a positive number of seconds", hint="use 1.0")
    until = run_end_s(log) if until_s is None else until_s
    n_bins = max(0, int(np.floor(until / bin_s + _EDGE_TOLERANCE)))
    if n_bins == 0:
        return np.zeros(0)
    return credited_bins(log, np.arange(n_bins + 1, dtype=np.float64) * bin_s) / bin_s


def credit_in_window(log: QueryLog, window_s: tuple[float, float]) -> Floats:
    """The credit of every operation inside the window, shape (n,)."""
    low, high = window_s
    duration = log.end_s - log.start_s
    overlap = np.minimum(log.end_s, high) - np.maximum(log.start_s, low)
    is_instant = duration <= 0
    share = np.clip(overlap, 0.0, None) / np.where(is_instant, 1.0, duration)
    share[is_instant] = ((log.start_s >= low) & (log.start_s < high))[is_instant]
    return np.asarray(operation_credit(log) * share, dtype=np.float64)


def run_end_s(log: QueryLog) -> float:
    """Length of the run in seconds; the last operation's end when the log does not tell."""
    if log.duration_s > 0:
        return log.duration_s
    return float(log.end_s.max()) if len(log) else 0.0


def check_log(log: QueryLog) -> None:
    """Raises LoadError when the columns of `log` differ in length or an operation ends before it starts."""
    lengths = {name: len(getattr(log, name)) for name in ("stream", "label", "start_s", "end_s", "rows", "outcome")}
    if len(set(lengths.values())) > 1:
        raise LoadError(f"the columns of the load's log differ in length: {lengths}", hint="repeat the run")
    if len(log) and not bool(np.all(log.end_s >= log.start_s)):
        raise LoadError("the load's log has operations with end_s < start_s or without times", hint="repeat the run")
