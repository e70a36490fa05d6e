"""WarmSearcher: past studies propose the first trials, for as long as they rank this study's trials better than it does itself.

The advice comes first, then the best config of the nearest past study, then what a ranking-weighted ensemble of past models
holds for most promising (see `trimtab.search.rgpe`). The searcher itself takes over when its own model ranks better, and at
once when no past study ranks the trials better than chance: negative transfer costs a few trials. All is a function of the
problem and the trials told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from trimtab.records import Trial
from trimtab.search.acquisition import feasible
from trimtab.search.base import Options
from trimtab.search.design import Design, ListedDesign
from trimtab.search.engine import BayesianSearcher, Member
from trimtab.search.gp import MODEL_OPTIONS
from trimtab.search.ledger import Evidence, kept, measured
from trimtab.search.optimise import Everywhere, optimiser
from trimtab.search.past import PastStudy
from trimtab.search.plugin_guard import GuardedSearcher
from trimtab.search.rgpe import PastModel, RankingEnsemble, misranked, shares_won
from trimtab.search.searcher import SearchProblem
from trimtab.search.surrogate import Feasibility, GaussianModel
from trimtab.space import Config
from trimtab.threads import single_threaded
from trimtab.units import format_percent

__all__ = ["WarmLog", "WarmSearcher", "warmed"]

Array = NDArray[np.float64]

_LEAST_JUDGED = 4
"""Measured configs, the baseline among them, before a past study is judged."""

_WELL_JUDGED = 8
"""Measured configs from which on a past study must rank better than chance in three of four draws of them, not in half."""

_CHANCE = 0.5
"""Share of misranked pairs of a prior that knows nothing."""

_MIXED_FROM, _MOST = 6, 30
"""Asks from which on the searcher gets every other, and from which on it gets all."""

_HANDED = 0.6
"""Weight of this study's own model from which the searcher takes over."""

_FIT_CAP = 200


@dataclass(slots=True)
class WarmLog:
    """What became of the prior, for the study to tell and to keep.

    Attributes:
        dropped: reason by the name of a past study that is not used any more.
        weights: of each past study at the last ask that the ensemble answered.
        n_asks: asks that the ensemble answered.
        lines: what has not been told yet.
    """

    dropped: dict[str, str] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    n_asks: int = 0
    lines: list[str] = field(default_factory=list)

    def take(self) -> list[str]:
        """What has been decided since this was last called, one line each."""
        lines, self.lines = self.lines, []
        return lines

    def drop(self, name: str, reason: str) -> None:
        """Notes, once, that a past study is used no more."""
        if name not in self.dropped:
            self.dropped[name] = reason
            self.lines.append(f"the prior of study={name!r} is dropped: {reason}")


def warmed(name: str, problem: SearchProblem, log: WarmLog) -> GuardedSearcher:
    """The searcher registered as `name`; one that works with a model gets `problem.past` as a prior, any other the starts.

    Raises:
        UsageError, InternalError: as `create`.
    """
    from trimtab.search import create

    plain = create(name, replace(problem, past=()))
    if not problem.past or not isinstance(plain.inner, BayesianSearcher) or not problem.space.knobs:
        return plain
    inner = create(name, replace(problem, past=(), starts=())).inner
    if not isinstance(inner, BayesianSearcher):
        return plain
    return GuardedSearcher(name, lambda given: WarmSearcher(given, inner, log), replace(problem, options={}))


class WarmSearcher(BayesianSearcher):
    """`inner` with a prior.

    Args:
        problem: with `past` and perhaps `starts`.
        inner: for the same problem without them; it must have been told nothing.
        log: told what happens.
    """

    NAME: ClassVar[str] = "warm"
    OPTIONS: ClassVar[Options] = MODEL_OPTIONS

    def __init__(self, problem: SearchProblem, inner: BayesianSearcher, log: WarmLog) -> None:
        super().__init__(problem)
        self._inner, self._log = inner, log
        self._past = [
            PastModel(_in_space(study, self), self.space, problem.seed)
            for study in problem.past
            if len(study.configs) > 1
        ]
        self._weights: list[float] = []
        self._own: GaussianModel | None = None

    def _made(self) -> tuple[Design, Sequence[Member]]:
        caution, self._ensemble = self.options["caution"], RankingEnsemble()
        terms = [feasible(Feasibility(self.options["cap"]), caution), self._ensemble.works(caution)]
        optimise = optimiser(self.space, (self.filler, *self._openers()), self.belief)
        return ListedDesign(self.space, ()), [Member(self._ensemble, Everywhere(), terms, optimise)]

    @property
    def is_converged(self) -> bool:
        """As the searcher says."""
        return self._inner.is_converged

    def tell(self, trial: Trial) -> None:
        """Learns from `trial`, and passes it on."""
        super().tell(trial)
        self._inner.tell(trial)

    @property
    def _n_starts(self) -> int:
        return 1

    def _propose(self, rng: np.random.Generator) -> Config:
        opener = self._opening()
        if opener is not None:
            return opener
        known = kept(measured(self.ledger.evidence), _FIT_CAP)
        if self._is_turn and len(known) >= 2:
            with single_threaded():
                self._own = self._believed(len(known), rng)
                own_weight = self._weigh(known)
                if self._past and own_weight <= _HANDED:
                    self._ensemble.weigh(self._noted(), self._own, own_weight)
                    self._ensemble.learn(self.ledger, rng)
                    return self._most_promising(self.members[0], rng)
        config = self._inner.ask(1)[0]
        return config if config not in self.pending else self._random_new(rng)

    @property
    def _is_turn(self) -> bool:
        """Whether this ask is one for the ensemble, if it is to be trusted."""
        return bool(self._past) and self.n_asked < _MOST and (self.n_asked < _MIXED_FROM or self.n_asked % 2 == 0)

    def _believed(self, n_known: int, rng: np.random.Generator) -> GaussianModel | None:
        """This study's own model; None while it has too few trials."""
        if n_known < _LEAST_JUDGED:
            return None
        model = GaussianModel(self.n_features, _FIT_CAP)
        model.learn(self.ledger, rng)
        return model

    def _noted(self) -> list[tuple[PastModel, float]]:
        """The past studies with the weights of this ask, which the log is told."""
        self._log.n_asks += 1
        self._log.weights = {m.study.name: round(w, 3) for m, w in zip(self._past, self._weights, strict=True)}
        return list(zip(self._past, self._weights, strict=True))

    def _weigh(self, some: list[Evidence]) -> float:
        """Weighs the past studies, drops those that rank like chance, and returns the own model's weight."""
        if self._own is None:
            self._weights = self._by_nearness().tolist()
            return 0.0
        losses, features = np.array([e.loss for e in some]), np.array([e.features for e in some])
        se = np.array([e.se or 0.0 for e in some])
        seed = (self.problem.seed, len(some), 7)
        theirs = [misranked(model.predict(features)[0], losses, se, seed) for model in self._past]
        level = 0.75 if len(some) >= _WELL_JUDGED else 0.5
        shares = [float(np.nanquantile(draws, level)) if np.isfinite(draws).any() else None for draws in theirs]
        left = [i for i, model in enumerate(self._past) if not self._is_dropped(model, shares[i])]
        self._past = [self._past[i] for i in left]
        mine = misranked(self._own.base.left_out(), losses, se, seed)
        won = shares_won(np.array([*(theirs[i] for i in left), mine]), np.r_[self._by_nearness(), 0.0])
        self._weights = won[:-1].tolist()
        return float(won[-1])

    def _by_nearness(self) -> Array:
        """The weights that the past studies have while nothing speaks for or against them."""
        nearness = np.array([model.study.nearness for model in self._past])
        return np.asarray(nearness / nearness.sum())

    def _is_dropped(self, model: PastModel, share: float | None) -> bool:
        # None: no two trials differ by more than their noise. What is missed of a constraint past studies know nothing of.
        if share is None or share < _CHANCE or self.ledger.allowed:
            return False
        self._log.drop(
            model.study.name,
            f"it may well put {format_percent(share)} of the pairs of this study's trials in the wrong order; "
            "knowing nothing is as good",
        )
        return True


def _in_space(study: PastStudy, searcher: BayesianSearcher) -> PastStudy:
    """In the space of the searcher, which may have fewer knobs than the study."""

    knobs = set(searcher.space.knobs)
    if all(set(config) == knobs for config in (*study.configs, *study.failed)):
        return study

    def own(configs: tuple[Config, ...]) -> tuple[Config, ...]:
        return tuple(searcher.space.fit(config, searcher.filler) for config in configs)

    return replace(study, configs=own(study.configs), failed=own(study.failed))
