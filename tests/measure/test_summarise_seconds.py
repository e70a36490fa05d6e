"""From a SecondLog to a measurement: figures, intervals that cover, censoring, and merging."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.needs import IS_FULL
from trimtab.errors import LoadError
from trimtab.measure import Buckets, Interval, Measurement, SecondLog, decode_histogram, merge_seconds, summarise

from .seconds import Operation, buckets_of, seconds_log, simulated, true_quantiles

K = 10
EVEN: list[Operation] = [(second, 0, 1000 + 10 * i) for second in range(K) for i in range(100)]


def test_figures_of_a_small_run() -> None:
    late = [(second, 1, 9000) for second in range(K)]
    log = seconds_log(
        K,
        EVEN + late,
        failed=[(5, 1, 700), (6, 1, 800)],
        n_labels=2,
        client_cpu_s=np.full(K, 0.25),
        steal_s=np.full(K, 0.1),
        error_classes={"serialization": 2},
        errors=("40001 could not serialize",),
        memory_bytes=4096,
        users=8,
        attempts=Buckets.of([(5, 0, 1, 90), (5, 0, 3, 2)]),
    )
    m = summarise(log, (2.0, 8.0), is_steady=False)
    assert m.throughput.estimate == pytest.approx(101)
    assert (m.n_ok, m.n_error, m.n_timed_out, m.n_retries) == (606, 2, 0, 4)
    assert m.latency_mean_ms.estimate == pytest.approx((100 * 1.495 + 9) / 101)
    assert m.latency_ms["p50"].estimate == pytest.approx(1.50)
    assert m.latency_ms["p95"].estimate == pytest.approx(1.95)
    assert m.service_ms == {"p50": 1.5, "p95": 1.95, "p99": 1.99}
    assert (m.client_cpu_share, m.steal_share) == (0.25, pytest.approx(0.1))
    assert (m.warmup_s, m.is_steady, m.duration_s) == (2.0, False, 6.0)
    assert m.series_per_s == (101.0,) * K
    assert (m.error_classes, m.errors, m.memory_bytes, m.users) == (
        {"serialization": 2}, ("40001 could not serialize",), 4096, 8,
    )  # fmt: skip
    assert (m.generator_limited, m.overload, m.n_shed) == ("", "", 0)
    assert m.offered_per_s == pytest.approx(101 + 2 / 6)
    assert m.error_rate == pytest.approx(2 / 608)


def test_labels_add_up() -> None:
    log = seconds_log(K, EVEN + [(s, 1, 5000 + s) for s in range(K)], failed=[(3, 1, 100)], n_labels=2)
    m = summarise(log, (0.0, 10.0))
    assert sum(s.throughput_per_s for s in m.by_label.values()) == pytest.approx(m.throughput.estimate)
    assert [s.n_ok for s in m.by_label.values()] == [1000, 10]
    one = m.by_label["op1"]
    assert (one.n_error, one.latency_mean_ms, one.latency_max_ms) == (1, pytest.approx(5.0045), 5.009)
    assert one.throughput is not None
    assert one.throughput.low <= 1.0 <= one.throughput.high
    # Ten operations do not bound a 99th percentile.
    assert one.latency_ms["p99"].high == math.inf
    assert one.latency_p50_ms <= one.latency_p95_ms <= one.latency_max_ms


def test_labels_add_up_where_operations_take_seconds() -> None:
    """One that ends every fifth second has run in the other four, too."""
    slow = [(second, second // 5 % 2, 5_000_000) for second in range(4, 40, 5)]
    m = summarise(seconds_log(40, slow, n_labels=2, credited=np.full(40, 0.2)), (0.0, 40.0))
    assert [s.throughput_per_s for s in m.by_label.values()] == pytest.approx([0.1, 0.1])
    assert sum(s.throughput_per_s for s in m.by_label.values()) == pytest.approx(m.throughput.estimate)


def test_histogram_holds_the_successful_latencies() -> None:
    m = summarise(seconds_log(K, EVEN, failed=[(1, 0, 10**6)]), (5.0, 10.0))
    histogram = decode_histogram(m.histogram)
    assert len(histogram) == m.n_ok == 500
    assert histogram.percentile(95) / 1e3 == pytest.approx(m.latency_ms["p95"].estimate, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("k", "per_s", "phi", "wander"),
    [
        pytest.param(10, 1000, 0.0, 0.0, marks=pytest.mark.full),
        pytest.param(30, 200, 0.0, 0.2, marks=pytest.mark.full),
        (30, 500, 0.5, 0.2),
    ],
)
def test_intervals_cover_independent_and_wandering_seconds(k: int, per_s: float, phi: float, wander: float) -> None:
    rng = np.random.default_rng(7)
    p50, p95, p99 = true_quantiles(wander, (0.5, 0.95, 0.99))
    throughput, mean = per_s * math.exp(wander**2 / 2), math.exp(-(wander**2) / 2 + 0.5**2 / 2)
    runs = [summarise(simulated(rng, k=k, per_s=per_s, phi=phi, wander=wander), (0.0, float(k))) for _ in range(150)]
    # 95 % intervals; 150 runs have a standard error of 1.8 %.
    assert covered([m.throughput for m in runs], throughput) >= 0.89
    assert covered([m.latency_mean_ms for m in runs], mean) >= 0.89
    for name, true in (("p50", p50), ("p95", p95), ("p99", p99)):
        assert covered([m.latency_ms[name] for m in runs], true) >= 0.90, name
        # And do not cover by being endless.
        assert np.mean([math.isinf(m.latency_ms[name].high) for m in runs]) <= 0.4, name


@pytest.mark.slow
def test_seconds_that_wander_widen_the_interval() -> None:
    rng = np.random.default_rng(8)
    calm, rough = (
        np.median([
            summarise(simulated(rng, k=30, per_s=500, phi=0.5, wander=w), (0.0, 30.0)).latency_ms["p50"].relative_half_width
            for _ in range(20)
        ])
        for w in (0.0, 0.2)
    )  # fmt: skip
    assert rough > 3 * calm


def covered(intervals: list[Interval], true: float) -> float:
    return float(np.mean([interval.low <= true <= interval.high for interval in intervals]))


def long_operations(rng: np.random.Generator, *, users: int, mean_s: float, k: int) -> SecondLog:
    """A closed loop of operations that take Gamma(4) of mean `mean_s`, stopped after `k` seconds."""
    credited, ended, unfinished = np.zeros(k), list[Operation](), list[Operation]()
    for _ in range(users):
        start = -float(rng.uniform(0.0, mean_s))
        while start < k:
            took = float(rng.gamma(4.0, mean_s / 4.0))
            end = start + took
            if 0 < end < k:
                seconds = np.arange(k)
                credited += np.clip(np.minimum(seconds + 1, end) - np.maximum(seconds, start), 0.0, None) / took
                ended.append((int(end), 0, round(took * 1e6)))
            elif end >= k:
                unfinished.append((k - 1, 0, round((k - start) * 1e6)))
            start = end
    return seconds_log(k, ended, credited=credited, unfinished=buckets_of(unfinished), users=users)


@pytest.mark.slow
def test_intervals_cover_operations_that_take_longer_than_seconds() -> None:
    """Few of them make a flat series: a second holds a part of each."""
    rng = np.random.default_rng(7)
    users, mean_s, n = 4, 10.0, 200
    found = [summarise(long_operations(rng, users=users, mean_s=mean_s, k=50), (20.0, 50.0)) for _ in range(n)]
    n_covered = sum(m.throughput.low <= users / mean_s <= m.throughput.high for m in found)
    assert n_covered >= 0.9 * n
    assert all(m.by_label["op0"].throughput == m.throughput for m in found)


def test_timed_out_operations_are_censored_and_the_longest_of_the_failed() -> None:
    failed = [(s, 0, 100) for s in range(K)] + [(s, 1, 5_000_000) for s in range(K)]
    m = summarise(seconds_log(K, EVEN, failed=failed, n_labels=2, timed_out=[1] * K), (0.0, 10.0))
    assert (m.n_ok, m.n_error, m.n_timed_out) == (1000, 10, 10)
    assert (m.by_label["op0"].n_error, m.by_label["op1"].n_timed_out) == (10, 10)
    assert m.latency_ms["p99"].high == math.inf
    assert m.latency_ms["p50"].high < math.inf
    assert m.latency_mean_ms.estimate == pytest.approx((1000 * 1.495 + 10 * 5000) / 1010)


def test_failures_never_enter_the_response_time() -> None:
    without = summarise(seconds_log(K, EVEN), (0.0, 10.0))
    with_errors = summarise(seconds_log(K, EVEN, failed=[(s, 0, 9_999_999) for s in range(K)]), (0.0, 10.0))
    assert with_errors.latency_ms == without.latency_ms
    assert with_errors.latency_mean_ms == without.latency_mean_ms


def test_nothing_succeeded() -> None:
    m = summarise(seconds_log(K, failed=[(s, 0, 10) for s in range(K)]), (0.0, 10.0))
    assert (m.throughput.estimate, m.throughput.low) == (0.0, 0.0)
    assert m.throughput.high == pytest.approx(0.3689, abs=1e-4)
    assert math.isnan(m.latency_ms["p50"].estimate)
    assert math.isnan(m.latency_mean_ms.estimate)
    assert math.isnan(m.by_label["op0"].latency_max_ms)
    assert (m.histogram, m.error_rate, m.service_ms) == (b"", 1.0, {})


def test_one_second_bounds_nothing() -> None:
    m = summarise(seconds_log(K, EVEN), (3.0, 4.0))
    assert m.throughput.high == math.inf
    assert (m.latency_ms["p50"].low, m.latency_ms["p50"].high) == (0.0, math.inf)


def test_queue_and_lateness_count_those_that_did_not_wait() -> None:
    waits = buckets_of([(s, 0, 50_000) for s in range(K) for _ in range(2)])
    m = summarise(seconds_log(K, EVEN, queue=waits, lateness=buckets_of([(1, 0, 9000)])), (0.0, 10.0))
    # 20 of 1000 waited 50 ms; one was late.
    assert (m.queue_p99_ms, m.lateness_p99_ms) == (50.0, 0.0)


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ((5.0, 5.0), r"window_s=\(5, 5\) does not lie inside the run of duration_s=10\nhint: let the load run longer"),
        ((0.0, 11.0), r"window_s=\(0, 11\) does not lie inside the run of duration_s=10"),
        ((math.nan, 5.0), r"window_s=\(nan, 5\) does not lie inside"),
        ((0.5, 5.0), r"window_s=\(0.5, 5\) cuts seconds of a log that has whole ones only\nhint: use whole seconds"),
    ],
)
def test_windows_that_are_refused(window: tuple[float, float], message: str) -> None:
    with pytest.raises(LoadError, match=message):
        summarise(seconds_log(K, EVEN), window)


def test_logs_that_are_refused() -> None:
    log = seconds_log(K, EVEN)
    with pytest.raises(LoadError, match=r"the columns of the load's log differ in length: .*'shed': 3"):
        summarise(replace(log, shed=np.zeros(3, dtype=np.int64)), (0.0, 10.0))
    with pytest.raises(LoadError, match="histogram=response has labels that have no name"):
        summarise(replace(log, response=buckets_of([(0, 1, 5)])), (0.0, 10.0))
    torn = replace(log.response, count=np.ones(3, dtype=np.int64))
    with pytest.raises(LoadError, match=r"the columns of histogram=response differ in length: .*'count': 3"):
        summarise(replace(log, response=torn), (0.0, 10.0))
    with pytest.raises(LoadError, match="there is no log to merge"):
        merge_seconds([])


OPERATIONS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(1, 10**6), st.booleans(), st.integers(0, 2)),
    max_size=40,
)


@pytest.mark.slow
@settings(max_examples=60 if IS_FULL else 30, deadline=None)
@given(OPERATIONS, st.permutations(range(3)))
def test_merging_parts_equals_the_whole(rows: list[tuple[int, int, int, bool, int]], order: list[int]) -> None:
    """Whatever is split over however many generators, and in whatever order their logs come."""

    def part(chosen: list[tuple[int, int, int, bool, int]]) -> SecondLog:
        ok = [(second, label, value) for second, label, value, is_ok, _ in chosen if is_ok]
        bad = [(second, label, value) for second, label, value, is_ok, _ in chosen if not is_ok]
        return seconds_log(5, ok, failed=bad, n_labels=3, error_classes={"other": len(bad)} if bad else {})

    parts = [part([row for row in rows if row[4] == number]) for number in order]
    merged, whole = merge_seconds(parts), merge_seconds([part(rows)])
    assert (merged.users, merged.n_threads, merged.error_classes) == (3, 3, whole.error_classes)
    assert merged.response.total + merged.error.total == len(rows)
    assert shown(summarise(merged, (0.0, 5.0))) == shown(summarise(whole, (0.0, 5.0)))


def shown(m: Measurement) -> str:
    """Everything but what depends on the number of generators; NaN equals itself in a repr."""
    return repr(replace(m, users=1, n_threads=1, client_cpu_share=0.0, steal_share=0.0, log=None))


def test_merging_keeps_labels_apart() -> None:
    one = seconds_log(2, [(0, 0, 5)], labels=("read",))
    two = seconds_log(3, [(2, 0, 7)], labels=("write",))
    merged = merge_seconds([one, two])
    assert merged.labels == ("read", "write")
    assert (merged.duration_s, len(merged.credited)) == (3.0, 3)
    m = summarise(merged, (0.0, 3.0))
    assert {name: stats.latency_max_ms for name, stats in m.by_label.items()} == {"read": 0.005, "write": 0.007}


def test_merging_keeps_that_latencies_are_not_known() -> None:
    each = seconds_log(2, [(0, 0, 5)])
    means, none = replace(each, latencies="means"), replace(each, latencies="none")
    assert merge_seconds([each, each]).latencies == "each"
    assert merge_seconds([each, means]).latencies == "means"
    assert merge_seconds([means, none]).latencies == "none"
    assert summarise(merge_seconds([each, means]), (0.0, 2.0)).latency_ms == {}


def test_what_is_taken_from_a_machine_counts_once_for_all_its_generators() -> None:
    taken = ([0.2, 0.1], [0.1, 0.3], [0.5, 0.0])
    one, two, three = (seconds_log(2, [(0, 0, 5), (1, 0, 5)], steal_s=np.array(each)) for each in taken)
    merged = merge_seconds([one, two, three], ["here", "here", "there"])
    assert merged.steal_s == pytest.approx([0.7, 0.3])
    assert merge_seconds([one, two, three]).steal_s == pytest.approx([0.8, 0.4])
