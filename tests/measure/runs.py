"""Logs of load runs made by hand or by simulation, and series with known autocorrelation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trimtab.measure import Outcome, QueryLog

Row = tuple[float, float, int, Outcome]
"""(start_s, end_s, label, outcome) of one operation."""


def log_of(rows: Sequence[Row], *, n_labels: int = 1, duration_s: float = 0.0, client_cpu_s: float = 0.0) -> QueryLog:
    """The log of `rows`, ordered by their ends; every row is a stream of its own."""
    rows = sorted(rows, key=lambda row: row[1])
    return QueryLog(
        labels=tuple(f"q{i}" for i in range(n_labels)),
        stream=np.arange(len(rows), dtype=np.int32),
        label=np.array([row[2] for row in rows], dtype=np.int32),
        start_s=np.array([row[0] for row in rows], dtype=np.float64),
        end_s=np.array([row[1] for row in rows], dtype=np.float64),
        rows=np.zeros(len(rows), dtype=np.int64),
        outcome=np.array([row[3] for row in rows], dtype=np.uint8),
        duration_s=duration_s,
        client_cpu_s=client_cpu_s,
    )


def lognormal(rng: np.random.Generator, mean: float, cv: float) -> float:
    """One duration of the given mean and coefficient of variation."""
    sigma = np.sqrt(np.log1p(cv**2))
    return float(rng.lognormal(np.log(mean) - sigma**2 / 2, sigma))


def closed_loop(
    rng: np.random.Generator, *, means: Sequence[float], streams_per_label: int, cv: float, duration_s: float
) -> QueryLog:
    """Streams that each repeat one query without a pause; what runs at the end is cancelled."""
    rows: list[Row] = []
    for label, mean in enumerate(means):
        for _ in range(streams_per_label):
            start = 0.0
            while start < duration_s:
                end = start + lognormal(rng, mean, cv)
                rows.append((start, min(end, duration_s), label, Outcome.OK if end < duration_s else Outcome.CANCELLED))
                start = end
    return log_of(rows, n_labels=len(means), duration_s=duration_s)


def ar1(rng: np.random.Generator, n_series: int, k: int, phi: float) -> NDArray[np.float64]:
    """(n_series, k) stationary AR(1) series of mean 0 and variance 1."""
    series = np.empty((n_series, k))
    series[:, 0] = rng.standard_normal(n_series)
    for t in range(1, k):
        series[:, t] = phi * series[:, t - 1] + np.sqrt(1 - phi**2) * rng.standard_normal(n_series)
    return series
