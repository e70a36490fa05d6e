"""Check: whether ranks that were carried from another study agree with this study's own trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # its stats, most of a second to load, come on first use

from trimtab.errors import UsageError
from trimtab.importance.consensus import NINETY, rank_knobs
from trimtab.importance.ranking import KnobRank, Ranker, RankProblem
from trimtab.importance.resample import HIGH, LOW

__all__ = ["RankCheck", "check_ranks"]

_DRAWS = 200
_LEAST_COMMON = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RankCheck:
    """Whether ranks that come from elsewhere agree with the trials of this study.

    Attributes:
        is_confirmed: whether the carried ranks may be used.
        correlation, correlation_low, correlation_high: of the two orders, from -1 to 1, the top knobs counting most
            (weighted Kendall tau), with its 90 % bootstrap interval.
        verdict: one sentence that says so.
        missing: knobs that this study is sure of and the carried ranks do not have or have far behind.
    """

    is_confirmed: bool
    correlation: float
    correlation_low: float
    correlation_high: float
    verdict: str
    missing: tuple[str, ...] = ()


def check_ranks(problem: RankProblem, ranks: Sequence[str], rankers: Sequence[Ranker] | None = None) -> RankCheck:
    """Compares `ranks` (knobs, most important first) with what the problem's own trials say (by `rank_knobs`).

    Confirmed when the correlation is above 0 with its whole interval and no knob that surely matters here is missing
    among the first of `ranks`. Knobs that only one side has are not compared.

    Source: S. Vigna, "A Weighted Correlation Index for Rankings with Ties", WWW 2015 (hyperbolic weights).

    Raises:
        UsageError: as `samples_of`; a knob twice in `ranks`, or fewer than 3 knobs in common.
    """
    if len(set(ranks)) < len(ranks):
        twice = next(name for i, name in enumerate(ranks) if name in ranks[:i])
        raise UsageError(f"knob={twice!r} comes twice in the carried ranks", hint="name each knob once")
    common = [name for name in ranks if name in problem.space.knobs]
    if len(common) < _LEAST_COMMON:
        raise UsageError(
            f"n_common={len(common)} knobs of the carried ranks are in this space; {_LEAST_COMMON} are needed",
            hint="carry ranks from a study of the same kind of target",
        )
    found = rank_knobs(problem, rankers)
    by_name = {entry.knob: entry for entry in found.knobs}
    draws = _correlations([by_name[name] for name in common], problem.seed)
    low, high = (float(value) for value in np.percentile(draws, [LOW, HIGH]))
    missing = _missing(found.knobs, found.knee, ranks) if not found.verdict else ()
    is_confirmed = not found.verdict and low > 0.0 and not missing
    return RankCheck(
        is_confirmed=is_confirmed, correlation=draws[0], correlation_low=min(low, draws[0]),
        correlation_high=max(high, draws[0]), verdict=_said(found.verdict, draws[0], low, missing), missing=missing,
    )  # fmt: skip


def _correlations(entries: Sequence[KnobRank], seed: int) -> list[float]:
    """Of the carried order, which is that of `entries`, with this study's ranks and with draws from their intervals."""
    rng = np.random.default_rng([seed, 51])
    carried = -np.arange(len(entries), dtype=np.float64)
    rank, low, high = (np.array([getattr(e, name) for e in entries]) for name in ("rank", "rank_low", "rank_high"))
    draws = [rank]
    for _ in range(_DRAWS):
        draws.append(np.clip(rank + (high - low) / NINETY * rng.standard_normal(len(rank)), low, high))
    return [float(np.nan_to_num(scipy.stats.weightedtau(carried, -draw).statistic)) for draw in draws]


def _missing(knobs: Sequence[KnobRank], knee: int, ranks: Sequence[str]) -> tuple[str, ...]:
    """Knobs before the knee, surely within twice of it, that are not in the first 2 k of `ranks`."""
    sure = [entry.knob for entry in knobs[:knee] if entry.rank_high <= 2 * knee]
    return tuple(name for name in sure if name not in ranks[: 2 * knee])


def _said(doubt: str, correlation: float, low: float, missing: Sequence[str]) -> str:
    if doubt:
        return f"the carried ranks cannot be checked: {doubt}"
    if missing:
        return f"the carried ranks are not confirmed: they miss {', '.join(missing)}, which matter here"
    if low <= 0.0:
        return f"the carried ranks are not confirmed: their correlation with this study's is {correlation:.2f}, and may be none"
    return f"the carried ranks are confirmed: their correlation with this study's is {correlation:.2f}"
