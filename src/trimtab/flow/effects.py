"""Effects of plays of which several are on in each run: a linear model of the runs tells them apart.

A difference of two runs is known to 1.4 times the noise of one, and a play that is tried alone asks for such a difference. Where
half of the plays are on in each run, every run says something of every play: after n runs each effect is known to 2/sqrt(n) times
the noise, as long as there are fewer plays than runs (Box, Hunter & Hunter, "Statistics for Experimenters", 2005, chapter 5).
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.records import Play

__all__ = ["Effects", "Run", "effects_of"]

_LEAST_SD = 0.1
"""Of what is thought possible of a play, in log-ratios: catalogues promise less of some, and are wrong about others."""

_TAILS = 2.0
"""Degrees of freedom of an effect before anything is known: few plays matter, and those may matter much."""

_ROUNDS = 10
"""Of expectation maximisation, by which each play's own spread is found."""

_FAILED, _FAILED_SE = 0.5, 0.2
"""Loss that a run without a value counts as, and its standard error: it says something against all plays that were on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of several plays.

    Attributes:
        plays: names of those that were on.
        gain: log of how many times better than what all runs are compared with; None where the config failed.
        se: standard error of `gain`, that of what it is compared with left out.
    """

    plays: Set[str]
    gain: float | None
    se: float


@dataclass(frozen=True, slots=True)
class Effects:
    """What is known of the plays' effects: a normal distribution over their log-ratios.

    Attributes:
        names: of the plays.
        mean: of each effect, shape (n,).
        cov: shape (n, n).
        df: degrees of freedom behind `scatter`.
        scatter: how many times as much as they were said to the runs vary about what the model makes of them (variances). Few
            runs of the baseline say little of the noise, and effects that do not add up show here. What is on next does not
            depend on it: in simulated studies that made no difference.
    """

    names: tuple[str, ...]
    mean: NDArray[np.float64]
    cov: NDArray[np.float64]
    df: float
    scatter: float

    def drawn(self, rng: np.random.Generator) -> dict[str, float]:
        """Effects that may be true, by name."""
        factor = np.linalg.cholesky(self.cov + 1e-12 * np.eye(len(self.names)))
        return dict(zip(self.names, (self.mean + factor @ rng.standard_normal(len(self.names))).tolist(), strict=True))

    @property
    def total(self) -> float:
        """What all plays that seem to help bring together."""
        return float(np.maximum(self.mean, 0.0).sum())

    @property
    def doubt(self) -> float:
        """What it would bring on average to know of each play whether it helps (value of perfect information)."""
        return sum(_doubt(*self.of(name)) for name in self.names)

    def of(self, name: str) -> tuple[float, float]:
        """Mean and standard deviation of one effect."""
        i = self.names.index(name)
        return float(self.mean[i]), math.sqrt(max(0.0, float(self.cov[i, i])))


def effects_of(plays: Sequence[Play], runs: Sequence[Run], baseline_se: float, noise_df: float) -> Effects:
    """What `runs` say of `plays`. Effects add up, and each has a spread of its own around what its play promises, found by
    expectation maximisation (Tipping, "Sparse Bayesian learning and the relevance vector machine", JMLR 1, 2001).

    Args:
        plays: all that may be on.
        runs: those made.
        baseline_se: standard error of what all runs are compared with.
        noise_df: degrees of freedom of the runs' standard errors, above 0.
    """
    at = {play.name: i for i, play in enumerate(plays)}
    n = len(at)
    prior = np.array([play.worth * play.chance for play in plays] + [0.0])
    sd = np.array([max(play.worth, _LEAST_SD) for play in plays] + [max(baseline_se, 1e-6)])
    rows = np.zeros((len(runs), n + 1))
    for i, run in enumerate(runs):
        rows[i, [*(at[name] for name in run.plays), n]] = 1.0
    gains = np.array([-_FAILED if run.gain is None else run.gain for run in runs])
    weights = np.array([(_FAILED_SE if run.gain is None else max(run.se, 1e-3)) ** -2 for run in runs])
    seen = np.array([run.gain is not None for run in runs], dtype=bool)
    mean, cov = _fitted(rows, gains, weights, prior, sd)
    used = float((weights * (rows * (rows @ cov)).sum(axis=1))[seen].sum())
    df = noise_df + max(0.0, float(seen.sum()) - used)
    scatter = (noise_df + float((weights * (gains - rows @ mean) ** 2)[seen].sum())) / df
    return Effects(tuple(at), mean[:n], cov[:n, :n], df, scatter)


def _fitted(
    rows: NDArray[np.float64],
    gains: NDArray[np.float64],
    weights: NDArray[np.float64],
    prior: NDArray[np.float64],
    sd: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and covariance of the effects; the last, the baseline's error, keeps its spread."""
    spread = sd
    for _ in range(_ROUNDS + 1):
        precision = np.diag(spread**-2) + rows.T @ (weights[:, None] * rows)
        cov = np.linalg.inv(precision).astype(np.float64)
        mean = cov @ (prior / spread**2 + rows.T @ (weights * gains))
        away = (mean - prior) ** 2 + np.diag(cov)
        spread = np.append(np.sqrt((_TAILS * sd**2 + away) / (_TAILS + 1))[:-1], sd[-1])
    return mean, cov


def _doubt(mean: float, sd: float) -> float:
    """How much the mean of the positive part of a normal distribution is above the positive part of its mean."""
    z = abs(mean) / max(sd, 1e-12)
    return sd * math.exp(-z * z / 2) / math.sqrt(2 * math.pi) - abs(mean) * math.erfc(z / math.sqrt(2)) / 2
