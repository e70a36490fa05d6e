"""From the SecondLog of a run of short operations to its Measurement: the unit of everything is the whole second."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import LoadError
from trimtab.measure.histogram import encode_counts
from trimtab.measure.interval import (
    batch_means_interval,
    check_level,
    floored,
    positive,
    ratio_interval,
    student_interval,
)
from trimtab.measure.measurement import Interval, LabelStats, Measurement
from trimtab.measure.percentile import counted_percentile_interval, value_at
from trimtab.measure.second_log import Buckets, SecondLog
from trimtab.measure.unfinished import hanging, unfinished_credit
from trimtab.measure.validity import cpu_limit, lateness_limit, overload, starvation

__all__ = ["PERCENTILES", "summarise_seconds"]

Floats = NDArray[np.float64]

PERCENTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}

_US_PER_MS = 1e3

_LONG_US = 1e6
"""Mean duration from which operations run through whole seconds: these then have equal shares of them, whatever the noise."""


def summarise_seconds(
    log: SecondLog,
    window_s: tuple[float, float],
    warmup_s: float | None = None,
    is_steady: bool = True,
    level: float = 0.95,
) -> Measurement:
    """What `log` shows inside the whole seconds of `window_s`.

    * throughput: successful operations per second, credited to the seconds in which they ran, those that still ran at the stop by
      the share that they are expected to have done; batch means over the seconds with their autocorrelation, or, where that is
      wider, the scatter of the durations of operations that take seconds.
    * latency_mean_ms, latency_ms: response times of operations that ended in the window. Time-outs are censored: they
      count as "at least this". So do operations that still ran and had taken longer than every completed one of their label: a
      server that hangs until the end must not look fast. Which failures were time-outs is not kept by row: they are the longest
      of them. The mean is a ratio over seconds; percentiles lie between order statistics, with the number of operations over the
      design effect of the seconds. Where that number does not bound a percentile, its end is infinite.
    * In an open loop that the server did not keep up with, latencies are infinite: they grow with the length of the run.
    * Of latencies of which only means are known there are no percentiles; of those of which nothing is known, the mean is NaN.

    Args, Raises: as `summarise`; a LoadError too when the window does not consist of whole seconds.
    """
    check_level(level)
    log.check()
    low, high = _whole_seconds(log, window_s)
    window = _Window(log, low, high, level)
    credited = window.credited
    offered, shed = int(log.offered[low:high].sum()), int(log.shed[low:high].sum())
    n_done = window.ok.total + window.failed.total + window.censored.total
    behind = overload(offered=offered, shed=shed, done=n_done, users=log.users) if log.is_open else ""
    cpu_share = float(log.client_cpu_s[low:high].mean())
    p50_ms = value_at(window.ok.value_us, window.ok.count, 0.5) / _US_PER_MS
    lateness_ms = window.padded_p99_ms(log.lateness, n_done)
    wakeup_ms = _plain_percentiles(log.wakeup.within(low, high)).get("p99")
    wait_share = None if log.wait_s is None else float(log.wait_s[low:high].mean(axis=0).max())
    return Measurement(
        window_s=(float(low), float(high)),
        throughput=window.throughput(window.ok.total, credited[low:high]),
        latency_mean_ms=_unbounded_if(behind, window.mean_ms()),
        latency_ms={name: _unbounded_if(behind, value) for name, value in window.percentiles().items()},
        n_ok=window.ok.total,
        n_error=window.failed.total,
        n_timed_out=window.censored.total,
        is_steady=is_steady,
        warmup_s=float(low) if warmup_s is None else warmup_s,
        series_per_s=tuple(credited[: math.floor(log.duration_s + 1e-9)].tolist()),
        histogram=encode_counts(window.ok.value_us, window.ok.count) if log.latencies == "each" else b"",
        by_label=window.by_label(),
        client_cpu_share=cpu_share,
        errors=log.errors,
        service_ms=_plain_percentiles(log.service.within(low, high)),
        queue_p99_ms=window.padded_p99_ms(log.queue, n_done),
        lateness_p99_ms=lateness_ms,
        is_open=log.is_open,
        is_observed=log.is_observed,
        users=log.users,
        n_threads=log.n_threads,
        offered_per_s=offered / (high - low),
        n_shed=shed,
        n_retries=_retries(log.attempts.within(low, high)),
        error_classes=dict(log.error_classes),
        steal_share=float(log.steal_s[low:high].mean()),
        memory_bytes=log.memory_bytes,
        generators=log.generators,
        wakeup_p99_ms=wakeup_ms,
        wait_share=wait_share,
        priority=log.priority,
        generator_limited=cpu_limit(cpu_share, log.n_threads)
        or lateness_limit(lateness_ms, p50_ms, wakeup_ms if log.is_open else None),
        generator_waited=starvation(wait_share),
        overload=behind,
        log=log,
    )


def _whole_seconds(log: SecondLog, window_s: tuple[float, float]) -> tuple[int, int]:
    low, high = window_s
    # Half a second of slack: a window of whole seconds may end a little after a run that was stopped a little early.
    if not 0 <= low < high <= min(log.duration_s + 0.5, len(log.credited)):
        raise LoadError(
            f"window_s=({low:g}, {high:g}) does not lie inside the run of duration_s={log.duration_s:g}",
            hint="let the load run longer",
        )
    if low != int(low) or high != int(high):
        raise LoadError(
            f"window_s=({low:g}, {high:g}) cuts seconds of a log that has whole ones only", hint="use whole seconds"
        )
    return int(low), int(high)


class _Window:
    """The seconds low to high of a log, numbered from 0."""

    def __init__(self, log: SecondLog, low: int, high: int, level: float) -> None:
        self._log, self._low, self._high, self._level = log, low, high, level
        self.n_seconds = high - low
        self.credited = log.credited + unfinished_credit(log)
        self.ok = self._cut(log.response)
        self.service = self._cut(log.service)
        self.running = log.unfinished.where(log.duration_s - log.unfinished.value_us / 1e6 < high)
        self.hanging = self._cut(hanging(log, high))
        self.censored, self.failed = _longest(self._cut(log.error), int(log.timed_out[low:high].sum()))

    def _cut(self, buckets: Buckets) -> Buckets:
        inside = buckets.within(self._low, self._high)
        return Buckets(inside.second - self._low, inside.label, inside.value_us, inside.count)

    def throughput(self, n: int, credited: Floats, label: int | None = None) -> Interval:
        """Interval of the credited rate, of `n` operations; of one label or of all."""
        if n == 0 and self._log.credited[self._low : self._high].sum() == 0:
            # Upper limit of a Poisson mean after a count of 0 (Hanley & Lippman-Hand 1983, JAMA 249(13)), or what those that
            # never ended may have done.
            most = -math.log((1 - self._level) / 2) / self.n_seconds
            return Interval(0.0, 0.0, max(most, float(credited.mean())), self._level)
        if credited.sum() == 0:  # of one label
            return Interval(0.0, 0.0, -math.log((1 - self._level) / 2) / self.n_seconds, self._level)
        batches = batch_means_interval(credited, self._level, max_dof=max(n - 1, 0))
        renewal = self._renewal(batches.estimate, label)
        return positive(max((batches, *renewal), key=lambda interval: interval.high - interval.low))

    def _renewal(self, rate: float, label: int | None) -> tuple[Interval, ...]:
        """Of a closed loop's rate of operations that take seconds: its relative error is cv(duration) / sqrt(operations) (Cox
        1962, Renewal Theory). Such operations make a flat series, which batch means take for certain; () without them."""
        squares, dof, n_seen = 0.0, 0, 0
        for each in () if self._log.is_open else range(len(self._log.labels)) if label is None else (label,):
            done = self.service.where(self.service.label == each)
            if done.total < 2 or (mean := float(done.count @ done.value_us) / done.total) < _LONG_US:
                continue
            variance = float(done.count @ (done.value_us - mean) ** 2) / (done.total - 1)
            n_each = done.total + self.running.where(self.running.label == each).total
            share = done.total / max(self.service.total, 1) if label is None else 1.0
            squares += (share * rate / mean) ** 2 * variance / n_each
            dof, n_seen = dof + done.total - 1, n_seen + n_each
        return (student_interval(rate, math.sqrt(squares), dof, self._level, n=n_seen),) if dof else ()

    def mean_ms(self) -> Interval:
        """Mean response time of successful, timed-out and hanging operations; NaN when it is not known."""
        if self._log.latencies == "none":
            return Interval(math.nan, math.nan, math.nan, self._level)
        counts, sums = np.zeros(self.n_seconds), np.zeros(self.n_seconds)
        for part in (self.ok, self.censored, self.hanging):
            counts += np.bincount(part.second, part.count, minlength=self.n_seconds)
            sums += np.bincount(part.second, part.count * part.value_us / _US_PER_MS, minlength=self.n_seconds)
        return floored(ratio_interval(sums, counts, self._level), 0.0)

    def percentiles(self, label: int | None = None) -> dict[str, Interval]:
        """Response times in ms, of one label or of all; {} when they are not known."""
        if self._log.latencies != "each":
            return {}
        parts = [self.ok, self.censored, self.hanging]
        if label is not None:
            parts = [part.where(part.label == label) for part in parts]
        values = np.concatenate([part.value_us for part in parts])
        is_censored = np.concatenate([np.full(len(part), part is not parts[0]) for part in parts])
        return {
            name: _in_ms(
                counted_percentile_interval(
                    values,
                    np.concatenate([part.count for part in parts]),
                    share,
                    second=np.concatenate([part.second for part in parts]),
                    n_seconds=self.n_seconds,
                    is_censored=is_censored,
                    level=self._level,
                )
            )
            for name, share in PERCENTILES.items()
        }

    def padded_p99_ms(self, buckets: Buckets, n_operations: int) -> float | None:
        """The p99 over all operations; those that the histogram does not have did not wait. None for no operations."""
        inside = self._cut(buckets)
        n_zeros = max(0, n_operations - inside.total)
        if n_operations == inside.total == 0:
            return None
        return value_at(inside.value_us, inside.count, 0.99, n_zeros) / _US_PER_MS

    def by_label(self) -> dict[str, LabelStats]:
        """Figures of every operation type; the credit of a second is shared out by what succeeded in it, or, where nothing ended
        in it, in the window."""
        credited = self.credited[self._low : self._high]
        all_ok = np.bincount(self.ok.second, self.ok.count, minlength=self.n_seconds)
        result = {}
        for index, name in enumerate(self._log.labels):
            mine = self.ok.where(self.ok.label == index)
            n_ok = np.bincount(mine.second, mine.count, minlength=self.n_seconds)
            of_window = mine.total / max(self.ok.total, 1)
            share = np.divide(n_ok, all_ok, out=np.full(self.n_seconds, of_window), where=all_ok > 0)
            result[name] = self._label_stats(index, mine, self.throughput(mine.total, credited * share, index))
        return result

    def _label_stats(self, index: int, ok: Buckets, throughput: Interval) -> LabelStats:
        percentiles, known = self.percentiles(index), self._log.latencies
        n = ok.total
        return LabelStats(
            n_ok=n,
            n_error=int(self.failed.count[self.failed.label == index].sum()),
            n_timed_out=int(self.censored.count[self.censored.label == index].sum()),
            throughput_per_s=throughput.estimate,
            latency_mean_ms=float((ok.count * ok.value_us).sum()) / n / _US_PER_MS
            if n and known != "none"
            else math.nan,
            latency_p50_ms=value_at(ok.value_us, ok.count, 0.50) / _US_PER_MS if known == "each" else math.nan,
            latency_p95_ms=value_at(ok.value_us, ok.count, 0.95) / _US_PER_MS if known == "each" else math.nan,
            latency_max_ms=float(ok.value_us.max()) / _US_PER_MS if n and known == "each" else math.nan,
            throughput=throughput,
            latency_ms=percentiles,
        )


def _longest(buckets: Buckets, n: int) -> tuple[Buckets, Buckets]:
    """The `n` longest operations, and the rest; a bucket may be in both, in parts."""
    order = np.argsort(-buckets.value_us, kind="stable")
    before = np.concatenate([[0], np.cumsum(buckets.count[order])[:-1]]) if len(order) else np.zeros(0, dtype=np.int64)
    taken = np.zeros(len(buckets), dtype=np.int64)
    taken[order] = np.clip(n - before, 0, buckets.count[order])
    longest = Buckets(buckets.second, buckets.label, buckets.value_us, taken)
    rest = Buckets(buckets.second, buckets.label, buckets.value_us, buckets.count - taken)
    return longest.where(taken > 0), rest.where(rest.count > 0)


def _in_ms(interval: Interval) -> Interval:
    return Interval(
        interval.estimate / _US_PER_MS,
        interval.low / _US_PER_MS,
        interval.high / _US_PER_MS,
        interval.level,
        interval.se / _US_PER_MS,
        interval.n,
    )


def _unbounded_if(reason: str, interval: Interval) -> Interval:
    """At least what was seen, when there is a `reason`."""
    if not reason:
        return interval
    return Interval(math.inf, interval.low, math.inf, interval.level, math.nan, interval.n)


def _plain_percentiles(buckets: Buckets) -> dict[str, float]:
    if not len(buckets):
        return {}
    return {name: value_at(buckets.value_us, buckets.count, share) / _US_PER_MS for name, share in PERCENTILES.items()}


def _retries(attempts: Buckets) -> int:
    return int(((attempts.value_us - 1) * attempts.count).sum())
