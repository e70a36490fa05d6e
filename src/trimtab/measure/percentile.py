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

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from trimtab.measure.interval import check_level, long_run_se, unknown_interval
from trimtab.measure.measurement import Interval

__all__ = ["percentile_interval"]

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
        n_eff = n / _design_effect(values <= estimate, block, n_blocks)
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
    low = int(stats.binom.ppf(tail, m, share))
    high = int(stats.binom.ppf(1 - tail, m, share)) + 1
    return low / m, high / m


def _design_effect(is_below: Bools, block: Ints, n_blocks: int) -> float:
    """How many times the variance of mean(is_below) exceeds that of independent values; at least 1."""
    n = len(is_below)
    p = float(is_below.mean())
    se, dof = long_run_se(np.bincount(block, is_below - p, minlength=n_blocks).astype(np.float64))
    if dof < 1 or not 0 < p < 1:
        return 1.0
    return float(max(1.0, (se * n_blocks / n) ** 2 / (p * (1 - p) / n)))


def _standard_error(estimate: float, low: float, high: float, level: float) -> float:
    """Half width over the normal quantile; from the lower side alone when the upper is open; NaN for no bounds."""
    z = float(stats.norm.ppf((1 + level) / 2))
    if math.isfinite(high):
        return (high - low) / 2 / z
    return (estimate - low) / z if low > 0 else math.nan
