"""Ranks by the order in which knobs enter the lasso path over polynomials of degree 2.

Source: D. Van Aken, A. Pavlo, G. Gordon, B. Zhang, "Automatic Database Management System Tuning Through Large-scale
Machine Learning" (OtterTune), SIGMOD 2017, §5.2. Products are of the knobs that enter first only: with 200 knobs there
would be 20,000 of them, most of which look good by chance.
"""

from __future__ import annotations

import warnings
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from trimtab.importance.forward import knob_columns
from trimtab.importance.ranking import Ranking, RankProblem
from trimtab.importance.resample import resampled
from trimtab.importance.samples import Samples, is_flat, samples_of

__all__ = ["LassoRanker"]

Array = NDArray[np.float64]

_N_ALPHAS = 50
_LEAST_ALPHA = 0.02
"""The path ends at this share of the penalty at which the first column enters."""
_LATE = 1e-3
"""What enters after the path's end counts only to be put in an order."""
_PRODUCT_KNOBS = 10


class LassoRanker:
    """How early a knob enters a lasso path over polynomial features.

    Score: penalty at which the knob's first column enters, above that at which the path is best by the BIC; next to 0 for what
    enters later.
    """

    name: ClassVar[str] = "lasso"

    def rank(self, problem: RankProblem) -> Ranking:
        """See `Ranker`.

        Raises:
            UsageError: as `samples_of`.
        """
        return resampled(problem, samples_of(problem), self.name, _entries)


def _entries(samples: Samples, weights: Array, rng: np.random.Generator) -> Array:
    places, owner = knob_columns(samples)
    t = 2.0 * samples.x[:, places[:, 0]] - 1.0
    columns = np.where(places[:, 1] == 2, t**2, t)
    entry = _path(columns, samples.y, weights)
    scores = np.zeros(len(samples.names))
    np.maximum.at(scores, owner, entry)
    first = [knob for knob in np.argsort(-scores, kind="stable")[:_PRODUCT_KNOBS] if scores[knob] > 0]
    pairs = [
        (i, j)
        for place, one in enumerate(first)
        for other in first[place + 1 :]
        for i in np.flatnonzero((owner == one) & (places[:, 1] == 1))
        for j in np.flatnonzero((owner == other) & (places[:, 1] == 1))
    ]
    if not pairs:
        return scores
    products = np.stack([columns[:, i] * columns[:, j] for i, j in pairs], axis=1)
    entry = _path(np.hstack([columns, products]), samples.y, weights)
    scores[:] = 0.0
    np.maximum.at(scores, owner, entry[: len(owner)])
    for (i, j), value in zip(pairs, entry[len(owner) :], strict=True):
        scores[[owner[i], owner[j]]] = np.maximum(scores[[owner[i], owner[j]]], value)
    return scores


def _path(columns: Array, y: Array, weights: Array) -> Array:
    """(p,) the penalty at which each column enters, less that at which the BIC ends the path; next to 0 for later."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import lasso_path

    root = np.sqrt(weights / weights.sum())[:, None]
    x = root * (columns - np.average(columns, axis=0, weights=weights))
    scale = np.linalg.norm(x, axis=0)
    x = x / np.where(scale > 1e-9, scale, np.inf)
    target = root[:, 0] * (y - np.average(y, weights=weights))
    largest = float(np.max(np.abs(x.T @ target), initial=0.0)) / len(x)
    if largest <= 0.0 or is_flat(y, weights):
        return np.zeros(x.shape[1])
    steps = np.geomspace(largest, _LEAST_ALPHA * largest, _N_ALPHAS)
    with warnings.catch_warnings():
        # An unfinished fit of the last, smallest penalties changes no order of entry.
        warnings.simplefilter("ignore", ConvergenceWarning)
        # Its checks of what it is given, again at each penalty, take longer than the path.
        alphas, found, _ = lasso_path(
            np.asfortranarray(x), target, alphas=steps, max_iter=300, tol=1e-3, check_input=False
        )
    is_in = found != 0.0
    end = _end(x, target, found, int(np.count_nonzero(weights)))
    entered = np.where(is_in.any(axis=1), alphas[np.argmax(is_in, axis=1)], 0.0)
    # Columns that enter between the same two penalties are told apart by their size at the second.
    size = np.abs(found[np.arange(len(found)), np.argmax(is_in, axis=1)])
    entered = entered * (1.0 + 1e-3 * size / max(float(size.max()), 1e-300))
    return np.asarray((np.maximum(entered - alphas[end], 0.0) + _LATE * entered) / alphas[0])


def _end(x: Array, target: Array, found: Array, n: int) -> int:
    """The place on the path with the least BIC."""
    rss = ((target[:, None] - x @ found) ** 2).sum(axis=0)
    sizes = np.count_nonzero(found, axis=0)
    scores = n * np.log(np.maximum(rss, 1e-12 * rss[0])) + sizes * np.log(n)
    return int(np.argmin(np.where(sizes < n / 2, scores, np.inf)))
