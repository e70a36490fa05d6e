"""What every ranker is given and what it answers: a ranking of a space's knobs with its uncertainty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from trimtab.errors import UsageError
from trimtab.records import Trial
from trimtab.space import Config, Space

__all__ = ["LEAST_CONFIGS", "KnobRank", "RankProblem", "Ranker", "Ranking", "TooFewError"]

LEAST_CONFIGS = 8
"""Fewer different configs are refused: no ranker tells anything from them."""


class TooFewError(UsageError):
    """Fewer than `LEAST_CONFIGS` different configs were measured: nothing is wrong with them, but they rank nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankProblem:
    """What a ranking is made of; no clock, no file, no server.

    Attributes:
        space: of the study.
        baseline: the config that the target had; importance relative to the default is relative to this one.
        trials: any trials of that space, in any order. Those that were not measured teach nothing of the objective.
        seed: of the bootstrap and of everything random; the same problem gives the same ranking.
        n_bootstrap: resamples behind an interval.
        memo: what is the same for all rankers of the problem, by name: it is made once.
    """

    space: Space
    baseline: Config
    trials: Sequence[Trial]
    seed: int = 1
    n_bootstrap: int = 50
    memo: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobRank:
    """One knob's place.

    Attributes:
        knob: its name.
        score: how much of the effect is this knob's, in [0, 1]; the scores of a ranking sum to 1 (all 0: no effect seen).
        score_low, score_high: 90 % bootstrap interval of the score.
        rank: 1 is the most important; ties share the mean rank.
        rank_low, rank_high: 90 % bootstrap interval of the rank.
    """

    knob: str
    score: float
    score_low: float
    score_high: float
    rank: float
    rank_low: float
    rank_high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """A ranker's answer.

    Attributes:
        ranker: its short name.
        knobs: every knob of the space, most important first.
        n_trials: measured trials that it was made of.
        verdict: "" when the ranking may be used, else why there is not enough data to tell, in one sentence.
        notes: what else people should know (a constant knob, aliased effects, ...), one sentence each.
        effects: what is special to the ranker, as JSON values by knob (the signed effect of a design, ...).
    """

    ranker: str
    knobs: tuple[KnobRank, ...]
    n_trials: int
    verdict: str = ""
    notes: tuple[str, ...] = ()
    effects: Mapping[str, float] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Knobs, most important first."""
        return tuple(entry.knob for entry in self.knobs)


@runtime_checkable
class Ranker(Protocol):
    """Ranks the knobs of a space by what trials show; a pure function of its problem.

    `rank` raises `UsageError` when the problem is of another kind than the ranker can take (too few trials, none of them
    measured, none of them varies a knob, trials of another space); what can be ranked but not told apart is a `verdict`.
    """

    name: str

    def rank(self, problem: RankProblem) -> Ranking: ...
