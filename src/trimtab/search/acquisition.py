"""What a trial is worth: the logarithm of the expected improvement, plus terms for what else counts.

    symbol   meaning
    EI       expected improvement on the incumbent
    P        probability that the config works and meets the objective's constraints
    o        how far each knob lies outside all values that were seen to work, as shares of its range, summed
    b        how far the config repeats what is blamed for a failure, 0 to 1
    c        cost of the trial relative to one that changes only what a reload makes effective
    π, n     the prior density of good configs, and the number of configs told

    ln EI + caution · ln P + blame · ln(1 - 0.98 b) - o / reach - ln c + (β / n) · ln π

Sources: D. Jones, M. Schonlau, W. Welch, "Efficient Global Optimization of Expensive Black-Box Functions", J. Global
Optimization 13 (1998), eq. 15; S. Ament et al., "Unexpected Improvements to Expected Improvement for Bayesian
Optimization", NeurIPS 2023, eq. 9 (a logarithm that does not underflow); M. Gelbart, J. Snoek, R. Adams, "Bayesian
Optimization with Unknown Constraints", UAI 2014 (P); J. Snoek, H. Larochelle, R. Adams, "Practical Bayesian Optimization of
Machine Learning Algorithms", NeurIPS 2012, §3.2 (c); C. Hvarfner et al., "πBO", ICLR 2022, eq. 6 (π).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

from trimtab.search.belief import Belief
from trimtab.search.ledger import Evidence, Ledger
from trimtab.search.searcher import RestartCost
from trimtab.search.surrogate import Feasibility, GaussianModel, Model
from trimtab.space import RestartClass, Space

__all__ = [
    "Gain", "Score", "Term", "believed", "beyond", "blamed", "expected_gain", "feasible", "improvement",
    "log_expected_improvement", "lower_bound", "no_repeat", "reach", "restart_cost", "scored", "thompson",
]  # fmt: skip

Array = NDArray[np.float64]
Score = Callable[[Array], Array]
"""(m, f) features -> (m,), on a logarithmic scale; more is better."""

_ROOT_HALF_PI = math.sqrt(math.pi / 2.0)
_LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)
_FAR = -1e6
"""Below this u, 1 - |u|·√(π/2)·erfcx(|u|/√2) loses all digits; it tends to 1/u²."""


def log_expected_improvement(mean: Array, sd: Array, incumbent: float) -> Array:
    """log E[max(incumbent - f, 0)] for f ~ N(mean, sd²), elementwise; finite for every finite mean and sd > 0."""
    u = (incumbent - mean) / sd
    near = u > -1.0
    result = np.empty_like(u)
    result[near] = np.log(np.exp(-0.5 * u[near] ** 2 - _LOG_ROOT_2PI) + u[near] * special.ndtr(u[near]))
    far = ~near
    size = np.abs(u[far])
    remainder = 1.0 - size * _ROOT_HALF_PI * special.erfcx(size / math.sqrt(2.0))
    remainder = np.where(u[far] < _FAR, size**-2.0, np.maximum(remainder, size**-2.0 * 1e-3))
    result[far] = -0.5 * size**2 - _LOG_ROOT_2PI + np.log(remainder)
    return result + np.log(sd)


Term = Callable[[Ledger], Score]
"""Something that counts beside the expected improvement: what it adds, given what is known."""

Gain = Callable[[Model, Array, np.random.Generator], Array]
"""What a trial promises by a model alone, at the rows of features (m, f): (m,), on a logarithmic or the model's own scale."""


def improvement(model: Model, features: Array, rng: np.random.Generator) -> Array:
    """ln EI."""
    return log_expected_improvement(*model.predict(features), model.incumbent)


def lower_bound(width: float) -> Gain:
    """How far the lower confidence bound, `width` standard deviations below the mean, lies below 0."""

    def gain(model: Model, features: Array, rng: np.random.Generator) -> Array:
        mean, sd = model.predict(features)
        return np.asarray(width * sd - mean)

    return gain


def thompson(model: Model, features: Array, rng: np.random.Generator) -> Array:
    """How far a function drawn from a Gaussian model lies below 0; the cost grows with the cube of m."""
    return -model.process.draw(features, rng) if isinstance(model, GaussianModel) else -model.predict(features)[0]


def scored(
    model: Model, ledger: Ledger, terms: Sequence[Term], rng: np.random.Generator, gain: Gain = improvement
) -> Score:
    """What a trial is worth by `model` and `terms`."""
    scores = [term(ledger) for term in terms]

    def worth(features: Array) -> Array:
        total = gain(model, features, rng)
        for score in scores:
            total = total + score(features)
        return total

    return worth


def expected_gain(model: Model, features: Array) -> float:
    """Expected improvement of the loss at one row (1, f), in units of the loss near the incumbent."""
    mean, sd = model.predict(features)
    return float(np.exp(log_expected_improvement(mean, sd, model.incumbent))[0]) * model.unit


def feasible(feasibility: Feasibility, caution: float) -> Term:
    """caution · ln P. One feasibility may serve several members."""

    def term(ledger: Ledger) -> Score:
        log_probability = feasibility.learn(ledger.evidence, ledger.allowed)
        if log_probability is None or not caution:
            return lambda features: np.zeros(len(features))
        return lambda features: caution * log_probability(features)

    return term


def no_repeat(blame: float) -> Term:
    """blame · ln(1 - 0.98 b): the same cause fails again."""

    def term(ledger: Ledger) -> Score:
        share = blamed(ledger.evidence, ledger.space.features([ledger.home])[0])
        return lambda features: blame * np.log1p(-_CERTAIN * share(features))

    return term


def reach(wide: float, narrow: float, accepted: float) -> Term:
    """-o / width: a border is unknown until it was crossed, so it is crossed in small steps.

    The width is `wide`, and `narrow` while more than the share `accepted` of the trials has failed: who may fail once in a
    hundred trials and has failed stays with what was seen to work until enough others have worked.
    """

    def term(ledger: Ledger) -> Score:
        evidence, home = ledger.evidence, ledger.space.features([ledger.home])[0]
        outside = beyond(evidence, home, _feature_weights(ledger.space))
        n_bad = sum(e.n_bad for e in evidence)
        n = n_bad + sum(e.n_good for e in evidence)
        width = narrow if n_bad > accepted * n else wide
        return lambda features: -outside(features) / width

    return term


def restart_cost(cost: float, slow: Sequence[RestartCost] = ()) -> Term:
    """-ln c, with c = 1 + cost where a knob that needs a restart differs from what the target has now, + what each of the slow
    restarts costs that this makes."""

    def term(ledger: Ledger) -> Score:
        space, here = ledger.space, ledger.space.features([ledger.here])[0]

        def columns(names: Collection[str]) -> NDArray[np.bool_]:
            mask = np.zeros(len(here), dtype=bool)
            for name in names:
                mask[space.feature_slices[name]] = True
            return mask

        late = {name for name, knob in space.knobs.items() if knob.restart is not RestartClass.RELOAD}
        costs = [(columns(late), cost), *((columns(late & each.knobs), each.runs) for each in slow)]

        def score(features: Array) -> Array:
            differs = np.abs(features - here) > _SAME
            return np.asarray(-np.log1p(sum(runs * differs[:, mask].any(axis=1) for mask, runs in costs)))

        return score

    return term


def believed(belief: Belief, strength: float) -> Term:
    """(β / n) · ln π: what was expected beforehand counts less with every config told."""

    def term(ledger: Ledger) -> Score:
        weight, trust = strength / max(1, len(ledger.evidence)), belief.trust(ledger.evidence)
        return lambda features: weight * belief.log_density(features, trust)

    return term


_LABEL_WEIGHT = 0.1
"""Share of a range that a choice or special value never tried counts for: it cannot be approached in steps."""

_REMEMBERED = 60
"""Failures, the latest, that are held against candidates."""

_SAME = 1e-6

_CERTAIN = 0.98
"""Probability that a full repeat of what is blamed fails again; each of n suspects is to blame with probability 1/n."""


def _feature_weights(space: Space) -> Array:
    """How much leaving the tried range of each feature counts, (f,)."""
    slices = space.feature_slices
    weights = np.full(max((columns.stop for columns in slices.values()), default=0), _LABEL_WEIGHT)
    for name, columns in slices.items():
        if space.knobs[name].is_numeric:
            weights[columns.start] = 1.0
    return weights


def beyond(evidence: Sequence[Evidence], home: Array, weight: Array) -> Score:
    """How far features (m, f) lie outside the ranges that were seen to work, summed over features: (m,).

    Args:
        evidence: everything told; its acceptable configs and the baseline's features `home` (f,) span the ranges.
        weight: (f,) how much leaving the range of each feature counts.
    """
    seen = np.array([home, *(e.features for e in evidence if e.is_acceptable)])
    low, high = seen.min(axis=0), seen.max(axis=0)
    return lambda features: np.asarray((np.maximum(low - features, 0.0) + np.maximum(features - high, 0.0)) @ weight)


def blamed(evidence: Sequence[Evidence], home: Array) -> Score:
    """How far features (m, f) repeat what is to blame for a failure, by elimination: (m,), 0 to 1.

    A failed config is held against the acceptable one that is nearest to it: the features in which it went further than
    any acceptable config did are suspects; all in which the two differ, when none went further (a border of several knobs
    at once).

    Args:
        evidence: everything told.
        home: (f,) features of the baseline, which works.
    """
    good = np.array([home, *(e.features for e in evidence if e.is_acceptable)])
    low, high = good.min(axis=0), good.max(axis=0)
    failed = [e.features for e in evidence if not e.is_acceptable][-_REMEMBERED:]
    cases = [_suspects(features, good, low, high) for features in failed]

    def share(features: Array) -> Array:
        worst = np.zeros(len(features))
        for suspects, start, step in cases:
            if len(suspects):
                gone = (features[:, suspects] - start) / step
                np.minimum(np.maximum(gone, 0.0, out=gone), 1.0, out=gone)
                worst = np.maximum(worst, gone.sum(axis=1) / len(suspects))
        return worst

    return share


def _suspects(failed: Array, good: Array, low: Array, high: Array) -> tuple[NDArray[np.intp], Array, Array]:
    """The suspects, their values in the nearest acceptable config, and how far the failed one went from there."""
    changed = np.abs(good - failed)
    nearest = good[int(np.argmin((changed > _SAME).sum(axis=1) + changed.mean(axis=1)))]
    differs = np.abs(failed - nearest) > _SAME
    further = differs & ((failed < low - _SAME) | (failed > high + _SAME))
    suspects = np.flatnonzero(further if further.any() else differs)
    return suspects, nearest[suspects], failed[suspects] - nearest[suspects]
