"""The values that the measure room makes: a QueryLog (long operations) or a SecondLog in, a Measurement out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from trimtab.measure.second_log import SecondLog

__all__ = ["Interval", "LabelStats", "Measurement", "Outcome", "QueryLog"]


class Outcome(IntEnum):
    """How one operation ended."""

    OK = 0
    ERROR = 1
    TIMED_OUT = 2
    """Cut off by its own time-out: its latency is censored (at least this long)."""
    CANCELLED = 3
    """Still running when the load was stopped; `end_s` is the moment of the stop."""


@dataclass(frozen=True, slots=True)
class QueryLog:
    """Every operation of one load run, as columns of equal length n, ordered by `end_s`.

    Attributes:
        labels: operation names; `label` indexes into it.
        stream: (n,) which stream (client) ran it.
        label: (n,) index into `labels`.
        start_s, end_s: (n,) seconds since the run's start.
        rows: (n,) rows returned or touched.
        outcome: (n,) values of `Outcome`.
        errors: texts of the first errors (at most 100), each with its SQLSTATE where there is one.
        duration_s: length of the run.
        client_cpu_s: CPU seconds that the load generator itself used.
        wait_s: seconds that its thread was ready to run and had no core; None where the system does not say.
        steal_s: CPU seconds that the hypervisor took from this machine; None when not known.
        priority: what its thread had: "normal", "short slices" or "real-time"; "" when not known.
    """

    labels: tuple[str, ...]
    stream: NDArray[np.int32]
    label: NDArray[np.int32]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    rows: NDArray[np.int64]
    outcome: NDArray[np.uint8]
    errors: tuple[str, ...] = ()
    duration_s: float = 0.0
    client_cpu_s: float = 0.0
    wait_s: float | None = None
    steal_s: float | None = None
    priority: str = ""

    def __len__(self) -> int:
        return len(self.start_s)


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with a two-sided confidence interval.

    `low <= estimate <= high`; infinite ends mean that the data does not bound it. `se` is the standard error (NaN when
    unknown) and `n` the effective number of independent observations behind it.
    """

    estimate: float
    low: float
    high: float
    level: float = 0.95
    se: float = float("nan")
    n: float = 0.0

    @property
    def relative_half_width(self) -> float:
        """Half the interval's width over the estimate; inf when the estimate is 0."""
        return (self.high - self.low) / 2 / abs(self.estimate) if self.estimate else float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelStats:
    """Figures of one operation type within the window; latencies of successful operations only.

    `throughput` and `latency_ms` ("p50", "p95", "p99") are the same figures with intervals: None and empty in runs that
    were stored by older versions.
    """

    n_ok: int
    n_error: int
    n_timed_out: int
    throughput_per_s: float
    latency_mean_ms: float
    latency_p50_ms: float
    latency_p95_ms: float
    latency_max_ms: float
    throughput: Interval | None = None
    latency_ms: Mapping[str, Interval] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What one run of a workload showed inside its window.

    Attributes:
        window_s: (start, end) of the window within the run.
        throughput: successful operations per second; an operation that crosses an edge counts by the share of its run
            inside the window.
        latency_mean_ms: mean response time of operations; a timed-out one counts with its time-out (censored). Infinite,
            with what was seen as lower end, when the run was overloaded.
        latency_ms: "p50", "p95", "p99" -> interval of the response time; infinite in the same way.
        n_ok, n_error, n_timed_out: operations that ended inside the window.
        is_steady: whether warm-up ended by rule and not by the cap.
        warmup_s: seconds of the run before the window; where a workload makes its data afresh, as old they are then.
        series_per_s: (k,) credited throughput of each whole second of the run, warm-up included.
        histogram: successful latencies in microseconds, HDR V2-deflate bytes.
        by_label: figures per operation type.
        client_cpu_share: generator CPU seconds per second.
        errors: texts of the first errors.
        service_ms: "p50", "p95", "p99" of the time from sending to the answer; empty when it is not known apart.
        queue_p99_ms: 99th percentile of the wait for a free user; None when not known.
        lateness_p99_ms: 99th percentile of the generator's own lateness; None when not known.
        is_open, users: load model: requests by a schedule or one after the other; connections (0: not known).
        is_observed: whether the requests were an application's own, so that the throughput says what its users asked for.
        n_threads: of the generator.
        offered_per_s: requests that were due per second; None when not known.
        n_shed: requests that were dropped because too many waited already.
        n_retries: tries beyond the first of operations that succeeded in the end.
        error_classes: failed operations of the whole run, warm-up included, by class.
        steal_share: CPU seconds per second that the hypervisor took from the machine, all cores together; None when not known.
        memory_bytes: what the generator's buffers and histograms held; 0 when not known.
        wakeup_p99_ms: 99th percentile of how late the generator's timer fired; None when not known.
        wait_share: part of the time in which the generator's thread that waited longest was ready to run and had no core;
            None when not known.
        priority: of the generator's threads: "normal", "short slices" or "real-time"; "" when not known.
        generators: where each generator in a process of its own ran, its threads, its clock and its start; empty for none.
        generator_limited: why the generator, and not the server, was measured; "" when it was not.
        generator_waited: how the generator went short of a core, so that latencies hold waits of its own; "" when it did not.
        overload: in an open loop, why the server did not keep up with the rate; "" when it did.
        figure: what a program has reported of itself, in its own unit; None for a workload.
        log: the raw log while in memory; never stored.
    """

    window_s: tuple[float, float]
    throughput: Interval
    latency_mean_ms: Interval
    latency_ms: Mapping[str, Interval]
    n_ok: int
    n_error: int
    n_timed_out: int
    is_steady: bool
    warmup_s: float
    series_per_s: tuple[float, ...]
    histogram: bytes = b""
    by_label: Mapping[str, LabelStats] = field(default_factory=dict)
    client_cpu_share: float = 0.0
    errors: tuple[str, ...] = ()
    service_ms: Mapping[str, float] = field(default_factory=dict)
    queue_p99_ms: float | None = None
    lateness_p99_ms: float | None = None
    is_open: bool = False
    is_observed: bool = False
    users: int = 0
    n_threads: int = 1
    offered_per_s: float | None = None
    n_shed: int = 0
    n_retries: int = 0
    error_classes: Mapping[str, int] = field(default_factory=dict)
    steal_share: float | None = None
    memory_bytes: int = 0
    wakeup_p99_ms: float | None = None
    wait_share: float | None = None
    priority: str = ""
    generators: tuple[str, ...] = ()
    generator_limited: str = ""
    generator_waited: str = ""
    overload: str = ""
    figure: Interval | None = None
    log: QueryLog | SecondLog | None = field(default=None, repr=False, compare=False)

    @property
    def duration_s(self) -> float:
        """Length of the window."""
        return self.window_s[1] - self.window_s[0]

    @property
    def error_rate(self) -> float:
        """Share of operations in the window that failed (time-outs are censored, not failed); 0 when none ran."""
        total = self.n_ok + self.n_error + self.n_timed_out
        return self.n_error / total if total else 0.0
