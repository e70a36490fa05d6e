"""Whether one config's figures scatter more than another's, with a verdict that may be asked for after each run.

    symbol   meaning
    b, c     values of baseline and candidate (logarithms of a metric), n_b and n_c of them
    S        sum of squared deviations from the own mean
    k        how many times larger the candidate's standard deviation is

Over configs of unknown level and unknown common scale the likelihood ratio of k against 1, integrated over both by
Haar's measure, is

    e(k) = k^-(n_c - 1) ((S_b + S_c / k^2) / (S_b + S_c))^(-(n_b + n_c - 2) / 2)

and its mean over several k is an e-process: however often one looks, the chance that it ever reaches 1 / alpha is at
most alpha when the candidate scatters no more than the baseline (Robbins 1970, "Statistical methods related to the law
of the iterated logarithm", Ann. Math. Statist. 41(5), for the mixture; Pérez-Ortiz, Lardy, de Heide & Grünwald 2022,
"E-statistics, group invariance and anytime-valid testing", arXiv:2208.07610, for the invariance).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trimtab.measure.quantile import f_tail

__all__ = ["beside_neighbours", "relative_range", "spread_evidence", "spread_p_value", "spread_ratio", "usual_sd"]

Floats = NDArray[np.float64]

_LEAST_TELLING = 6
"""Runs from which on the median of their differences tells how much they vary without an odd one."""

_MEDIAN_OF_DIFFERENCES = 0.9539
"""Of the absolute differences of two normal values, in standard deviations of one."""

_TIMES = (1.5, 2.0, 3.0, 5.0, 8.0)


def spread_evidence(baseline: Floats, candidate: Floats) -> float:
    """The e-value against "the candidate scatters no more than the baseline"; 20 or more shows it at level 0.95.

    Args:
        baseline, candidate: (n_b,), (n_c,) values on a scale where the scatter is the same at every level (logarithms).

    Returns:
        1 when there is nothing to judge by (fewer than two values of either); inf when only the candidate scatters.
    """
    n_b, n_c = len(baseline), len(candidate)
    if n_b < 2 or n_c < 2:
        return 1.0
    s_b, s_c = _squares(baseline), _squares(candidate)
    if s_b == 0 or s_c == 0:
        return math.inf if s_c > s_b else 1.0
    logs = [-(n_c - 1) * math.log(k) - (n_b + n_c - 2) / 2 * math.log((s_b + s_c / k**2) / (s_b + s_c)) for k in _TIMES]
    return float(np.mean(np.exp(logs)))


def spread_ratio(baseline: Floats, candidate: Floats) -> float:
    """Standard deviation of the candidate over the baseline's; NaN for fewer than two values, or a baseline without scatter."""
    if len(baseline) < 2 or len(candidate) < 2 or (s_b := _squares(baseline)) == 0:
        return math.nan
    return math.sqrt(_squares(candidate) / (len(candidate) - 1) / (s_b / (len(baseline) - 1)))


def spread_p_value(baseline: Floats, candidate: Floats, known_sd: float = 0.0) -> float:
    """How likely the candidate's scatter is where it scatters as the baseline does: one-sided, by the ratio of the variances (F).

    Args:
        baseline, candidate: (n_b,), (n_c,) values, as for `spread_evidence`; this looks at them once.
        known_sd: standard deviation of the baseline known from other runs: it counts where these happen to show less.

    Returns:
        1 when there is nothing to judge by (fewer than two values of either); 0 when only the candidate scatters.
    """
    n_b, n_c = len(baseline), len(candidate)
    if n_b < 2 or n_c < 2:
        return 1.0
    below = max(_squares(baseline) / (n_b - 1), known_sd**2)
    above = _squares(candidate) / (n_c - 1)
    if below == 0:
        return 0.0 if above > 0 else 1.0
    return f_tail(above / below, n_c - 1, n_b - 1)


def relative_range(logs: Floats) -> float:
    """Largest over smallest value, minus 1, of values given as logarithms; 0 for fewer than two."""
    return math.expm1(float(logs.max() - logs.min())) if len(logs) >= 2 else 0.0


def usual_sd(logs: Sequence[float], sd: float) -> float:
    """Standard deviation of a series of runs (logarithms) without odd ones: by the median of the differences of successive
    values, which neither a slow drift nor one run in six that is held up moves much; never more than `sd`, their ordinary one,
    and `sd` itself for fewer than six."""
    if len(logs) < _LEAST_TELLING:
        return sd
    return min(sd, float(np.median(np.abs(np.diff(logs)))) / _MEDIAN_OF_DIFFERENCES)


def beside_neighbours(logs: Floats) -> Floats:
    """(n,) each value less the median of itself and up to two on either side: a series without its slow drift; odd runs stay."""
    return np.array(
        [value - float(np.median(logs[max(0, i - 2) : i + 3])) for i, value in enumerate(logs)], dtype=np.float64
    )


def _squares(values: Floats) -> float:
    return float(((values - values.mean()) ** 2).sum())
