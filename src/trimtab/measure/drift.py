"""The baseline's track through a study: what it would have shown at the moment of any trial.

Machines drift: caches fill, tables bloat, neighbours come and go. The baseline is measured again and again between the
trials; a trial is judged against the baseline of its own moment, not against the one of an hour ago.

    symbol   meaning                                                                 shape
    y        log of the baseline's values                                            (n,)
    s        standard deviation of each y that is known beforehand                   (n,)
    r        further standard deviation from run to run, the same for all
    q        variance that the drift gains per unit of time
    V        covariance of y: q * min(t_i - t_0, t_j - t_0) + diag(s^2 + r^2)        (n, n)

Model: local level (a random walk observed with noise; Durbin & Koopman 2012, Time Series Analysis by State Space
Methods, section 2.1) with an unknown constant level; q and r by restricted maximum likelihood (Patterson & Thompson
1971, Biometrika 58) on a grid; prediction by the best linear unbiased predictor (universal kriging; Cressie 1993,
Statistics for Spatial Data, section 3.4).

The rule: let G be the gain in twice the log-likelihood by q > 0. Drift is reported as beyond the noise when G > 2.71,
the 5 % point of the half-and-half mixture of chi-squares for a variance on its border (Self & Liang 1987, JASA 82).
The track itself does not jump at that border: it is the mean of the drifting track and of the precision-weighted mean
of all repeats, with the weight 1 / (1 + exp((2.71 - G) / 2)) on the former. So it lies near the plain mean while the
differences are within the noise and follows the repeats once they are not. In simulated random walks its standard
error is 20 to 30 % too small, because q and r are taken as known.

The noise that is reported does not come from that fit: with few repeats its likelihood is often largest at r = 0, where
the walk explains all (Chung et al. 2013, Psychometrika 78, on variances estimated at their border). It is what the
repeats scatter around a line, or around any smooth course when drift is believed (see `residual`), not more than what
they scatter around their mean, and not less than the standard error that the runs themselves state. Where the repeats
scatter by less than that, their own errors count the less, the more repeats say so (`share_of_stated`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import LoadError
from trimtab.measure.level import LocalLevel, log_likelihoods
from trimtab.measure.residual import (
    ResidualNoise,
    noise_around_course,
    noise_around_line,
    noise_around_mean,
    share_of_stated,
)

__all__ = ["BaselineTrack", "Drift"]

Floats = NDArray[np.float64]

_BELIEF = 2.71
_MIN_REPEATS = 3
"""With two repeats, drift and noise cannot be told apart."""

_DRIFT_GRID = np.logspace(-1.5, 1.0, 16)
"""Candidates for q, as multiples of 6 var(y) / time covered: a random walk of that q has var(y) on average."""

_NOISE_GRID = np.concatenate([[0.0], np.logspace(-1.5, 0.2, 10)])
"""Candidates for r, as multiples of sd(y)."""

_MANY = 128
"""From so many repeats on not each of them chooses q and r anew."""

_MIN_SD = 1e-4
"""No measurement of a load is more certain than this share of its value."""


@dataclass(frozen=True, slots=True)
class Drift:
    """How far the baseline moved.

    Attributes:
        relative_range: largest over smallest value of the track at the repeats, minus 1; 0 when no drift is believed.
        observed_range: the same of the raw repeats, noise included.
        is_beyond_noise: whether the repeats differ by more than their noise explains.
        noise_sd: relative standard deviation of one repeat without drift: at least the part of the repeats' own standard
            error (their median) that is believed, and that alone for a single repeat.
        noise_df: degrees of freedom behind `noise_sd`; 0 for a single repeat.
        n: repeats.
        stated_share: share of the standard error that a run states for itself which is believed, in (0, 1].
    """

    relative_range: float
    observed_range: float
    is_beyond_noise: bool
    noise_sd: float
    noise_df: float
    n: int
    stated_share: float = 1.0


@dataclass(frozen=True, slots=True)
class _Choice:
    """Of the first `n` repeats: r without drift, q and r with it, and how far drift is believed."""

    n: int
    still_r: float
    q: float
    r: float
    belief: float


@dataclass(frozen=True, slots=True)
class _Fits:
    still: LocalLevel
    moving: LocalLevel
    belief: float

    @property
    def is_drift(self) -> bool:
        return self.belief > 0.5


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
        self._arrays: tuple[Floats, Floats, Floats] | None = None
        self._choice: _Choice | None = None
        self._fits: _Fits | None = None
        self._summary: Drift | None = None

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
        row = (time, math.log(value), se / value if math.isfinite(se) else 0.0)
        if self._rows and row < self._rows[-1]:
            self._choice = None
        self._rows.append(row)
        self._rows.sort()
        self._arrays = self._fits = self._summary = None

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def logs(self) -> tuple[float, ...]:
        """Logarithms of the repeats' values, in the order of time."""
        return tuple(log for _, log, _ in self._rows)

    def at(self, time: float) -> tuple[float, float]:
        """(value, standard error) of the baseline at `time`, in the metric's unit.

        Between repeats it is a weighted mean of the neighbours, beyond the last one it stays level and its error grows.
        The error is NaN for a single repeat whose noise is unknown.

        Raises:
            LoadError: the track is empty.
        """
        fits = self._fitted()
        (still, still_variance), (moving, moving_variance) = fits.still.at(time), fits.moving.at(time)
        mean = (1 - fits.belief) * still + fits.belief * moving
        variance = (1 - fits.belief) * (still_variance + (still - mean) ** 2)
        variance += fits.belief * (moving_variance + (moving - mean) ** 2)
        value = math.exp(mean)
        if len(self) == 1 and not self._is_noise_known():
            return value, math.nan
        return value, value * math.sqrt(variance)

    def summary(self) -> Drift:
        """How far the track moved, and whether that is more than noise.

        Raises:
            LoadError: the track is empty.
        """
        if self._summary is None:
            self._summary = self._summed()
        return self._summary

    def _summed(self) -> Drift:
        t, y, s = self._columns()
        fits = self._fitted()
        noise = self._noise(t, y, is_drift=fits.is_drift)
        values = np.zeros(1)
        if fits.is_drift:
            values = (1 - fits.belief) * np.array(fits.still.values) + fits.belief * np.array(fits.moving.values)
        return Drift(
            relative_range=float(np.expm1(values.max() - values.min())),
            observed_range=float(np.expm1(y.max() - y.min())),
            is_beyond_noise=fits.is_drift,
            noise_sd=float(np.fmax(noise.sd, np.median(self._known(s)))),
            noise_df=noise.df,
            n=len(y),
            stated_share=self._stated_share(),
        )

    @staticmethod
    def _noise(t: Floats, y: Floats, *, is_drift: bool) -> ResidualNoise:
        still = noise_around_mean(y)
        if len(t) < _MIN_REPEATS or t[-1] == t[0]:
            return still
        moving = noise_around_course(t, y) if is_drift else noise_around_line(t, y)
        # Drift adds to the scatter around the mean: one degree of freedom more bounds the noise from above.
        return moving if moving.sd <= still.sd else ResidualNoise(still.sd, moving.df)

    def _known(self, s: Floats) -> Floats:
        """Standard deviation of each repeat that is known beforehand."""
        return np.asarray(np.hypot(np.maximum(s, _MIN_SD), self._noise_sd), dtype=np.float64)

    def _columns(self) -> tuple[Floats, Floats, Floats]:
        if not self._rows:
            raise LoadError("the baseline has not been measured", hint="measure the baseline before any candidate")
        if self._arrays is None:
            t, y, s = np.array(self._rows).T.copy()
            self._arrays = t, y, s * self._stated_share()
        return self._arrays

    def _stated_share(self) -> float:
        """Share of the repeats' own errors that their scatter leaves; all of them while there are too few to tell."""
        t, y, s = np.array(self._rows).T
        if len(t) < _MIN_REPEATS or t[-1] == t[0]:
            return 1.0
        return share_of_stated(self._noise(t, y, is_drift=False), float(np.median(s)))

    def _is_noise_known(self) -> bool:
        return self._noise_sd > 0 or any(se > 0 for _, _, se in self._rows)

    def _fitted(self) -> _Fits:
        if self._fits is None:
            t, y, s = self._columns()
            n = _n_chosen_by(len(t))
            if self._choice is None or self._choice.n != n:
                self._choice = _chosen(t[:n], y[:n], self._known(s[:n]))
            choice = self._choice
            still, moving = (self._level(q, r) for q, r in ((0.0, choice.still_r), (choice.q, choice.r)))
            self._fits = _Fits(still, moving, choice.belief)
        return self._fits

    def _level(self, q: float, r: float) -> LocalLevel:
        t, y, s = self._columns()
        return LocalLevel(t.tolist(), y.tolist(), q, (np.hypot(self._known(s), r) ** 2).tolist())


def _n_chosen_by(n: int) -> int:
    """How many of n repeats, the first ones, choose q and r: all, but of many only whole sixteenths, since a few more change
    little and each choice looks at all of them."""
    return n if n < _MANY else n - n % (1 << n.bit_length() - 4)


def _chosen(t: Floats, y: Floats, known: Floats) -> _Choice:
    """The pair without drift and the pair with it that make the repeats most likely."""
    spread = max(float(y.std()), _MIN_SD)
    is_moving = len(t) >= _MIN_REPEATS and t[-1] > t[0]
    drifts = _DRIFT_GRID * (6 * spread**2 / float(t[-1] - t[0])) if is_moving else np.empty(0)
    # One pass over the repeats for all pairs; those without drift come first.
    q, r = (grid.ravel() for grid in np.meshgrid(np.append(0.0, drifts), _NOISE_GRID * spread, indexing="ij"))
    likelihoods = log_likelihoods(t, y, q, np.hypot(known[:, None], r[None, :]) ** 2)
    n_still = len(_NOISE_GRID)
    top = int(np.argmax(likelihoods[:n_still]))
    if not is_moving:
        return _Choice(len(t), float(r[top]), 0.0, float(r[top]), 0.0)
    best = n_still + int(np.argmax(likelihoods[n_still:]))
    gain = 2 * float(likelihoods[best] - likelihoods[top])
    return _Choice(len(t), float(r[top]), float(q[best]), float(r[best]), 1 / (1 + math.exp((_BELIEF - gain) / 2)))
