"""Consensus: one ranking out of several, how many of its knobs are worth tuning, and whether it may be believed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy  # its stats, most of a second to load, come on first use
from numpy.typing import NDArray

from trimtab import plugins
from trimtab.errors import SpaceError, UsageError
from trimtab.importance.knee import knee_of
from trimtab.importance.ranking import KnobRank, Ranker, Ranking, RankProblem
from trimtab.importance.resample import fit_of, knob_ranks, overlap_verdict, shares, unpredicted
from trimtab.importance.samples import Samples, samples_of
from trimtab.importance.sard import has_two_levels
from trimtab.importance.slices import Dependence, Slice
from trimtab.space import Knob
from trimtab.threads import single_threaded
from trimtab.units import format_percent

__all__ = ["NINETY", "Consensus", "default_rankers", "rank_knobs"]

Array = NDArray[np.float64]

_DESIGN_RANKER = "sard"
_DRAWS = 300
_LEAST_TO_TRIM = 4
NINETY = 3.29
"""Standard deviations between the ends of a 90 % interval of the normal distribution."""
_LEAST_GAIN = 0.01
"""What the best value is expected to gain over the baseline's where tuning the knob pays: 1 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consensus:
    """What several rankers say together.

    Attributes:
        knobs: every knob of the space, most important first.
        rankings: of each ranker that took part.
        knee: how many knobs, from the front of `knobs`, are worth tuning (see `knee_of`); 0 when no effect was seen.
        verdict: "" when the ranks may be used, else "not enough data to tell ..." in one sentence.
        notes: what else people should know, one sentence each.
        not_worth: knob -> why tuning it does not pay although it is before the knee (its best value is its own).
        n_trials: measured trials.
        r2: cross-validated share of the loss's variance that a surrogate predicts, at most 1; 0 and less: no better
            than the mean; NaN: none was fitted.
    """

    knobs: tuple[KnobRank, ...]
    rankings: tuple[Ranking, ...]
    knee: int
    verdict: str = ""
    notes: tuple[str, ...] = ()
    not_worth: Mapping[str, str] = field(default_factory=dict)
    n_trials: int
    r2: float

    @property
    def names(self) -> tuple[str, ...]:
        """Knobs, most important first."""
        return tuple(entry.knob for entry in self.knobs)


def rank_knobs(problem: RankProblem, rankers: Sequence[Ranker] | None = None) -> Consensus:
    """Ranks the knobs by all `rankers` (default: those whose kind of trials is there).

    The consensus is by the mean rank over the rankers, weighted by how narrow each one's interval is, and of four or more
    without each knob's best and worst, so that no single one has a veto: `shapley` asks another question, and is blind to
    what is best already. Its intervals come from drawing rankers with replacement and, of each, ranks from its own
    intervals, so both their doubts and their disagreement count. A knob's score is the mean of its scores. Rankers with a
    verdict of their own are left out while others have none.

    Raises:
        UsageError: as `samples_of`; no ranker can take these trials.
    """
    with single_threaded():
        return _ranked(problem, default_rankers(problem) if rankers is None else rankers)


def _ranked(problem: RankProblem, rankers: Sequence[Ranker]) -> Consensus:
    samples = samples_of(problem)
    rankings, refusals = _rankings(problem, rankers)
    if not rankings:
        raise UsageError(
            f"no ranker can rank n_trials={samples.n_trials}: {'; '.join(refusals) or 'none was given'}",
            hint="use one of: " + ", ".join(plugins.names("rankers")),
        )
    used = [ranking for ranking in rankings if not ranking.verdict] or rankings
    knobs = _together(samples.names, used, problem.seed)
    fit = fit_of(problem, samples)
    knee = knee_of([entry.score for entry in knobs])
    verdict = _verdict(used, knobs, samples, fit.is_better)
    try:
        not_worth = {} if verdict else _not_worth(problem, samples, [entry.knob for entry in knobs[:knee]])
    except SpaceError as error:
        not_worth = {}
        refusals.append(f"which knobs gain nothing over the baseline is not known: {error.message}")
    left_out = [f"{r.ranker} is left out: {r.verdict}." for r in rankings if r not in used]
    notes = dict.fromkeys([*(note for ranking in rankings for note in ranking.notes), *left_out, *refusals])
    return Consensus(
        knobs=knobs, rankings=tuple(rankings), knee=knee, verdict=verdict, notes=tuple(notes), not_worth=not_worth,
        n_trials=samples.n_trials, r2=fit.r2,
    )  # fmt: skip


def default_rankers(problem: RankProblem) -> list[Ranker]:
    """Every registered ranker whose kind of trials is there: `sard` only where there is a two-level design. One that cannot be
    loaded or made is there all the same, and says why when it is to rank."""
    names = plugins.names("rankers")
    is_designed = has_two_levels(problem)
    return [_made(name) for name in names if is_designed or name != _DESIGN_RANKER]


def _made(name: str) -> Ranker:
    try:
        ranker: Ranker = plugins.load("rankers", name)()
    except UsageError as error:
        return _Unmade(name, error.message)
    except Exception as error:  # noqa: BLE001 - a plug-in: the others rank without it
        return _Unmade(name, f"it cannot be made: {type(error).__name__}: {error}")
    return ranker


@dataclass(slots=True)
class _Unmade:
    """In the place of a ranker that there is none of."""

    name: str
    reason: str

    def rank(self, problem: RankProblem) -> Ranking:
        """Raises UsageError: why."""
        raise UsageError(self.reason)


def _rankings(problem: RankProblem, rankers: Sequence[Ranker]) -> tuple[list[Ranking], list[str]]:
    """What the rankers say, and why those do not that cannot."""
    found, refusals = [], []
    for ranker in rankers:
        try:
            ranking = ranker.rank(problem)
        except UsageError as error:
            refusals.append(f"{ranker.name} takes no part: {error.message}")
        except Exception as error:  # noqa: BLE001 - a plug-in: the others rank without it
            refusals.append(f"{ranker.name} takes no part, for it failed: {type(error).__name__}: {error}")
        else:
            if sorted(ranking.names) == sorted(problem.space.knobs):
                found.append(ranking)
            else:
                refusals.append(f"{ranker.name} takes no part: it has not ranked each knob of the space once")
    return found, refusals


def _columns(names: Sequence[str], ranking: Ranking) -> Array:
    """(4, d) score, rank, and the ends of the rank's interval, in the order of `names`."""
    by_name = {entry.knob: entry for entry in ranking.knobs}
    rows = [by_name[name] for name in names]
    return np.array([[e.score, e.rank, e.rank_low, e.rank_high] for e in rows]).T


def _together(names: Sequence[str], rankings: Sequence[Ranking], seed: int) -> tuple[KnobRank, ...]:
    columns = np.array([_columns(names, ranking) for ranking in rankings])
    scores, ranks = columns[:, 0], columns[:, 1]
    rng = np.random.default_rng([seed, 41])
    width = columns[:, 3] - columns[:, 2]
    spread, weights = width / NINETY, 1.0 / (1.0 + width)
    mean_ranks, mean_scores = [_place(ranks, weights)], [scores.mean(axis=0)]
    for _ in range(_DRAWS):
        chosen = rng.integers(len(rankings), size=len(rankings))
        drawn = np.clip(ranks + spread * rng.standard_normal(ranks.shape), columns[:, 2], columns[:, 3])
        mean_ranks.append(_place(drawn[chosen], weights[chosen]))
        mean_scores.append(scores[chosen].mean(axis=0))
    order = np.array(mean_ranks)
    return knob_ranks(names, shares(mean_scores[0]), np.array([shares(row) for row in mean_scores]), ranks=order)


def _place(ranks: Array, weights: Array) -> Array:
    """(d,) the ranks of the weighted means of `ranks` (r, d), each knob's best and worst left out if r is four or more."""
    order = np.argsort(ranks, axis=0, kind="stable")
    order = order[1:-1] if len(order) >= _LEAST_TO_TRIM else order
    means = np.average(
        np.take_along_axis(ranks, order, axis=0), axis=0, weights=np.take_along_axis(weights, order, axis=0)
    )
    return np.asarray(scipy.stats.rankdata(np.round(means, 9), method="average"))


def _verdict(used: Sequence[Ranking], knobs: Sequence[KnobRank], samples: Samples, is_better: bool) -> str:
    doubts = [ranking.verdict for ranking in used if ranking.verdict]
    if len(doubts) == len(used):
        return doubts[0]
    is_designed = any(ranking.ranker == _DESIGN_RANKER for ranking in used)
    if not is_better and not is_designed:
        return unpredicted(len(samples))
    return overlap_verdict(knobs)


def _not_worth(problem: RankProblem, samples: Samples, names: Sequence[str]) -> dict[str, str]:
    """Of the knobs `names` those whose best value is not expected to gain anything over the baseline's.

    What is expected decides, not what is proven: of 40 configs a gain of 15 % is seldom proven, and the knob that brings it would
    be tuned last. One that has no effect in the baseline, by its condition, is none of them: what it gains it gains together with
    others.

    Source: V. Fernando, "Auto-tuning Multi-tiered Applications for Performance", MSc thesis, University of Moratuwa, 2016,
    §5.3, which compares the mean value in the best configs with the default; here the expected losses are compared, which
    also works for choices.
    """
    dependence = Dependence(problem, samples)
    found = {}
    is_off = dict(zip(problem.space.knobs, problem.space.inactive([problem.baseline])[0], strict=True))
    for name in names:
        cut = dependence.slice_of(name)
        if not is_off[name] and cut.gain < _LEAST_GAIN:
            found[name] = _reason(problem.space.knobs[name], cut, problem)
    return found


def _reason(knob: Knob, cut: Slice, problem: RankProblem) -> str:
    own = knob.format(problem.baseline[knob.name])
    if cut.best == problem.baseline[knob.name]:
        return f"its best value is the one it has ({own})"
    return f"no value is expected to be {format_percent(_LEAST_GAIN)} better than the one it has ({own})"
