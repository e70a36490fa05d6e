"""Compares a candidate with the baseline by pairs of runs that stood next to each other in time.

What slows the machine for a while slows both runs of a pair, so it cancels in their ratio (Bulej et al. 2020, "Duet
benchmarking", ICPE). Ratios are compared as logarithms: twice as fast and half as fast are equally far away.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import LoadError
from trimtab.measure.interval import check_level, student_interval
from trimtab.measure.measurement import Interval
from trimtab.measure.quantile import t_tail

__all__ = ["PairedComparison", "compare_pairs", "exp_interval", "log_gain"]

_LARGEST = 700.0
"""Whose exponential a number can hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedComparison:
    """How many times better the candidate was than the baseline.

    Attributes:
        ratio: more than 1 is better, whatever the metric's direction; `se` is that of log(ratio). The ends are 0 and
            inf when one pair is all there is.
        n_pairs: pairs of runs.
        p_value: two-sided, of "no difference"; NaN for one pair.
        gains: (n_pairs,) the ratio of every single pair.
    """

    ratio: Interval
    n_pairs: int
    p_value: float
    gains: tuple[float, ...]

    def is_better(self, delta: float = 0.0) -> bool:
        """Whether the whole interval lies above 1 + delta."""
        return self.ratio.low > 1 + delta


def compare_pairs(
    baseline: Sequence[float], candidate: Sequence[float], is_maximised: bool, level: float = 0.95
) -> PairedComparison:
    """Student's t interval on the log-ratios of pairs (baseline[i], candidate[i]).

    Valid for a number of pairs fixed beforehand. Whoever looks after each pair and stops when it suits needs
    `PairedSequence`.

    Args:
        baseline, candidate: (n,) values of the metric, each pair measured next to each other; positive and finite.
        is_maximised: whether more of the metric is better.
        level: confidence of the interval.

    Raises:
        LoadError: no pairs, unequal numbers, or a value that is not positive and finite.
        UsageError: `level` is not inside (0, 1).
    """
    check_level(level)
    if len(baseline) != len(candidate) or len(baseline) == 0:
        raise LoadError(
            f"pairs need as many baseline as candidate values: n_baseline={len(baseline)} n_candidate={len(candidate)}",
            hint="measure baseline and candidate in turns",
        )
    gains = np.array([log_gain(b, c, is_maximised) for b, c in zip(baseline, candidate, strict=True)])
    n = len(gains)
    mean = float(gains.mean())
    se = float(gains.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return PairedComparison(
        ratio=exp_interval(student_interval(mean, se, n - 1, level, n=n)),
        n_pairs=n,
        p_value=_p_value(gains, mean, se),
        gains=tuple(np.exp(gains).tolist()),
    )


def log_gain(baseline: float, candidate: float, is_maximised: bool) -> float:
    """log of how many times better `candidate` is than `baseline`; more than 0 is better.

    Raises:
        LoadError: a value is not positive and finite.
    """
    if not (0 < baseline < math.inf and 0 < candidate < math.inf):
        raise LoadError(
            f"cannot compare baseline={baseline:g} with candidate={candidate:g}: both must be positive and finite",
            hint="look at the errors and time-outs of the two runs",
        )
    gain = math.log(candidate / baseline)
    return gain if is_maximised else -gain


def exp_interval(log_interval: Interval) -> Interval:
    """The interval of exp(x) from that of x; `se` stays that of x. What no number could hold is 1e304 instead."""
    low, high = log_interval.low, log_interval.high
    return Interval(
        math.exp(min(log_interval.estimate, _LARGEST)),
        math.exp(min(low, _LARGEST)),
        math.exp(min(high, _LARGEST)) if math.isfinite(high) else math.inf,
        log_interval.level,
        log_interval.se,
        log_interval.n,
    )


def _p_value(gains: NDArray[np.float64], mean: float, se: float) -> float:
    if len(gains) < 2:
        return math.nan
    if se == 0:
        return 1.0 if mean == 0 else 0.0
    return 2 * t_tail(abs(mean) / se, len(gains) - 1)
