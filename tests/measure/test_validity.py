"""A run that measured the generator, and one that the server did not keep up with, say so."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from trimtab.measure import Measurement, Outcome, cpu_limit, summarise
from trimtab.measure.validity import lateness_limit, overload, starvation

from .runs import log_of
from .seconds import Operation, buckets_of, seconds_log

K = 10


def even(value_us: int = 1000, per_s: int = 100) -> list[Operation]:
    return [(second, 0, value_us) for second in range(K) for _ in range(per_s)]


def measured(operations: list[Operation], **changes: Any) -> Measurement:
    return summarise(seconds_log(K, operations, **changes), (0.0, float(K)))


def late(us: int, n_per_s: int = 100) -> Any:
    return buckets_of([(second, 0, us) for second in range(K) for _ in range(n_per_s)])


@pytest.mark.parametrize(
    ("cpu_s", "n_threads", "reason"),
    [
        (0.80, 1, ""),
        (0.85, 1, "the load generator used 85 % of its core (limit 80 %)"),
        (1.50, 2, ""),
        (1.90, 2, "the load generator used 95 % of the 2 cores of its threads (limit 80 %)"),
    ],
)
def test_cpu_of_the_generator(cpu_s: float, n_threads: int, reason: str) -> None:
    m = measured(even(), client_cpu_s=np.full(K, cpu_s), n_threads=n_threads)
    assert m.generator_limited == reason


@pytest.mark.parametrize(
    ("response_us", "late_us", "reason"),
    [
        (1000, 2000, ""),
        (1000, 2500, "the load generator was late itself: lateness p99=2.5 ms (limit 2 ms)"),
        (100_000, 9000, ""),
        (100_000, 12_000, "the load generator was late itself: lateness p99=12 ms (limit 10 ms)"),
    ],
)
def test_lateness_of_the_generator(response_us: int, late_us: int, reason: str) -> None:
    assert measured(even(response_us), lateness=late(late_us)).generator_limited == reason


def test_in_an_open_loop_late_wake_ups_count_whether_or_not_a_user_was_free() -> None:
    reason = "the load generator was late itself: wake-up delay p99=3 ms (limit 2 ms)"
    assert measured(even(), wakeup=late(3000), is_open=True).generator_limited == reason
    assert measured(even(), wakeup=late(1900), is_open=True).generator_limited == ""
    closed = measured(even(), wakeup=late(3000))
    assert (closed.generator_limited, closed.wakeup_p99_ms) == ("", 3.0)


def test_a_thread_that_waits_for_a_core_is_flagged_in_closed_loops_too() -> None:
    waits = np.column_stack([np.full(K, 0.01), np.full(K, 0.25)])
    m = measured(even(), wait_s=waits, n_threads=2, priority="normal")
    assert (m.wait_share, m.priority) == (0.25, "normal")
    assert m.generator_waited == "waited for a core 25 % of the time (limit 5 %)"
    assert m.generator_limited == ""
    assert measured(even(), wait_s=waits / 10, n_threads=2).generator_waited == ""
    unknown = measured(even())
    assert (unknown.wait_share, unknown.wakeup_p99_ms, unknown.generator_waited) == (None, None, "")


def test_long_queries_tell_the_waits_of_the_generator_too() -> None:
    rows = [(float(i), i + 1.0, 0, Outcome.OK) for i in range(10)]
    m = summarise(replace(log_of(rows, duration_s=10), wait_s=2.0, steal_s=1.0, priority="normal"), (0.0, 10.0))
    assert (m.wait_share, m.steal_share, m.priority) == (0.2, 0.1, "normal")
    assert m.generator_waited == "waited for a core 20 % of the time (limit 5 %)"


def test_a_few_late_ones_do_not_matter() -> None:
    assert measured(even(), lateness=buckets_of([(0, 0, 50_000)])).generator_limited == ""


def test_cpu_counts_for_long_queries_too() -> None:
    rows = [(i * 0.5, i * 0.5 + 0.5, 0, Outcome.OK) for i in range(20)]
    m = summarise(log_of(rows, duration_s=10, client_cpu_s=9), (0.0, 10.0))
    assert m.generator_limited == "the load generator used 90 % of its core (limit 80 %)"


def test_shedding_is_overload_and_its_latencies_are_censored() -> None:
    m = measured(even(), is_open=True, offered=np.full(K, 101), shed=np.full(K, 1))
    assert m.overload == "1.0 % of the requests were dropped (limit 0.1 %)"
    assert m.throughput.estimate == pytest.approx(100)
    for interval in (m.latency_mean_ms, *m.latency_ms.values()):
        assert (interval.estimate, interval.high) == (math.inf, math.inf)
        assert interval.low == pytest.approx(1.0, rel=0.1)
    assert m.by_label["op0"].latency_p95_ms == pytest.approx(1.0)
    assert m.n_shed == 10


def test_falling_behind_is_overload() -> None:
    m = measured(even(), is_open=True, offered=np.full(K, 110), users=16)
    assert m.overload == "only 90.9 % of the requests that were due were done (limit 99 %)"


def test_what_is_just_beyond_a_limit_is_told_from_it() -> None:
    assert cpu_limit(0.803, 1) == "the load generator used 80.3 % of its core (limit 80 %)"
    assert starvation(0.0512) == "waited for a core 5.1 % of the time (limit 5 %)"
    assert lateness_limit(2.0004, 1.0).endswith("lateness p99=2.0004 ms (limit 2 ms)")
    dropped = overload(offered=100_000, shed=102, done=99_898, users=1)
    assert dropped == "0.102 % of the requests were dropped (limit 0.1 %)"
    behind = overload(offered=100_000, shed=0, done=98_970, users=1)
    assert behind == "only 98.97 % of the requests that were due were done (limit 99 %)"


def test_what_is_under_way_at_the_end_is_no_overload() -> None:
    assert measured(even(), is_open=True, offered=np.full(K, 102), users=32).overload == ""


def test_failed_requests_were_answered() -> None:
    failed = [(second, 0, 5) for second in range(K) for _ in range(10)]
    assert measured(even(), failed=failed, is_open=True, offered=np.full(K, 110)).overload == ""


def test_a_closed_loop_is_never_overloaded() -> None:
    m = measured(even(), offered=np.full(K, 200))
    assert (m.overload, m.latency_ms["p50"].estimate) == ("", 1.0)
