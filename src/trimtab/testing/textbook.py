"""A textbook Gaussian-process search on scikit-learn: the yardstick that any searcher with a model of its own has to reach.

A Latin hypercube, then a Matérn 5/2 process with one length scale for each feature, fitted by maximum likelihood, and the largest
expected improvement over random points and small changes of the best configs. A failed trial counts as the worst loss seen.
Sources: D. Jones, M. Schonlau, W. Welch, J. Global Optimization 13 (1998); C. Rasmussen, C. Williams, "Gaussian Processes
for Machine Learning", 2006, ch. 2 and 5.
"""

from __future__ import annotations

import warnings
from typing import ClassVar

import numpy as np
from scipy import stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from trimtab.search import SearcherBase, SearchProblem
from trimtab.search.lhs import latin_hypercube
from trimtab.space import Config

__all__ = ["TextbookSearcher"]

_N_POINTS = 1000


class TextbookSearcher(SearcherBase):
    """Ten configs of a Latin hypercube, then expected improvement."""

    NAME: ClassVar[str] = "textbook"

    def __init__(self, problem: SearchProblem) -> None:
        super().__init__(problem)
        self._design = [
            *self._openers(n_starts=0),
            *latin_hypercube(self.space, 10, np.random.default_rng([problem.seed, 0, 3])),
        ]

    def _propose(self, rng: np.random.Generator) -> Config:
        planned = self._first_new(self._design)
        known = list(self.ledger)
        losses = np.array([e.loss if e.measured else np.nan for e in known])
        if planned is not None or np.isfinite(losses).sum() < 2:
            return planned or self._random_new(rng)
        losses = np.where(np.isnan(losses), np.nanmax(losses), losses)
        x, d = np.array([e.features for e in known]), self.space.n_dims
        kernel = ConstantKernel(1.0) * Matern(np.ones(x.shape[1]), (0.05, 50.0), nu=2.5) + WhiteKernel(
            0.01, (1e-4, 1.0)
        )
        process = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            process.fit(x, losses)
        best = np.array([known[i].point for i in np.argsort(losses)[:5]])
        near = best[rng.integers(len(best), size=_N_POINTS // 2)]
        moved = np.clip(near + rng.normal(0.0, 0.2, near.shape), 0.0, 1.0)
        near = np.where(rng.random(near.shape) < 3.0 / d, moved, near)
        points = self.space.snap(np.vstack([near, rng.random((_N_POINTS // 2, d))]))
        mean, sd = process.predict(self.space.features_of_points(points), return_std=True)
        u = (losses.min() - mean) / np.maximum(sd, 1e-9)
        gain = sd * (u * stats.norm.cdf(u) + stats.norm.pdf(u))
        config = self._first_new(self.space.decode_many(points[np.argsort(-gain, kind="stable")[:50]]))
        return self._random_new(rng) if config is None else config
