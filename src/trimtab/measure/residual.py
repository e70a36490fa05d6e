"""The noise of a series whose level moves: what is left of its values when a line, or any smooth course, is taken out.

    symbol   meaning                                                              shape
    t, y     times and values, in the order of time                               (n,)
    A        matrix of the quadratic form y' A y, which is 0 for a straight line  (n, n)
    df       trace(A)^2 / trace(A A)

Both forms have the expectation trace(A) sd^2 when y is a line and independent noise, and nearly the distribution of
chi-square with df degrees of freedom (Satterthwaite 1946, Biometrics Bulletin 2). The sum of squares is divided by that
distribution's median and not by df: with one to three degrees of freedom, which is all that a few repeats leave, the
usual root lies a third too low in most studies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.measure.quantile import chi2_median

__all__ = ["ResidualNoise", "noise_around_course", "noise_around_line", "noise_around_mean", "share_of_stated"]

Floats = NDArray[np.float64]

_STATED_DF = 4.0
"""Degrees of freedom that the runs' own standard errors count for beside those of the scatter from run to run."""


@dataclass(frozen=True, slots=True)
class ResidualNoise:
    """What a series shows of its noise.

    Attributes:
        sd: standard deviation of one value, as often too large as too small; NaN without degrees of freedom.
        df: degrees of freedom behind it.
    """

    sd: float
    df: float


def noise_around_mean(y: Floats) -> ResidualNoise:
    """For a level that stands still; n - 1 degrees of freedom."""
    return _of_projection(y - y.mean(), len(y) - 1)


def noise_around_line(t: Floats, y: Floats) -> ResidualNoise:
    """For a level that moves on a line at most; n - 2 degrees of freedom, whatever the slope."""
    rest, slope = y - y.mean(), t - t.mean()
    length = float(slope @ slope)
    if length == 0:
        return _of_projection(rest, len(y) - 1)
    return _of_projection(rest - slope * (float(slope @ rest) / length), len(y) - 2)


def noise_around_course(t: Floats, y: Floats) -> ResidualNoise:
    """For a level on any smooth course; about half the degrees of freedom that the line leaves.

    From each value the line through its two neighbours is taken away (Gasser, Sroka & Jennen-Steinmetz 1986, Biometrika
    73, pseudo-residuals), and what is left divided by its standard deviation. The same as around a line for three values.
    """
    n = len(t)
    if n < 3:
        return ResidualNoise(math.nan, 0.0)
    spans = t[2:] - t[:-2]
    share = np.divide(t[2:] - t[1:-1], spans, out=np.full(n - 2, 0.5), where=spans != 0)
    rows = np.column_stack([share, -np.ones(n - 2), 1.0 - share])
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    # The mean of y is no part of the noise and would only cost digits.
    rest = y - y.mean()
    left = rows[:, 0] * rest[:-2] + rows[:, 1] * rest[1:-1] + rows[:, 2] * rest[2:]
    # A is R'R, where a row of R holds three values that overlap with those of the next two rows: trace(A A) is the sum of the
    # squares of R R'.
    next_one = rows[:-1, 1] * rows[1:, 0] + rows[:-1, 2] * rows[1:, 1]
    next_two = rows[:-2, 2] * rows[2:, 0]
    squares = (n - 2) + 2 * float(next_one @ next_one) + 2 * float(next_two @ next_two)
    return _noise(float(left @ left), n - 2, squares)


def share_of_stated(noise: ResidualNoise, stated_se: float) -> float:
    """What the scatter from run to run leaves of the standard error that the runs state for themselves, as a share of it.

    A run cannot tell chance from what happens in the same second of every run, such as a slow start: its own standard error then
    is too large, and the repeats scatter by less. Both variances are pooled, each with its degrees of freedom (the moderated
    variance of Smyth 2004, Statistical Applications in Genetics and Molecular Biology 3(1), article 3, equation 3.1). It is 1
    where the repeats scatter by more than the runs state, or nothing is known of their scatter.
    """
    if not (noise.df > 0 and noise.sd < stated_se):
        return 1.0
    pooled = (noise.df * noise.sd**2 + _STATED_DF * stated_se**2) / (noise.df + _STATED_DF)
    return math.sqrt(pooled) / stated_se


def _of_projection(rest: Floats, df: int) -> ResidualNoise:
    """A is a projection: the trace of its square is its own."""
    return _noise(float(rest @ rest), df, df)


def _noise(form: float, trace: float, squares: float) -> ResidualNoise:
    """Of the value of a quadratic form, trace(A), and trace(A A)."""
    if trace < 1:
        return ResidualNoise(math.nan, 0.0)
    df = trace**2 / squares
    return ResidualNoise(math.sqrt(form / trace * df / chi2_median(df)), df)
