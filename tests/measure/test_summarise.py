"""From a log to a measurement: figures, intervals that cover, and the awkward runs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trimtab.errors import LoadError, UsageError
from trimtab.measure import Interval, Measurement, Outcome, decode_histogram, summarise

from .runs import Row, closed_loop, log_of

OK = Outcome.OK


def test_figures_of_a_small_run() -> None:
    rows: list[Row] = [(i * 0.5, i * 0.5 + 0.5, 0, OK) for i in range(40)]
    rows += [(3.0, 4.0, 1, Outcome.ERROR), (3.0, 5.0, 1, Outcome.TIMED_OUT), (19.0, 20.0, 1, Outcome.CANCELLED)]
    m = summarise(log_of(rows, n_labels=2, duration_s=20, client_cpu_s=5), (2.0, 18.0), 2.0, True)
    assert m.throughput.estimate == pytest.approx(2.0)
    assert (m.n_ok, m.n_error, m.n_timed_out) == (32, 1, 1)
    # 32 of 500 ms and one time-out of 2 s.
    assert m.latency_mean_ms.estimate == pytest.approx((32 * 500 + 2000) / 33)
    assert m.latency_ms["p50"].estimate == pytest.approx(500)
    assert m.latency_ms["p99"].estimate == pytest.approx(2000)
    assert m.latency_ms["p99"].high == math.inf
    assert m.client_cpu_share == 0.25
    assert m.error_rate == pytest.approx(1 / 34)
    assert m.series_per_s[:19] == pytest.approx([2.0] * 19)
    assert (m.warmup_s, m.is_steady, m.duration_s) == (2.0, True, 16.0)


def test_labels_add_up() -> None:
    log = closed_loop(np.random.default_rng(0), means=(0.2, 0.7), streams_per_label=3, cv=0.4, duration_s=20)
    m = summarise(log, (5.0, 20.0))
    assert sum(s.throughput_per_s for s in m.by_label.values()) == pytest.approx(m.throughput.estimate)
    assert sum(s.n_ok for s in m.by_label.values()) == m.n_ok
    assert m.by_label["q1"].latency_mean_ms == pytest.approx(700, rel=0.2)
    assert m.by_label["q0"].latency_p50_ms < m.by_label["q0"].latency_p95_ms <= m.by_label["q0"].latency_max_ms
    for stats in m.by_label.values():
        assert stats.throughput is not None
        assert stats.throughput.low < stats.throughput_per_s < stats.throughput.high
        assert stats.latency_ms["p50"].low <= stats.latency_p50_ms <= stats.latency_ms["p50"].high


def test_histogram_holds_the_successful_latencies() -> None:
    log = closed_loop(np.random.default_rng(1), means=(0.3,), streams_per_label=4, cv=0.4, duration_s=20)
    m = summarise(log, (5.0, 20.0))
    histogram = decode_histogram(m.histogram)
    assert len(histogram) == m.n_ok
    assert histogram.percentile(95) / 1e3 == pytest.approx(m.latency_ms["p95"].estimate, rel=0.01)


@pytest.mark.slow
def test_intervals_cover_in_a_closed_loop_of_queries() -> None:
    rng = np.random.default_rng(2)
    means, per_label = (0.3, 0.8, 2.0), 4
    throughput = sum(per_label / mean for mean in means)
    latency_ms = 1e3 * per_label * len(means) / throughput  # Little's law
    runs = [
        summarise(closed_loop(rng, means=means, streams_per_label=per_label, cv=0.3, duration_s=18), (8.0, 18.0))
        for _ in range(200)
    ]
    assert 0.90 <= covered([m.throughput for m in runs], throughput) <= 0.995
    assert covered([m.latency_mean_ms for m in runs], latency_ms) >= 0.90
    assert np.mean([m.throughput.estimate for m in runs]) == pytest.approx(throughput, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(("mean", "streams", "cv"), [(0.02, 4, 1.0), (3.0, 12, 0.3), (20.0, 12, 0.3)])
def test_throughput_covers_for_short_and_overlong_queries(mean: float, streams: int, cv: float) -> None:
    rng = np.random.default_rng(3)
    warmup = 5 * mean
    logs = (
        closed_loop(rng, means=(mean,), streams_per_label=streams, cv=cv, duration_s=warmup + 10) for _ in range(150)
    )
    runs = [summarise(log, (warmup, warmup + 10)).throughput for log in logs]
    assert 0.88 <= covered(runs, streams / mean) <= 1.0


def covered(intervals: list[Interval], true: float) -> float:
    return float(np.mean([interval.low <= true <= interval.high for interval in intervals]))


def test_one_operation_longer_than_the_window() -> None:
    m = summarise(log_of([(0.0, 40.0, 0, OK)], duration_s=40), (10.0, 20.0))
    assert m.throughput.estimate == pytest.approx(1 / 40)
    assert (m.throughput.low, m.throughput.high) == (0.0, math.inf)
    assert m.n_ok == 0
    assert math.isnan(m.latency_mean_ms.estimate)


def test_empty_run() -> None:
    m = summarise(log_of([], duration_s=10), (0.0, 10.0))
    assert (m.throughput.estimate, m.throughput.low) == (0.0, 0.0)
    # Rule of three, two-sided: -log(0.025) / 10 s.
    assert m.throughput.high == pytest.approx(0.3689, abs=1e-4)
    assert_no_latency(m)


def test_all_errors() -> None:
    rows = [(float(i), i + 1.0, 0, Outcome.ERROR) for i in range(10)]
    m = summarise(log_of(rows, duration_s=10), (0.0, 10.0))
    assert m.throughput.estimate == 0.0
    assert (m.n_error, m.error_rate) == (10, 1.0)
    assert_no_latency(m)
    assert math.isnan(m.by_label["q0"].latency_p95_ms)


def assert_no_latency(m: Measurement) -> None:
    for interval in (m.latency_mean_ms, *m.latency_ms.values()):
        assert math.isnan(interval.estimate)
        assert interval.high == math.inf
    assert m.histogram == b""


def test_all_time_outs_are_censored() -> None:
    rows = [(float(i), i + 1.0, 0, Outcome.TIMED_OUT) for i in range(10)]
    m = summarise(log_of(rows, duration_s=10), (0.0, 10.0))
    assert m.n_timed_out == 10
    assert m.latency_mean_ms.estimate == pytest.approx(1000)
    assert all(interval.high == math.inf for interval in m.latency_ms.values())


def test_nothing_but_unfinished_operations() -> None:
    m = summarise(log_of([(0.0, 10.0, 0, Outcome.CANCELLED)] * 3, duration_s=10), (0.0, 10.0))
    assert (m.throughput.low, m.throughput.estimate, m.throughput.high) == (0.0, 0.3, 0.3)
    assert m.latency_mean_ms.estimate == pytest.approx(10_000)


def test_a_query_that_never_ends_does_not_look_fast() -> None:
    quick: list[Row] = [(i * 0.5, i * 0.5 + 0.5, 0, OK) for i in range(20)]
    m = summarise(log_of([*quick, (0.0, 10.0, 1, Outcome.CANCELLED)], n_labels=2, duration_s=10), (0.0, 10.0))
    assert m.latency_mean_ms.estimate == pytest.approx((20 * 500 + 10_000) / 21)
    assert m.latency_ms["p99"].high == math.inf


def test_a_query_that_was_cancelled_just_behind_the_window_does_not_either() -> None:
    """A real run is stopped some milliseconds after the window's end."""
    quick: list[Row] = [(i * 0.5, i * 0.5 + 0.5, 0, OK) for i in range(20)]
    rows = [*quick, (1.0, 10.004, 1, Outcome.CANCELLED), (9.999, 10.004, 0, Outcome.CANCELLED)]
    m = summarise(log_of(rows, n_labels=2, duration_s=10.004), (0.0, 10.0))
    assert m.latency_mean_ms.estimate == pytest.approx((19 * 500 + 9_004) / 20)
    assert m.latency_ms["p99"].high == math.inf


def test_warmup_defaults_to_the_start_of_the_window() -> None:
    assert summarise(log_of([], duration_s=10), (3.0, 10.0)).warmup_s == 3.0


def test_level_is_kept() -> None:
    log = closed_loop(np.random.default_rng(4), means=(0.3,), streams_per_label=4, cv=0.4, duration_s=10)
    narrow, wide = (summarise(log, (0.0, 10.0), level=level) for level in (0.5, 0.99))
    assert narrow.throughput.level == 0.5
    assert narrow.throughput.high < wide.throughput.high
    with pytest.raises(UsageError, match="level=95 is not between 0 and 1"):
        summarise(log, (0.0, 10.0), level=95)


@pytest.mark.parametrize("window", [(5.0, 5.0), (-1.0, 5.0), (0.0, 12.0), (math.nan, 5.0)])
def test_window_outside_the_run(window: tuple[float, float]) -> None:
    message = r"window_s=\(.*\) does not lie inside the run of duration_s=10\nhint: let the load run longer"
    with pytest.raises(LoadError, match=message):
        summarise(log_of([], duration_s=10), window)


def test_one_whole_operation_bounds_nothing() -> None:
    """Its share of the window is flat, and so is that of the one which was cut off after it: no scatter was seen."""
    rows: list[Row] = [(0.0, 12.0, 0, OK), (12.0, 20.0, 0, Outcome.CANCELLED)]
    m = summarise(log_of(rows, duration_s=20), (10.0, 20.0))
    assert (m.n_ok, m.throughput.low, m.throughput.high) == (1, 0.0, math.inf)
    assert m.by_label["q0"].throughput is not None
    assert m.by_label["q0"].throughput.high == math.inf


def test_labels_that_ended_once_each_bound_nothing_together() -> None:
    rows: list[Row] = [(0.0, 8.0, 0, OK), (0.0, 8.0, 1, OK), (0.0, 8.0, 2, OK), (0.0, 8.0, 3, OK)]
    m = summarise(log_of(rows, n_labels=4, duration_s=8), (0.0, 8.0))
    assert m.throughput.estimate == pytest.approx(0.5)
    assert (m.throughput.low, m.throughput.high) == (0.0, math.inf)
    again: list[Row] = [*rows, (8.0, 15.0, 0, OK)]
    known = summarise(log_of(again, n_labels=4, duration_s=16), (0.0, 16.0)).throughput
    assert 0 < known.low < known.high < math.inf
