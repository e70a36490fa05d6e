"""From the log of one run to its Measurement: every figure of the window with an interval."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import LoadError
from trimtab.measure.credit import check_log, credit_in_window, credited_bins, credited_series, run_end_s
from trimtab.measure.histogram import encode_latencies
from trimtab.measure.interval import (
    batch_means_interval,
    check_level,
    floored,
    positive,
    ratio_interval,
    student_interval,
)
from trimtab.measure.measurement import Interval, LabelStats, Measurement, Outcome, QueryLog
from trimtab.measure.percentile import percentile_interval
from trimtab.measure.second_log import SecondLog
from trimtab.measure.summary_seconds import PERCENTILES, summarise_seconds
from trimtab.measure.validity import cpu_limit, starvation

__all__ = ["PERCENTILES", "summarise"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_MIN_BINS, _MAX_BINS = 20, 60
_BINS_PER_OPERATION = 3
"""Bins per mean run of an operation: finer ones add no information, coarser ones waste degrees of freedom."""


def summarise(
    log: QueryLog | SecondLog,
    window_s: tuple[float, float],
    warmup_s: float | None = None,
    is_steady: bool = True,
    level: float = 0.95,
) -> Measurement:
    """What `log` shows inside `window_s`. A SecondLog is read as `summarise_seconds` tells; a QueryLog like this:

    * throughput: credited operations per second. The interval is the wider of two: batch means over 20 to 60 bins,
      about three per mean operation, with their autocorrelation; and the scatter of the operations' own durations. When
      nothing succeeded the estimate is 0 and the upper end that of a Poisson count of 0; when nothing was even
      finished, the estimate is the upper end and the lower is 0.
    * latency_mean_ms, latency_ms: over operations that ended in the window (and may have begun before it). Time-outs
      count as censored with their time-out. So does an operation cancelled at the run's end when it had already run
      longer than every completed one of its label: otherwise a config that never finishes its worst query would look
      fast. Errors do not count. NaN, without bounds, when there were none.
    * by_label, histogram: successful operations only.

    Args:
        log: the whole run.
        window_s: (start, end) within the run.
        warmup_s: seconds of warm-up to report; the window's start when None.
        is_steady: whether warm-up ended by rule and not by the cap.
        level: confidence of all intervals.

    Raises:
        LoadError: the window is empty or lies outside the run, or the log's columns do not fit together.
        UsageError: `level` is not inside (0, 1).
    """
    if isinstance(log, SecondLog):
        return summarise_seconds(log, window_s, warmup_s, is_steady, level)
    check_level(level)
    check_log(log)
    _check_window(log, window_s)
    ended = (log.end_s >= window_s[0]) & (log.end_s < window_s[1])
    # What ends with the run itself ends inside a window that reaches to the run's end.
    ended |= (log.end_s >= window_s[1]) & (window_s[1] >= run_end_s(log))
    # The run is stopped some milliseconds after the window's end: what it cancels then has run through that end.
    ended |= (log.outcome == Outcome.CANCELLED) & (log.start_s < window_s[1]) & (log.end_s >= window_s[1])
    edges = np.linspace(*window_s, _n_bins(log, ended, window_s) + 1)
    throughput = _throughput(log, edges, level)
    latency_mean, percentiles = _latencies(log, ended, edges, level)
    wait_share = None if log.wait_s is None else log.wait_s / run_end_s(log)
    is_ok = ended & (log.outcome == Outcome.OK)
    return Measurement(
        window_s=(float(window_s[0]), float(window_s[1])),
        throughput=throughput,
        latency_mean_ms=latency_mean,
        latency_ms=percentiles,
        n_ok=int(is_ok.sum()),
        n_error=int((ended & (log.outcome == Outcome.ERROR)).sum()),
        n_timed_out=int((ended & (log.outcome == Outcome.TIMED_OUT)).sum()),
        is_steady=is_steady,
        warmup_s=float(window_s[0]) if warmup_s is None else warmup_s,
        series_per_s=tuple(credited_series(log).tolist()),
        histogram=encode_latencies((log.end_s - log.start_s)[is_ok]),
        by_label=_by_label(log, ended, edges, level, (throughput, percentiles)),
        client_cpu_share=log.client_cpu_s / run_end_s(log),
        errors=log.errors,
        steal_share=None if log.steal_s is None else log.steal_s / run_end_s(log),
        wait_share=wait_share,
        priority=log.priority,
        generator_limited=cpu_limit(log.client_cpu_s / run_end_s(log), n_threads=1),
        generator_waited=starvation(wait_share),
        log=log,
    )


def _check_window(log: QueryLog, window_s: tuple[float, float]) -> None:
    end = run_end_s(log)
    low, high = window_s
    # Half a second of slack: a window of whole seconds may end a little after a run that was stopped a little early.
    if not 0 <= low < high <= end + 0.5:
        raise LoadError(
            f"window_s=({low:g}, {high:g}) does not lie inside the run of duration_s={end:g}",
            hint="let the load run longer",
        )


def _n_bins(log: QueryLog, ended: Bools, window_s: tuple[float, float]) -> int:
    is_ok = ended & (log.outcome == Outcome.OK)
    mean_s = float((log.end_s - log.start_s)[is_ok].mean()) if is_ok.any() else math.inf
    if mean_s <= 0:
        return _MAX_BINS
    return int(np.clip((window_s[1] - window_s[0]) * _BINS_PER_OPERATION / mean_s, _MIN_BINS, _MAX_BINS))


def _throughput(log: QueryLog, edges: Floats, level: float) -> Interval:
    bins = credited_bins(log, edges)
    length = float(edges[-1] - edges[0])
    if bins.sum() == 0:
        # Upper limit of a Poisson mean after a count of 0 (Hanley & Lippman-Hand 1983, JAMA 249(13)).
        return Interval(0.0, 0.0, -math.log((1 - level) / 2) / length, level)
    credit = credit_in_window(log, (float(edges[0]), float(edges[-1])))
    if not np.any(credit[log.outcome == Outcome.OK]):
        # All credit comes from operations that never ended: an upper bound and nothing else.
        rate = float(bins.sum()) / length
        return Interval(rate, 0.0, rate, level)
    n_done = int(np.count_nonzero(credit[log.outcome == Outcome.OK]))
    batches = batch_means_interval(bins * (len(bins) / length), level, max_dof=n_done - 1)
    renewal = _renewal_interval(log, credit, length, level)
    return positive(max(batches, renewal, key=lambda interval: interval.high - interval.low))


def _renewal_interval(log: QueryLog, credit: Floats, length: float, level: float) -> Interval:
    """Interval of the throughput from the scatter of the operations' own durations, label by label.

    The throughput X of a closed loop with mean duration m has the relative error cv(duration) / sqrt(operations)
    (Cox 1962, Renewal Theory). Operations longer than the window make a flat series that
    batch means take for certain; their number tells that it is not. Infinite when no label completed twice: of the scatter
    nothing is known then.
    """
    n_labels = len(log.labels)
    seen = credit > 0
    done = seen & (log.outcome == Outcome.OK)
    rate = np.bincount(log.label[seen], credit[seen], minlength=n_labels) / length
    n_seen = np.bincount(log.label[seen], minlength=n_labels)
    n_done = np.bincount(log.label[done], minlength=n_labels)
    if n_done.max(initial=0) < 2:
        return student_interval(float(rate.sum()), math.nan, 0, level, n=float(n_seen.sum()))
    duration, label = (log.end_s - log.start_s)[done], log.label[done]
    mean = np.bincount(label, duration, minlength=n_labels) / np.maximum(n_done, 1)
    squares = np.bincount(label, (duration - mean[label]) ** 2, minlength=n_labels)
    known = (n_done > 1) & (mean > 0)
    spread = squares[known] / (n_done[known] - 1) / mean[known] ** 2
    se = math.sqrt(float((rate[known] ** 2 * spread / n_seen[known]).sum()))
    dof = max(1, int((n_done[known] - 1).sum()))
    return student_interval(float(rate.sum()), se, dof, level, n=float(n_seen.sum()))


def _latencies(log: QueryLog, ended: Bools, edges: Floats, level: float) -> tuple[Interval, dict[str, Interval]]:
    censored = ended & ((log.outcome == Outcome.TIMED_OUT) | _is_cancelled_overlong(log))
    counted = censored | (ended & (log.outcome == Outcome.OK))
    latency_ms = (log.end_s - log.start_s)[counted] * 1e3
    n_blocks = len(edges) - 1
    block = np.clip(np.searchsorted(edges, log.end_s[counted], side="right") - 1, 0, n_blocks - 1)
    sums = np.bincount(block, latency_ms, minlength=n_blocks).astype(np.float64)
    counts = np.bincount(block, minlength=n_blocks).astype(np.float64)
    percentiles = {
        name: percentile_interval(
            latency_ms, share, block=block, n_blocks=n_blocks, is_censored=censored[counted], level=level
        )
        for name, share in PERCENTILES.items()
    }
    return floored(ratio_interval(sums, counts, level), 0.0), percentiles


def _is_cancelled_overlong(log: QueryLog) -> Bools:
    """Cancelled after a longer run than any completed operation of the same label."""
    duration = log.end_s - log.start_s
    is_ok = log.outcome == Outcome.OK
    longest = np.zeros(max(len(log.labels), 1))
    np.maximum.at(longest, log.label[is_ok], duration[is_ok])
    return np.asarray((log.outcome == Outcome.CANCELLED) & (duration > longest[log.label]))


def _by_label(
    log: QueryLog, ended: Bools, edges: Floats, level: float, whole: tuple[Interval, dict[str, Interval]]
) -> dict[str, LabelStats]:
    """Of each label; `whole`: throughput and percentiles of all together, which are those of a label that is alone."""
    result = {}
    for index, name in enumerate(log.labels):
        mine = log.label == index
        own = _rows(log, mine)
        count = np.bincount(own.outcome[ended[mine]], minlength=len(Outcome))
        ok = ((own.end_s - own.start_s) * 1e3)[ended[mine] & (own.outcome == Outcome.OK)]
        is_empty = len(ok) == 0
        p50, p95 = (math.nan, math.nan) if is_empty else np.percentile(ok, [50, 95], method="inverted_cdf")
        throughput, percentiles = whole
        if len(log.labels) > 1:
            throughput = _throughput(own, edges, level)
            _, percentiles = _latencies(own, ended[mine], edges, level)
        result[name] = LabelStats(
            n_ok=int(count[Outcome.OK]),
            n_error=int(count[Outcome.ERROR]),
            n_timed_out=int(count[Outcome.TIMED_OUT]),
            throughput_per_s=throughput.estimate,
            latency_mean_ms=math.nan if is_empty else float(ok.mean()),
            latency_p50_ms=float(p50),
            latency_p95_ms=float(p95),
            latency_max_ms=math.nan if is_empty else float(ok.max()),
            throughput=throughput,
            latency_ms=percentiles,
        )
    return result


def _rows(log: QueryLog, chosen: Bools) -> QueryLog:
    columns = {name: getattr(log, name)[chosen] for name in ("stream", "label", "start_s", "end_s", "rows", "outcome")}
    return replace(log, **columns)
