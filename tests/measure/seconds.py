"""SecondLogs made by hand or by simulation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.measure import Buckets, SecondLog

from .runs import ar1

Operation = tuple[int, int, int]
"""(second, label, value_us)."""


def buckets_of(operations: Sequence[Operation]) -> Buckets:
    return Buckets.of([(second, label, value, 1) for second, label, value in operations])


def seconds_log(
    k: int,
    operations: Sequence[Operation] = (),
    *,
    failed: Sequence[Operation] = (),
    n_labels: int = 1,
    timed_out: Sequence[int] | None = None,
    **changes: Any,
) -> SecondLog:
    """A run of `k` whole seconds in which `operations` succeeded and `failed` did not."""
    credited = np.bincount([second for second, _, _ in operations] or [0], minlength=k).astype(np.float64)
    if not operations:
        credited[:] = 0
    values: dict[str, Any] = {
        "labels": tuple(f"op{i}" for i in range(n_labels)),
        "duration_s": float(k),
        "credited": credited,
        "response": buckets_of(operations),
        "service": buckets_of(operations),
        "error": buckets_of(failed),
        "offered": credited.astype(np.int64) + np.bincount([s for s, _, _ in failed], minlength=k)
        if failed
        else credited.astype(np.int64),
        "shed": np.zeros(k, dtype=np.int64),
        "timed_out": np.array(timed_out if timed_out is not None else [0] * k, dtype=np.int64),
        "client_cpu_s": np.full(k, 0.1),
        "steal_s": np.zeros(k),
    }
    return SecondLog(**{**values, **changes})


def simulated(rng: np.random.Generator, *, k: int, per_s: float, phi: float = 0.0, wander: float = 0.0) -> SecondLog:
    """Lognormal latencies of median 1 ms (sigma 0.5) whose logarithm also wanders from second to second, as AR(1)."""
    level = ar1(rng, 1, k, phi)[0] * wander
    counts = rng.poisson(per_s * np.exp(-level))
    second = np.repeat(np.arange(k), counts)
    value = np.maximum(1, np.rint(1000 * np.exp(level[second] + 0.5 * rng.standard_normal(len(second))))).astype(
        np.int64
    )
    keys, count = np.unique(second * 10_000_000 + value, return_counts=True)
    buckets = Buckets(
        keys // 10_000_000, np.zeros(len(keys), dtype=np.int64), (keys % 10_000_000).astype(np.float64), count
    )
    return seconds_log(
        k,
        credited=counts.astype(np.float64),
        offered=counts.astype(np.int64),
        response=buckets,
        service=buckets,
    )


def true_quantiles(wander: float, shares: Sequence[float]) -> NDArray[np.float64]:
    """Of `simulated`, in ms: slow seconds have fewer operations, in the measure exp(-level)."""
    # Weighting a normal level by exp(-level) moves its mean by -wander^2.
    rng = np.random.default_rng(12345)
    level = wander * rng.standard_normal(2_000_000) - wander**2
    return np.quantile(np.exp(level + 0.5 * rng.standard_normal(2_000_000)), shares)
