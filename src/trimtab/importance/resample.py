"""Resample: a ranking out of a way to score knobs, by bootstrap."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import scipy  # its stats, most of a second to load, come on first use
from numpy.typing import NDArray

from trimtab.importance.ranking import KnobRank, Ranking, RankProblem
from trimtab.importance.samples import Samples
from trimtab.importance.surrogate import Fit, cross_validate
from trimtab.threads import single_threaded

__all__ = [
    "HIGH",
    "LOW",
    "Scorer",
    "draw_counts",
    "fit_of",
    "knob_ranks",
    "overlap_verdict",
    "resampled",
    "shares",
    "unpredicted",
]

Array = NDArray[np.float64]

Scorer = Callable[[Samples, Array, np.random.Generator], Array]
"""(samples, weights (n,), rng) -> scores (d,), 0 or more."""

LOW, HIGH = 5.0, 95.0
"""Percentiles of a 90 % interval."""
_TRIES = 8


def shares(scores: Array) -> Array:
    """Scores that sum to 1; all 0 when there is nothing to share."""
    positive = np.maximum(np.where(np.isfinite(scores), scores, 0.0), 0.0)
    total = float(positive.sum())
    return np.asarray(positive / total) if total > 0.0 else np.zeros(len(scores))


def draw_counts(samples: Samples, rng: np.random.Generator) -> Array:
    """How often each sample is drawn in a resample of the same size in which something still varies."""
    n = len(samples)
    for _ in range(_TRIES):
        counts = np.bincount(rng.integers(n, size=n), minlength=n).astype(np.float64)
        if np.count_nonzero(counts) > 2 and np.ptp(samples.y[counts > 0]) > 0:
            break
    return counts


def resampled(problem: RankProblem, samples: Samples, name: str, score: Scorer) -> Ranking:
    """The ranking by the mean score over all samples and over resamples, with intervals from the resamples."""
    with single_threaded():
        return _resampled(problem, samples, name, score)


def _resampled(problem: RankProblem, samples: Samples, name: str, score: Scorer) -> Ranking:
    rng = np.random.default_rng([problem.seed, 21])
    draws = [shares(score(samples, samples.weights, rng))]
    for _ in range(problem.n_bootstrap):
        draws.append(shares(score(samples, samples.weights * draw_counts(samples, rng), rng)))
    knobs = knob_ranks(samples.names, shares(np.mean(draws, axis=0)), np.array(draws))
    verdict = overlap_verdict(knobs)
    fit = fit_of(problem, samples)
    if not fit.is_better:
        verdict = unpredicted(len(samples))
    return Ranking(ranker=name, knobs=knobs, n_trials=samples.n_trials, verdict=verdict, notes=samples.notes)


def fit_of(problem: RankProblem, samples: Samples) -> Fit:
    """How well a surrogate predicts the problem's samples."""
    if "fit" not in problem.memo:
        problem.memo["fit"] = cross_validate(samples, problem.seed)
    found: Fit = problem.memo["fit"]
    return found


def unpredicted(n_configs: int) -> str:
    """The verdict when a model cannot predict the losses."""
    return (
        f"not enough data to tell: a model of the {n_configs} measured configs does not predict their losses better than the "
        "mean does"
    )


def knob_ranks(names: Sequence[str], score: Array, draws: Array, *, ranks: Array | None = None) -> tuple[KnobRank, ...]:
    """Knobs with 90 % intervals from `draws` (b, d) of the score, most important first.

    Args:
        names: d knobs.
        score: (d,).
        draws: (b, d) scores.
        ranks: (r, d) draws of the rank, of which the first is the rank itself; None: those of the scores.
    """
    rank = scipy.stats.rankdata(-score, method="average") if ranks is None else ranks[0]
    ranks = np.array([scipy.stats.rankdata(-draw, method="average") for draw in draws]) if ranks is None else ranks
    score_low, score_high = np.percentile(draws, [LOW, HIGH], axis=0)
    rank_low, rank_high = np.percentile(ranks, [LOW, HIGH], axis=0)
    found = [
        KnobRank(
            knob=name, score=float(score[i]), score_low=float(min(score_low[i], score[i])),
            score_high=float(max(score_high[i], score[i])), rank=float(rank[i]),
            rank_low=float(min(rank_low[i], rank[i])), rank_high=float(max(rank_high[i], rank[i])),
        )
        for i, name in enumerate(names)
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda entry: (entry.rank, entry.knob)))


def overlap_verdict(knobs: Sequence[KnobRank]) -> str:
    """Why the ranks tell nothing: no effect, or every interval overlaps every other; "" when some knob stands out.

    Overlap is a lack of proof and no proof of equality: of two knobs whose intervals overlap, one may still matter more.
    """
    if len(knobs) < 2:
        return ""
    if all(entry.score == 0.0 for entry in knobs):
        return "not enough data to tell: no knob shows any effect"
    if min(entry.rank_high for entry in knobs) >= max(entry.rank_low for entry in knobs):
        return (
            "not enough data to tell: the rank intervals of all knobs overlap; one may matter more than another all the same, "
            "but which one is not shown"
        )
    return ""
