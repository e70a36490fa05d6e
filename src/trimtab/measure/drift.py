"""The baseline's track through a study: what it would have shown at the moment of any trial.

Machines drift: caches fill, tables bloat, neighbours come and go. The baseline is measured again and again between the
trials; a trial is judged against the baseline of its own moment, not against the one of an hour ago.

    symbol   meaning                                                                 shape
    y        log of the baseline's values                                            (n,)
    s        standard deviation of each y without drift                              (n,)
    q        variance that the drift gains per unit of time
    V        covariance of y: q * min(t_i - t_0, t_j - t_0) + diag(s^2)              (n, n)

Model: local level (a random walk observed with noise; Durbin & Koopman 2012, Time Series Analysis by State Space
Methods, section 2.1) with an unknown constant level, q by restricted maximum likelihood, prediction by the best linear
unbiased predictor (universal kriging; Cressie 1993, section 3.4). The rule: drift is believed only when it raises twice
the log-likelihood by more than 2.71 (by 5 when the noise from run to run was not given); otherwise q = 0 and the track
is the precision-weighted mean of all repeats. 2.71 is the 5 % point of the half-and-half mixture of chi-squares for a
variance on its border (Self & Liang 1987, JASA 82).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import LoadError

__all__ = ["BaselineTrack", "Drift"]

Floats = NDArray[np.float64]

_BELIEF = 2.71
_BELIEF_NOISE_UNKNOWN = 5.0
"""For noise estimated from the repeats themselves: 2.71 would believe a drift in 10 to 15 % of still series, 5 believes
one in 4 to 10 %."""

_MIN_REPEATS = 3
"""With two repeats, drift and noise cannot be told apart."""

_DRIFT_GRID = np.concatenate([[0.0], np.logspace(-3, 4, 57)])
"""Candidates for q, as multiples of the mean noise variance over the mean gap between repeats."""

_MAD_OF_DIFFERENCE = 0.6745 * math.sqrt(2)
"""Median of |a - b| over their standard deviation, for two normal values."""

_MIN_SD = 1e-4
"""No measurement of a load is more certain than this share of its value."""


@dataclass(frozen=True, slots=True)
class Drift:
    """How far the baseline moved.

    Attributes:
        relative_range: largest over smallest value of the track at the repeats, minus 1; 0 when no drift is believed.
        observed_range: the same of the raw repeats, noise included.
        is_beyond_noise: whether the repeats differ by more than their noise explains.
        noise_sd: relative standard deviation of one repeat without drift (median over the repeats).
        n: repeats.
    """

    relative_range: float
    observed_range: float
    is_beyond_noise: bool
    noise_sd: float
    n: int


@dataclass(frozen=True, slots=True)
class _Fit:
    q: float
    is_drift: bool
    noise: Floats
    inverse: Floats
    level: float
    level_variance: float


class BaselineTrack:
    """Repeats of the baseline in the order of time, and the baseline's value at any moment.

    The time may be seconds or trial numbers, as long as it is always the same. Not safe for several threads.
    """

    def __init__(self, noise_sd: float = 0.0) -> None:
        """Takes the relative standard deviation from run to run known from an A/A test, 0 when unknown.

        Raises:
            LoadError: `noise_sd` is negative or not finite.
        """
        if not (noise_sd >= 0 and math.isfinite(noise_sd)):
            raise LoadError(f"noise_sd={noise_sd!r} must be 0 or more", hint="use NoiseFloor.relative_sd, or 0")
        self._noise_sd = noise_sd
        self._rows: list[tuple[float, float, float]] = []
        self._fit: _Fit | None = None

    def add(self, time: float, value: float, se: float = math.nan) -> None:
        """Takes one repeat of the baseline; in any order of time.

        Args:
            time: when.
            value: the metric, positive and finite.
            se: its standard error within the run, in the metric's unit; NaN when unknown.

        Raises:
            LoadError: `value` is not positive and finite.
        """
        if not 0 < value < math.inf:
            raise LoadError(
                f"the baseline's value={value!r} at time={time:g} is not positive and finite",
                hint="look at the errors of the baseline's run",
            )
        self._rows.append((time, math.log(value), se / value if math.isfinite(se) else 0.0))
        self._rows.sort()
        self._fit = None

    def __len__(self) -> int:
        return len(self._rows)

    def at(self, time: float) -> tuple[float, float]:
        """(value, standard error) of the baseline at `time`, in the metric's unit.

        Between repeats it is a weighted mean of the neighbours, beyond the last one it stays level and its error grows.
        The error is NaN for a single repeat whose noise is unknown.

        Raises:
            LoadError: the track is empty.
        """
        y, fit = self._columns()[1], self._fitted()
        cross = self._covariance(np.array([time]), fit.q)[0]
        weights = fit.inverse @ cross
        log_value = fit.level + float(weights @ (y - fit.level))
        prior = float(fit.q * self._elapsed(np.array([time]))[0])
        variance = prior - float(weights @ cross) + (1 - float(weights.sum())) ** 2 * fit.level_variance
        value = math.exp(log_value)
        if len(y) == 1 and not self._is_noise_known():
            return value, math.nan
        return value, value * math.sqrt(max(variance, 0.0))

    def summary(self) -> Drift:
        """How far the track moved, and whether that is more than noise.

        Raises:
            LoadError: the track is empty.
        """
        t, y, _ = self._columns()
        fit = self._fitted()
        values = [self.at(float(moment))[0] for moment in t] if fit.is_drift else [1.0]
        return Drift(
            relative_range=max(values) / min(values) - 1,
            observed_range=float(np.expm1(y.max() - y.min())),
            is_beyond_noise=fit.is_drift,
            noise_sd=float(np.median(fit.noise)),
            n=len(y),
        )

    def _columns(self) -> tuple[Floats, Floats, Floats]:
        if not self._rows:
            raise LoadError("the baseline has not been measured", hint="measure the baseline before any candidate")
        t, y, s = np.array(self._rows).T
        return t, y, s

    def _is_noise_known(self) -> bool:
        return self._noise_sd > 0 or any(se > 0 for _, _, se in self._rows)

    def _elapsed(self, times: Floats) -> Floats:
        # Before the first repeat the walk is mirrored: as far back is as uncertain as as far ahead.
        return np.abs(times - self._rows[0][0])

    def _covariance(self, times: Floats, q: float) -> Floats:
        """Covariance of the drift at `times` with that at the repeats, shape (m, n)."""
        start = self._rows[0][0]
        here, there = times[:, None] - start, self._columns()[0][None, :] - start
        same_side = np.sign(here) == np.sign(there)
        return np.asarray(q * np.where(same_side, np.minimum(np.abs(here), np.abs(there)), 0.0))

    def _fitted(self) -> _Fit:
        if self._fit is None:
            t, y, s = self._columns()
            least = np.maximum(_MIN_SD, _neighbour_noise(y))
            noise = np.asarray(np.maximum(np.hypot(s, self._noise_sd), least), dtype=np.float64)
            self._fit = self._fit_drift(t, y, noise)
        return self._fit

    def _fit_drift(self, t: Floats, y: Floats, noise: Floats) -> _Fit:
        scale = float(np.mean(noise**2)) * (len(t) - 1) / max(float(t[-1] - t[0]), 1e-12)
        still = self._solve(t, y, noise, 0.0)
        if len(t) < _MIN_REPEATS:
            return still[1]
        moving = max((self._solve(t, y, noise, q * scale) for q in _DRIFT_GRID[1:]), key=lambda pair: pair[0])
        belief = _BELIEF if self._noise_sd > 0 else _BELIEF_NOISE_UNKNOWN
        return moving[1] if 2 * (moving[0] - still[0]) > belief else still[1]

    def _solve(self, t: Floats, y: Floats, noise: Floats, q: float) -> tuple[float, _Fit]:
        """Restricted log-likelihood of `q` (Patterson & Thompson 1971), and the fit."""
        covariance = self._covariance(t, q) + np.diag(noise**2)
        inverse = np.asarray(np.linalg.inv(covariance), dtype=np.float64)
        information = float(inverse.sum())
        level = float(inverse.sum(axis=0) @ y) / information
        rest = y - level
        likelihood = -0.5 * (np.linalg.slogdet(covariance)[1] + math.log(information) + float(rest @ inverse @ rest))
        return float(likelihood), _Fit(q, q > 0, noise, inverse, level, 1 / information)


def _neighbour_noise(y: Floats) -> float:
    """Noise from the median difference of neighbours: a step or a slow drift hardly shows in it."""
    return float(np.median(np.abs(np.diff(y)))) / _MAD_OF_DIFFERENCE if len(y) >= _MIN_REPEATS else 0.0
