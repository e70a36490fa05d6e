"""Quantiles of the distributions that intervals are made of.

They are scipy.special's functions: scipy.stats, which wraps them, takes most of a second to load, and every command that
measures needs one of these.
"""

from __future__ import annotations

import math

import scipy  # its special functions, a third of a second to load, come on first use

__all__ = ["binomial_quantile", "chi2_median", "f_tail", "normal_quantile", "t_quantile", "t_tail"]


def normal_quantile(p: float) -> float:
    """Of the standard normal distribution at 0 < p < 1."""
    return float(scipy.special.ndtri(p))


def t_quantile(p: float, dof: float) -> float:
    """Of Student's t with `dof` > 0 degrees of freedom at 0 < p < 1; NaN outside."""
    return float(scipy.special.stdtrit(dof, p))


def t_tail(t: float, dof: float) -> float:
    """P(T > t) of Student's t."""
    return float(scipy.special.stdtr(dof, -t))


def f_tail(f: float, dof: float, dof_below: float) -> float:
    """P(F > f) of the ratio of two variances of `dof` and `dof_below` degrees of freedom, in this order."""
    return float(scipy.special.fdtrc(dof, dof_below, f))


def chi2_median(dof: float) -> float:
    """Of the chi-squared distribution with `dof` > 0 degrees of freedom."""
    return float(scipy.special.chdtri(dof, 0.5))


def binomial_quantile(p: float, n: int, share: float) -> int:
    """The smallest k with P(K <= k) >= p, for K of n draws each of which succeeds with probability `share` (0, 1, or between
    a millionth and one less it)."""
    if p <= 0 or share <= 0:
        return 0
    if p >= 1 or share >= 1:
        return n
    k = max(0, math.ceil(float(scipy.special.bdtrik(p, n, share))))
    return k - 1 if k > 0 and scipy.special.bdtr(k - 1, n, share) >= p else min(k, n)
