"""Percentiles of latencies with intervals that need no distribution, know about autocorrelation and about time-outs.

The interval runs between two order statistics whose ranks come from the binomial distribution (David & Nagaraja 2003,
Order Statistics, section 7.1). Latencies that hang together carry less information than their number says, so the
number is divided by the design effect: the variance of "share of operations below the percentile", estimated over
blocks of time, over what it would be for independent operations (Korn & Graubard 1998, Survey Methodology 24(2)). A
bootstrap would need no formula, but it cannot say that twelve operations do not bound their 99th percentile.

    symbol   meaning                                                shape
    x        latencies, ascending; time-outs with their time-out    (n,)
    block    index of the block of time of each operation           (n,)
    n_eff    n over the design effect
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.measure.interval import check_level, long_run_se, unknown_interval
from trimtab.measure.measurement import Interval
from trimtab.measure.quantile import binomial_quantile, normal_quantile, t_quantile

__all__ = ["counted_percentile_interval", "percentile_interval", "value_at"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_RANK_SLACK = 1e-9
"""Keeps a product such as 0.07 * 100 = 7.000000000000001 on rank 7."""


def percentile_interval(
    values: Floats,
    share: float,
    *,
    block: Ints | None = None,
    n_blocks: int = 0,
    is_censored: Bools | None = None,
    level: float = 0.95,
) -> Interval:
    """The `share`-quantile (0.99 for p99) of `values`, by nearest rank as HDR histograms have it.

    Args:
        values: (n,) latencies, 0 or more.
        share: in (0, 1).
        block: (n,) block of time of each value, in [0, n_blocks); None for independent values.
        n_blocks: number of blocks; blocks may be empty.
        is_censored: (n,) values known only to be at least this long.
        level: confidence.

    Returns:
        An interval in the unit of `values`. `low` is 0 and `high` infinite where so few values do not bound the
        percentile; `high` is also infinite when it would fall on a censored value. NaN estimate for no values.

    Raises:
        UsageError: `level` is not inside (0, 1).
    """
    check_level(level)
    n = len(values)
    if n == 0:
        return unknown_interval(level)
    order = np.argsort(values, kind="stable")
    x = values[order]
    estimate = float(x[_rank(share, n) - 1])
    n_eff = float(n)
    if block is not None:
        below = _per_block(block, values <= estimate, n_blocks)
        n_eff = n / _design_effect(below, _per_block(block, np.ones(n), n_blocks))
    low_share, high_share = _rank_shares(share, n_eff, level)
    low = float(x[max(1, math.floor(low_share * n + _RANK_SLACK)) - 1]) if low_share > 0 else 0.0
    high = math.inf
    if high_share <= 1:
        high_rank = min(n, max(_rank(high_share, n), _rank(share, n)))
        is_open = is_censored is not None and bool(is_censored[order][:high_rank].any())
        high = math.inf if is_open else float(x[high_rank - 1])
    low = min(low, estimate)
    return Interval(estimate, low, high, level, _standard_error(estimate, low, high, level), n_eff)


def _rank(share: float, n: int) -> int:
    return min(n, max(1, math.ceil(share * n - _RANK_SLACK)))


def _rank_shares(share: float, n_eff: float, level: float) -> tuple[float, float]:
    """Ranks of the two bounding order statistics over n_eff; 0 or more than 1 where there is no bound."""
    m = max(1, math.floor(n_eff))
    tail = (1 - level) / 2
    low = binomial_quantile(tail, m, share)
    high = binomial_quantile(1 - tail, m, share) + 1
    return low / m, high / m


def counted_percentile_interval(
    values: Floats,
    counts: Ints,
    share: float,
    *,
    second: Ints,
    n_seconds: int,
    is_censored: Bools | None = None,
    level: float = 0.95,
) -> Interval:
    """As `percentile_interval`, for histogram buckets: `counts[i]` operations of `values[i]` in `second[i]`.

    Seconds are few, so that the design effect is itself uncertain: the effective number shrinks by (z / t)^2, with t of
    the effect's degrees of freedom (Korn & Graubard 1998).

    Args:
        values: (m,) bucket values, 0 or more.
        counts: (m,) operations in each.
        share: in (0, 1).
        second: (m,) in [0, n_seconds).
        n_seconds: seconds that were observed, with operations or without.
        is_censored: (m,) buckets whose operations lasted at least that long.
        level: confidence.

    Returns:
        As `percentile_interval`; without bounds when fewer than two seconds were observed.
    """
    check_level(level)
    n = int(counts.sum())
    if n == 0:
        return unknown_interval(level)
    order = np.argsort(values, kind="stable")
    x, until = values[order], np.cumsum(counts[order])
    estimate = float(x[np.searchsorted(until, _rank(share, n))])
    below = _per_block(second, counts * (values <= estimate), n_seconds)
    n_eff = _counted_n_eff(below, _per_block(second, counts, n_seconds), level)
    low_share, high_share = _rank_shares(share, n_eff, level) if n_eff >= 1 else (0.0, math.inf)
    low, high = 0.0, math.inf
    if low_share > 0:
        low = min(estimate, float(x[np.searchsorted(until, max(1, math.floor(low_share * n + _RANK_SLACK)))]))
    if high_share <= 1:
        top = int(np.searchsorted(until, min(n, max(_rank(high_share, n), _rank(share, n)))))
        is_open = is_censored is not None and bool(is_censored[order][: top + 1].any())
        high = math.inf if is_open else float(x[top])
    return Interval(estimate, low, high, level, _standard_error(estimate, low, high, level), n_eff)


def value_at(values: Floats, counts: Ints, share: float, n_zeros: int = 0) -> float:
    """The `share`-quantile of counted values, of which `n_zeros` more are 0; NaN for none at all."""
    n = int(counts.sum()) + n_zeros
    if n == 0:
        return math.nan
    rank = _rank(share, n)
    if rank <= n_zeros:
        return 0.0
    order = np.argsort(values, kind="stable")
    return float(values[order][np.searchsorted(n_zeros + np.cumsum(counts[order]), rank)])


def _per_block(block: Ints, weights: NDArray[Any], n_blocks: int) -> Floats:
    return np.bincount(block, weights, minlength=n_blocks).astype(np.float64)


def _counted_n_eff(below: Floats, counts: Floats, level: float) -> float:
    """Effective number of operations; 0 when a single second tells nothing of how they hang together."""
    _, dof = long_run_se(counts)
    if dof < 1:
        return 0.0
    effect, z = _design_effect(below, counts), normal_quantile((1 + level) / 2)
    if effect > 1:
        effect *= (t_quantile((1 + level) / 2, dof) / z) ** 2
    return float(counts.sum()) / effect


def _design_effect(below: Floats, counts: Floats) -> float:
    """How many times the variance of sum(below) / sum(counts) over blocks exceeds that of independent values; at least 1."""
    n = float(counts.sum())
    p = float(below.sum()) / n
    se, dof = long_run_se(below - p * counts)
    if dof < 1 or not 0 < p < 1:
        return 1.0
    return float(max(1.0, (se * len(counts) / n) ** 2 / (p * (1 - p) / n)))


def _standard_error(estimate: float, low: float, high: float, level: float) -> float:
    """Half width over the normal quantile; from the lower side alone when the upper is open; NaN for no bounds."""
    z = normal_quantile((1 + level) / 2)
    if math.isfinite(high):
        return (high - low) / 2 / z
    return (estimate - low) / z if low > 0 else math.nan
