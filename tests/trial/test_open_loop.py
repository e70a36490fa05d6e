"""In an open loop the throughput is steady from the first second on: the response time says when a cold server is warm."""

from __future__ import annotations

import numpy as np
import pytest

from trimtab.measure import Buckets, QueryLog, SecondLog
from trimtab.records import Endpoint
from trimtab.trial import MeasurePlan
from trimtab.trial.load import LoadResult, measure_load
from trimtab.workload import Frame

ENDPOINT = Endpoint(protocol="fake", host="", port=0, user="", password="", database="")
PLAN = MeasurePlan(window_s=5, window_max_s=5, warmup_floor_s=2, warmup_cap_s=40)


class ColdServer:
    """A workload and its run: 2,000 requests come each second, and the first `n_cold` seconds answer slowly."""

    def __init__(self, n_cold: int, *, is_open: bool, noise: float = 0.02) -> None:
        self.n_cold, self.is_open, self.noise = n_cold, is_open, noise
        self.second = 0
        self.rng = np.random.default_rng(7)

    def start(self, endpoint: Endpoint, *, seed: int, duration_s: float) -> ColdServer:
        return self

    def frame(self, timeout_s: float) -> Frame:
        cold = max(0.0, 1 - self.second / self.n_cold) if self.n_cold else 0.0
        p95_ms = 10 * (1 + 20 * cold) * (1 + self.noise * self.rng.standard_normal())
        n = int(self.rng.poisson(2000))
        self.second += 1
        return Frame(
            second=self.second - 1,
            n_ok=n,
            n_error=0,
            credited=n,
            response_p95_us=int(1e3 * p95_ms),
            is_open=self.is_open,
        )

    @property
    def is_done(self) -> bool:
        return False

    def stop(self) -> QueryLog | SecondLog:
        n, length = 20 * self.second, float(self.second)
        end = np.linspace(0.05, length, n)
        columns = {"stream": np.zeros(n, "<i4"), "label": np.zeros(n, "<i4"), "rows": np.ones(n, "<i8")}
        return QueryLog(
            labels=("q",), start_s=end - 0.01, end_s=end, outcome=np.zeros(n, "u1"), errors=(), duration_s=length,
            client_cpu_s=0.0, **columns,
        )  # fmt: skip


class StatedRate(ColdServer):
    """As above, with each second's own response times, which are lognormal once the server is warm."""

    warm_p99_ms = float(5 * np.exp(0.5 * 2.3263))

    def __init__(self, n_cold: int) -> None:
        super().__init__(n_cold, is_open=True)
        self.seconds: list[np.ndarray] = []

    def frame(self, timeout_s: float) -> Frame:
        cold = max(0.0, 1 - self.second / self.n_cold)
        values = 5e3 * (1 + 20 * cold) * np.exp(0.5 * self.rng.standard_normal(self.rng.poisson(2000)))
        self.seconds.append(np.maximum(1, values.astype(np.int64)))
        self.second += 1
        n, p95 = len(values), int(np.percentile(values, 95))
        return Frame(second=self.second - 1, n_ok=n, n_error=0, credited=n, response_p95_us=p95, is_open=True)

    def stop(self) -> SecondLog:
        counted = [np.unique(values, return_counts=True) for values in self.seconds]
        rows = [
            (s, 0, int(v), int(n))
            for s, (values, counts) in enumerate(counted)
            for v, n in zip(values, counts, strict=True)
        ]
        buckets, n = Buckets.of(rows), np.array([len(values) for values in self.seconds])
        zeros = np.zeros(self.second)
        return SecondLog(
            labels=("q",), duration_s=float(self.second), credited=n.astype(float), response=buckets, service=buckets, offered=n,
            shed=zeros.astype(int), timed_out=zeros.astype(int), client_cpu_s=zeros, steal_s=zeros, is_open=True, users=64,
        )  # fmt: skip


def test_at_a_stated_rate_the_p99_of_the_window_is_that_of_the_warm_server() -> None:
    server = StatedRate(15)
    found = measured(server, MeasurePlan(window_s=10, window_max_s=10, warmup_floor_s=2, warmup_cap_s=40)).measurement
    assert found is not None
    p99 = found.latency_ms["p99"]
    assert p99.low <= server.warm_p99_ms <= p99.high
    assert p99.estimate == pytest.approx(server.warm_p99_ms, rel=0.1)
    cold = float(np.percentile(np.concatenate(server.seconds[:10]), 99)) / 1e3
    assert cold > 5 * p99.high, "the first ten seconds, which a throughput that is steady at once would have measured"


def measured(server: ColdServer, plan: MeasurePlan = PLAN) -> LoadResult:
    return measure_load(server, ENDPOINT, plan, seed=1)  # type: ignore[arg-type]


def test_the_window_waits_until_the_response_time_is_steady() -> None:
    warmed = measured(ColdServer(15, is_open=True))
    assert warmed.measurement is not None
    assert warmed.measurement.is_steady
    assert warmed.warmup_s >= 12


def test_in_a_closed_loop_the_throughput_tells() -> None:
    assert measured(ColdServer(15, is_open=False)).warmup_s < 5


def test_a_server_that_stays_slow_to_the_cap_is_not_called_steady() -> None:
    plan = MeasurePlan(window_s=5, window_max_s=5, warmup_floor_s=2, warmup_cap_s=8)
    cold = measured(ColdServer(60, is_open=True), plan)
    assert cold.measurement is not None
    assert not cold.measurement.is_steady
    assert cold.warmup_s == 8


def test_a_restless_response_time_takes_the_longer_window() -> None:
    plan = MeasurePlan(window_s=10, window_max_s=20, warmup_floor_s=0, warmup_cap_s=40, precision=0.03)
    assert measured(ColdServer(0, is_open=True, noise=0.01), plan).measure_s == 10
    assert measured(ColdServer(0, is_open=True, noise=0.3), plan).measure_s == 20
