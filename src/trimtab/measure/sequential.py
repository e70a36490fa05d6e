"""Verdicts that stay valid however often one looks: after each pair of runs, after each second of a run.

Where the number of looks is bounded beforehand, the narrower intervals of `repeated` serve; the rest of this text is of those for
any number.

A test made for a fixed number of observations and looked at after each claims a difference between equal configs far
too often (25 to 30 % instead of 5 %). The t-mixture confidence sequence bounds the chance that the interval EVER
misses the mean, over all numbers of observations together, with the variance unknown.

    symbol   meaning
    x        observations, n so far; their mean, and A = sum (x - mean)^2
    c2       prior precision of the standardised effect; effect ~ N(0, 1 / c2)
    T        (sqrt((n + c2) / c2) / alpha)^(2 / n)
    g        (1 - 1 / T) (n + c2)

    P(exists n: |mean - mu| >= sqrt(g A / (n (n - g)))) <= alpha      unbounded while g >= n

Runs of other configs may already have shown how large the noise is: a sum of squares Q with v degrees of freedom (a
`NoisePool`). They join the likelihood of the variance alone, so A becomes A + Q and the exponent of T 2 / (n + v):

    |mean - mu|^2 < (T - 1) (A + Q) / (n (1 - T c2 / (n + c2)))       for v = 0 the bound above

Runs that lie apart in time may scatter more than pairs of neighbours do: then the pool makes the bound wider. A hedged
bound is the narrower of the two, a fifth of alpha being for the one with the pool, so that together they miss as seldom
as one. Where the observations scatter clearly more than the pool, whose runs are of other configs, it is left out.

Sources: Lai (1976), "On confidence sequences", Annals of Statistics 4(2), for the idea; Wang & Ramdas, "Anytime-valid
t-tests and confidence sequences for Gaussian means with unknown variance" (arXiv:2310.03722), for the Gaussian mixture
over the standardised effect in the scale-invariant filtration, of which the bound above is the inversion.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import LoadError, UsageError
from trimtab.measure.compare import PairedComparison, exp_interval, log_gain
from trimtab.measure.interval import check_level, unknown_interval
from trimtab.measure.measurement import Interval
from trimtab.measure.quantile import f_tail, t_tail
from trimtab.measure.repeated import Looks, false_alarm, repeated_half_width

__all__ = [
    "EarlyStop",
    "NoisePool",
    "PairedSequence",
    "Verdict",
    "anytime_interval",
    "expected_half_width",
    "observations_needed",
]

Floats = NDArray[np.float64]
Verdict = Literal["better", "not_better", "undecided"]

_PRIOR_PRECISION = 0.09
"""c2: effects of about three standard deviations of one pair. Gains worth having are larger than the noise, and a
small c2 gives the narrowest intervals for 3 to 10 observations, the numbers that a study can afford."""


@dataclass(frozen=True, slots=True)
class NoisePool:
    """What other observations of the same noise have shown of its variance.

    Attributes:
        squares: their sum of squared deviations from their own means.
        df: degrees of freedom of it; 0: nothing is known.
    """

    squares: float = 0.0
    df: float = 0.0


_NOTHING = NoisePool()

_LEAST_HEDGED = 3.0
"""Degrees of freedom from which on a pool is worth its share of the error."""

_MISFIT = 0.1
"""Chance at which observations that scatter so much more than the pool are taken for noisier ones."""

_HEDGE = 0.2
"""That share. The pool decides while there are three to six pairs. More of them know their own noise, and that they have less of
the error costs them 3 % of the interval's width."""


def anytime_interval(
    values: Floats,
    level: float = 0.95,
    *,
    inflation: float = 1.0,
    pool: NoisePool = _NOTHING,
    looks: Looks | None = None,
) -> Interval:
    """Interval for the mean of independent normal values of unknown variance, valid at every n at once.

    Args:
        values: (n,) all observations so far.
        level: chance that no interval of the whole sequence misses the mean.
        inflation: factor on the variance, for observations that hang together.
        pool: what is known of the variance beforehand; valid where the noise is the same there and here.
        looks: after which observations one looks, as it was settled before the first; None: after each, of any number.

    Returns:
        Infinite ends while n is too small (n < 3 at level 0.95 without a pool); NaN estimate for no values.

    Raises:
        ValueError: there are more values than `looks` allow.
    """
    check_level(level)
    n = len(values)
    if n == 0:
        return unknown_interval(level)
    mean = float(values.mean())
    squares = float(((values - mean) ** 2).sum()) * inflation
    df = n - 1 + pool.df
    se = math.sqrt((squares + pool.squares) / df / n) if df > 0 else math.nan
    half = _half_width(n, squares, level, pool, looks)
    return Interval(mean, mean - half, mean + half, level, se, n)


def _hedges(pool: NoisePool, level: float) -> tuple[tuple[NoisePool, float], ...]:
    """The pools of the intervals that make a hedged one, each with its level."""
    if pool.df < _LEAST_HEDGED:
        return ((_NOTHING, level),)
    return (_NOTHING, 1 - (1 - _HEDGE) * (1 - level)), (pool, 1 - _HEDGE * (1 - level))


def _fits(values: Floats, pool: NoisePool) -> bool:
    """Whether the values scatter no more than what is known of their noise, as far as they tell (one-sided F test, 10 %)."""
    if pool.df == 0 or len(values) < 2:
        return True
    variance = float(values.var(ddof=1))
    if pool.squares == 0 or variance == 0:
        return variance == 0
    return f_tail(variance * pool.df / pool.squares, len(values) - 1, pool.df) >= _MISFIT


def _half_width(n: int, squares: float, level: float, pool: NoisePool, looks: Looks | None) -> float:
    """Of the interval of n observations with this sum of squared deviations; infinite where they are too few."""
    if looks is not None:
        return repeated_half_width(n, squares + pool.squares, n - 1 + pool.df, 1 - level, looks)
    c2, df = _PRIOR_PRECISION, pool.df
    threshold = (math.sqrt((n + c2) / c2) / (1 - level)) ** (2 / (n + df))
    reach = 1 - threshold * c2 / (n + c2)
    if n + df < 2 or reach <= 0:
        return math.inf
    return math.sqrt((threshold - 1) * (squares + pool.squares) / (n * reach))


def expected_half_width(n: int, sd: float, level: float = 0.95, looks: Looks | None = None) -> float:
    """Of `anytime_interval` for n observations with this standard deviation; infinite where they are too few."""
    return _half_width(n, (n - 1) * sd**2, level, _NOTHING, looks)


def observations_needed(
    effect: float, sd: float, cap: int, level: float = 0.95, pool: NoisePool = _NOTHING, looks: Looks | None = None
) -> int:
    """Observations after which the interval of a hedged `PairedSequence` is expected to leave out 0; without a `pool`, that of
    `anytime_interval`.

    Args:
        effect: their mean.
        sd: their standard deviation, 0 or more.
        cap: what is returned where more are needed, or none suffices (`effect` is not above 0).
        level: of the interval.
        pool: what is known of the variance beforehand.
        looks: when one looks, up to `cap` - 1 observations or more; None: after each, of any number.
    """
    hedges = _hedges(pool, level)
    for n in range(1, cap):
        if min(_half_width(n, (n - 1) * sd**2, each, known, looks) for known, each in hedges) <= effect:
            return n
    return cap


def _p_value_at(values: Floats, pool: NoisePool, looks: Looks | None) -> float:
    """The largest alpha whose interval holds 0, at most 1: for any number of looks, 1 over the mixture's e-value."""
    n, c2 = len(values), _PRIOR_PRECISION
    around_zero = float((values**2).sum()) + pool.squares
    if around_zero == 0:
        return 1.0
    explained = float(values.sum()) ** 2 / around_zero
    if looks is None:
        return float(min(1.0, math.sqrt((n + c2) / c2) * (1 - explained / (n + c2)) ** ((n + pool.df) / 2)))
    df, rest = n - 1 + pool.df, 1 - explained / n
    if df <= 0:
        return 1.0
    t = math.sqrt(explained / n * df / rest) if rest > 0 else math.inf
    return false_alarm(2 * t_tail(t, df), n, looks)


class PairedSequence:
    """Pairs of baseline and candidate runs, with a verdict that may be asked for after each pair.

        pairs = PairedSequence(is_maximised=True)
        while pairs.verdict(0.02) == "undecided" and budget_left():
            pairs.add(run(baseline), run(candidate))

    The chance of ever calling an equal candidate better is about (1 - level) / 2.
    """

    def __init__(
        self,
        *,
        is_maximised: bool,
        level: float = 0.95,
        pool: NoisePool = _NOTHING,
        is_hedged: bool = False,
        looks: Looks | None = None,
    ) -> None:
        """Takes the metric's direction, the confidence of the whole sequence, and what is known of the pairs' noise.

        Args:
            is_maximised: whether more of the metric is better.
            level: confidence of the whole sequence.
            pool: what is known of the pairs' noise.
            is_hedged: whether the pool counts only where it helps, for a fifth of the error, and neither below three degrees of
                freedom nor where the pairs scatter clearly more than it says; `se` of `ratio` is then that of the pairs alone.
            looks: after which pairs one looks; None: after each, of any number, for which the intervals are wider.

        Raises:
            UsageError: `level` is not inside (0, 1).
        """
        check_level(level)
        self._is_maximised = is_maximised
        self._level, self._looks = level, looks
        self._hedges = _hedges(pool, level) if is_hedged else ((pool, level),)
        self._log_gains: list[float] = []

    def add(self, baseline: float, candidate: float) -> None:
        """Takes one more pair.

        Raises:
            LoadError: a value is not positive and finite.
        """
        self._log_gains.append(log_gain(baseline, candidate, self._is_maximised))

    def __len__(self) -> int:
        return len(self._log_gains)

    @property
    def ratio(self) -> Interval:
        """How many times better the candidate is (more than 1 is better); `se` is that of the logarithm."""
        gains = np.array(self._log_gains)
        each = [anytime_interval(gains, level, pool=pool, looks=self._looks) for pool, level in self._used(gains)]
        low, high = max(one.low for one in each), min(one.high for one in each)
        return exp_interval(replace(each[0], low=low, high=high, level=self._level))

    def comparison(self) -> PairedComparison:
        """All pairs so far, with `ratio` and a p-value that hold however often they are looked at.

        Raises:
            LoadError: no pairs yet.
        """
        if not self._log_gains:
            raise LoadError("there are no pairs to compare", hint="measure baseline and candidate in turns")
        gains = np.array(self._log_gains)
        return PairedComparison(
            ratio=self.ratio,
            n_pairs=len(gains),
            p_value=self._p_value(gains),
            gains=tuple(np.exp(gains).tolist()),
        )

    def _used(self, gains: Floats) -> list[tuple[NoisePool, float]]:
        return [self._hedges[0], *(hedge for hedge in self._hedges[1:] if _fits(gains, hedge[0]))]

    def _p_value(self, gains: Floats) -> float:
        """The least of all looks, with the pool where it fits all pairs."""
        found = [1.0]
        for pool, level in self._used(gains):
            share = (1 - level) / (1 - self._level)
            found += [_p_value_at(gains[: i + 1], pool, self._looks) / share for i in range(len(gains))]
        return min(found)

    def verdict(self, delta: float = 0.0) -> Verdict:
        """Whether the candidate is better by more than the share `delta` (0.02: at least 2 %)."""
        ratio = self.ratio
        if ratio.low > 1 + delta:
            return "better"
        return "not_better" if ratio.high < 1 + delta else "undecided"


class EarlyStop:
    """Stops a run whose metric is clearly worse than the incumbent's, while it is running.

    Fed with one value per second (credited throughput) from the end of warm-up on. It stops when the always-valid
    bound of the candidate's mean is worse than the worse end of the incumbent's interval by more than `margin`.
    Seconds are no more observations than operations that they tell of: four seconds of one long run are copies of it,
    equal to each other and without any scatter. Seconds hang together, so their variance is inflated by (1 + r) / (1 - r),
    r the bias-corrected autocorrelation, at least 0.5 because a few seconds cannot show that there is none.
    """

    def __init__(self, incumbent: Interval, *, is_maximised: bool, margin: float = 0.1, alpha: float = 0.01) -> None:
        """Takes what the candidate is measured against.

        Args:
            incumbent: the incumbent's value in the unit of the frames.
            is_maximised: whether more is better.
            margin: share by which the candidate must be worse; such candidates are not worth a full run.
            alpha: chance of stopping a candidate at the border of the margin, at whatever second.

        Raises:
            UsageError: `margin` is negative or `alpha` is not inside (0, 0.5).
        """
        if margin < 0 or not 0 < alpha < 0.5:
            raise UsageError(f"margin={margin!r} must be 0 or more and alpha={alpha!r} inside (0, 0.5)")
        self._is_maximised = is_maximised
        self._border = incumbent.low * (1 - margin) if is_maximised else incumbent.high * (1 + margin)
        # One side only: the two-sided level leaves alpha on each side.
        self._level = 1 - 2 * alpha
        self._frames: list[float] = []
        self._n_operations = 0.0

    def begin(self) -> None:
        """Forgets what it was fed with: another run begins."""
        self._frames.clear()
        self._n_operations = 0.0

    def update(self, frame: float, n_operations: float = 1.0) -> bool:
        """Takes the next second's value, and how many operations it tells of; True when the candidate is clearly worse."""
        self._frames.append(frame)
        self._n_operations += n_operations
        bound = self.bound
        return bound < self._border if self._is_maximised else bound > self._border

    @property
    def bound(self) -> float:
        """The best that the candidate's mean may still be."""
        frames = np.array(self._frames)
        n = min(len(frames), int(self._n_operations))
        mean, half = 0.0, math.inf
        if n:
            mean, _, squares = _moments(frames)
            inflated = squares / len(frames) * n * _variance_inflation(frames)
            half = _half_width(n, inflated, self._level, _NOTHING, None)
        if math.isinf(half):
            return math.inf if self._is_maximised else -math.inf
        return mean + (half if self._is_maximised else -half)


_MIN_AUTOCORRELATION = 0.5
_MAX_AUTOCORRELATION = 0.9


def _moments(frames: Floats) -> tuple[float, Floats, float]:
    """Mean, the values without it, and the sum of their squares; plain, for it is asked for in each second of a run."""
    mean = float(frames.sum()) / len(frames)
    centred = frames - mean
    return mean, centred, float((centred**2).sum())


def _variance_inflation(frames: Floats) -> float:
    """How many times the variance of the mean of AR(1) values exceeds that of independent ones: (1 + r) / (1 - r)."""
    n, r = len(frames), _MIN_AUTOCORRELATION
    if n > 2:
        _, centred, squares = _moments(frames)
        if squares > 0:
            raw = float((centred[1:] * centred[:-1]).sum()) / squares
            # Marriott & Pope (1954): the estimate is too low by about (1 + 3 r) / n.
            r = min(max(raw + (1 + 3 * raw) / n, _MIN_AUTOCORRELATION), _MAX_AUTOCORRELATION)
    return (1 + r) / (1 - r)
