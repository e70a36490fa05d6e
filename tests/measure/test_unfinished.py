"""Operations that still ran when a run of many was stopped: their share of the throughput, and what hangs until the end."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.measure.seconds import buckets_of, seconds_log
from trimtab.measure import Buckets, SecondLog, merge_seconds, summarise

N_USERS = 20


def slow_loop(duration_s: float, operation_s: float, *, label: int = 0, n_labels: int = 1) -> SecondLog:
    """`N_USERS` users, evenly staggered, whose operations all take `operation_s`; credited as the load engine does."""
    k = math.ceil(duration_s)
    edges, credited, ended, running = np.arange(k + 1.0), np.zeros(k), [], []
    for user in range(N_USERS):
        start = -operation_s * user / N_USERS
        while start < duration_s:
            end = start + operation_s
            if end <= duration_s:
                credited += np.clip(np.minimum(edges[1:], end) - np.maximum(edges[:-1], start), 0, None) / operation_s
                ended.append((int(end), label, round(operation_s * 1e6)))
            else:
                running.append((int(duration_s), label, round((duration_s - start) * 1e6)))
            start = end
    return seconds_log(
        k, ended, duration_s=duration_s, credited=credited, offered=np.zeros(k, dtype=np.int64), n_labels=n_labels,
        unfinished=buckets_of(running),
    )  # fmt: skip


@pytest.mark.parametrize("operation_s", [0.05, 0.7, 2.0, 4.0])
def test_half_an_operation_of_each_user_is_not_lost(operation_s: float) -> None:
    log = slow_loop(12.004, operation_s)
    true_per_s = N_USERS / operation_s
    assert summarise(log, (2.0, 12.0)).throughput.estimate == pytest.approx(true_per_s, rel=0.01)
    forgotten = summarise(replace(log, unfinished=Buckets.of()), (2.0, 12.0)).throughput.estimate
    assert forgotten == pytest.approx(true_per_s * (1 - operation_s / 20), rel=0.02), "the bias that this takes away"


def test_the_share_is_that_of_longer_ones_with_the_same_label() -> None:
    """Of four that took 1, 2, 4 and 8 s, the two that took more than 3 s had done 3/4 and 3/8 of their work by then."""
    done = [(9, 0, 1_000_000), (9, 0, 2_000_000), (9, 0, 4_000_000), (9, 0, 8_000_000), (9, 1, 3_500_000)]
    log = seconds_log(10, done, n_labels=2, unfinished=buckets_of([(9, 0, 3_000_000)]))
    plain = summarise(replace(log, unfinished=Buckets.of()), (0.0, 10.0)).throughput.estimate
    assert summarise(log, (0.0, 10.0)).throughput.estimate - plain == pytest.approx((3 / 4 + 3 / 8) / 2 / 10)


def test_what_is_longer_than_all_counts_once_and_never_more_than_the_run() -> None:
    log = seconds_log(10, [(9, 0, 1_000_000)], unfinished=buckets_of([(9, 0, 10_000_500)]))
    assert summarise(log, (0.0, 10.0)).throughput.estimate == pytest.approx(0.2)


def test_nothing_but_unfinished_operations_is_no_throughput() -> None:
    """A trial of which nothing succeeded is told by that."""
    log = seconds_log(10, unfinished=buckets_of([(10, 0, 10_000_000)] * 30))
    m = summarise(log, (0.0, 10.0))
    assert (m.throughput.low, m.throughput.estimate, m.throughput.high) == (0.0, 0.0, pytest.approx(3.0))
    assert m.latency_mean_ms.estimate == pytest.approx(10_000)
    assert m.latency_ms["p99"].high == math.inf


@pytest.mark.parametrize("is_open", [False, True])
def test_a_server_that_hangs_until_the_end_does_not_look_fast(is_open: bool) -> None:
    """It answers 50 requests a second within 10 ms, and from second 7 none: 150 are in flight when the run is stopped."""
    quick = [(second, 0, 10_000) for second in range(7) for _ in range(50)]
    stuck = [(10, 0, 4_000 + 20_000 * i) for i in range(150)]
    log = seconds_log(
        10, quick, is_open=is_open, users=200, offered=np.full(10, 50), unfinished=buckets_of(stuck), duration_s=10.004
    )
    m = summarise(log, (0.0, 10.0))
    assert m.overload == ""
    assert m.latency_ms["p99"].high == math.inf
    assert m.latency_ms["p95"].high == math.inf
    assert m.latency_mean_ms.estimate > 400
    assert m.by_label["op0"].latency_ms["p99"].high == math.inf
    assert m.n_timed_out == 0


def test_what_began_behind_the_window_is_none_of_its_business() -> None:
    quick = [(second, 0, 10_000) for second in range(12) for _ in range(50)]
    log = seconds_log(12, quick, unfinished=buckets_of([(12, 0, 1_500_000)]))
    m = summarise(log, (0.0, 10.0))
    assert m.latency_mean_ms.estimate == pytest.approx(10)
    assert m.throughput.estimate == pytest.approx(50)


def test_generators_are_merged_with_theirs() -> None:
    halves = [slow_loop(12.004, 2.0), slow_loop(12.004, 2.0)]
    merged = merge_seconds(halves)
    assert merged.unfinished.total == 2 * N_USERS
    assert summarise(merged, (2.0, 12.0)).throughput.estimate == pytest.approx(N_USERS, rel=0.01)
