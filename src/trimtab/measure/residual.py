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

__all__ = ["ResidualNoise", "noise_around_course", "noise_around_line", "noise_around_mean"]

Floats = NDArray[np.float64]


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
    return _noise(y, _residual_form(np.ones((len(y), 1))))


def noise_around_line(t: Floats, y: Floats) -> ResidualNoise:
    """For a level that moves on a line at most; n - 2 degrees of freedom, whatever the slope."""
    return _noise(y, _residual_form(np.column_stack([np.ones(len(t)), t - t.mean()])))


def noise_around_course(t: Floats, y: Floats) -> ResidualNoise:
    """For a level on any smooth course; about half the degrees of freedom that the line leaves.

    From each value the line through its two neighbours is taken away (Gasser, Sroka & Jennen-Steinmetz 1986, Biometrika
    73, pseudo-residuals). The same as around a line for three values.
    """
    n = len(t)
    rows = np.zeros((max(0, n - 2), n))
    for i, row in enumerate(rows):
        span = t[i + 2] - t[i]
        share = (t[i + 2] - t[i + 1]) / span if span else 0.5
        row[i : i + 3] = share, -1.0, 1.0 - share
        row /= np.linalg.norm(row)
    return _noise(y, rows.T @ rows)


def _residual_form(columns: Floats) -> Floats:
    """The matrix that squares what least squares on `columns` leaves."""
    return np.asarray(np.eye(len(columns)) - columns @ np.linalg.pinv(columns), dtype=np.float64)


def _noise(y: Floats, form: Floats) -> ResidualNoise:
    trace = float(np.trace(form))
    if trace < 0.5:  # a whole number, but for rounding
        return ResidualNoise(math.nan, 0.0)
    df = trace**2 / float((form**2).sum())
    # The mean of y is no part of the noise and would only cost digits.
    rest = y - y.mean()
    share = max(0.0, float(rest @ form @ rest)) / trace
    return ResidualNoise(math.sqrt(share * df / chi2_median(df)), df)
