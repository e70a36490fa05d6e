"""ModelSearcher: what all searchers share that score candidates with a model and ask for the most promising.

A design first (the advice and a small Latin hypercube), then a model of the trials; candidates everywhere, near the best
and between good ones; the best of them are improved by single-knob changes, as in F. Hutter, H. Hoos, K. Leyton-Brown,
"Sequential Model-Based Optimization for General Algorithm Configuration", LION 2011, §4.3.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from trimtab.search.base import Options, SearcherBase
from trimtab.search.candidates import Moves
from trimtab.search.ledger import Evidence
from trimtab.search.lhs import latin_hypercube
from trimtab.search.searcher import SearchProblem
from trimtab.space import Config, RestartClass

__all__ = ["Model", "ModelSearcher", "single_threaded"]

Array = NDArray[np.float64]

_REFIT_EVERY = 8
"""Refit when 1/8 more configs are known than at the last fit."""

_N_CENTRES = 6
_N_DONORS = 20
_CLIMBERS, _CLIMB_ROUNDS, _CLIMB_POINTS = 5, 3, 100
"""Local search from the most promising candidates: single-knob changes."""

_TRIED = 8
"""How many of the best candidates are looked at for one that is new."""

_REPAIRED = 64
"""How many infeasible candidates are moved into the feasible region when it is small."""

_SMALL_GAINS = 10


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def single_threaded() -> AbstractContextManager[Any]:
    """While inside, linear algebra uses one thread."""
    limiter: AbstractContextManager[Any] = _blas().limit(limits=1, user_api="blas")
    return limiter


class Model(Protocol):
    """What is believed after the trials told so far.

    Attributes:
        leaders: acceptable configs, those of least expected loss first; at least one.
    """

    leaders: list[Evidence]

    def worth(self, features: Array) -> Array:
        """What a trial is worth at the rows of `features` (m, f): (m,), more is better, on a logarithmic scale."""
        ...

    def expected_gain(self, features: Array) -> float:
        """Expected improvement of the loss at one row (1, f)."""
        ...


class ModelSearcher(SearcherBase):
    """Advice and a small Latin hypercube first; then what a model holds for most promising. A strategy brings the model."""

    OPTIONS: ClassVar[Options] = {
        "initial": (0, "space-filling configs before the model is used; 0: chosen from knobs and budget"),
        "candidates": (1200, "points scored for one ask"),
        "caution": (4.0, "how much the risk of failing counts: exponent of the probability of success"),
        "changes": (3.0, "mean number of knobs changed at once near a good config"),
        "restart_share": (1.0, "share of local candidates in which knobs that need a restart may change"),
        "marginal": (0.002, "converged when the expected gain (log-ratio) of ten asks in a row is below this"),
    }

    def __init__(self, problem: SearchProblem) -> None:
        super().__init__(problem)
        self._check_options()
        self._design = self._make_design(np.random.default_rng([problem.seed, 0, 3]))
        self._slices = list(self.space.feature_slices.values())
        self._costly = np.array([knob.restart is not RestartClass.RELOAD for knob in self.space.knobs.values()])
        self._n_fitted = 0
        self._n_small_gains = 0

    def _check_options(self) -> None:
        for name in ("initial", "marginal", "caution"):
            self._require(name, self.options[name] >= 0, "0 or more")
        self._require("candidates", self.options["candidates"] >= 10, "10 or more")
        self._require("changes", self.options["changes"] >= 1, "1 or more")
        self._require("restart_share", 0 <= self.options["restart_share"] <= 1, "between 0 and 1")

    @property
    def _is_local(self) -> bool:
        """Whether only few-knob changes of good configs are considered."""
        return False

    @property
    def is_converged(self) -> bool:
        """Whether the last ten asks promised next to nothing."""
        return self._n_small_gains >= _SMALL_GAINS

    @abstractmethod
    def _model(self, evidence: list[Evidence], rng: np.random.Generator) -> Model:
        """The model for everything told so far, at least two configs of it measured."""

    def _effects(self) -> Array | None:
        """How much each feature moves the loss, (f,), as the model sees it; None when it does not know."""
        return None

    def _is_refit_due(self, n_known: int) -> bool:
        """Whether enough was told since the last fit; counts as fitted when it was."""
        if self._n_fitted and n_known < self._n_fitted + max(1, self._n_fitted // _REFIT_EVERY):
            return False
        self._n_fitted = n_known
        return True

    def _make_design(self, rng: np.random.Generator) -> list[Config]:
        """Configs to try before the model: the advice and a small Latin hypercube."""
        n = int(self.options["initial"]) or self._n_initial()
        return [*self._openers(), *latin_hypercube(self.space, n, rng)]

    def _n_initial(self) -> int:
        """A quarter of the budget at most, and about a third of the knobs: the model learns more from its own asks."""
        most = (self.problem.budget_trials or 60) // 4
        return int(np.clip(self.space.n_dims // 3, 2, max(2, min(most, 10))))

    def _propose(self, rng: np.random.Generator) -> Config:
        planned = self._planned()
        if planned is not None:
            return planned
        evidence = self._known()
        if self.space.n_dims == 0 or sum(bool(e.measured) for e in evidence) < 2:
            return self._remote(rng)
        # One thread: matrices this small gain nothing from more, threads wait for each other on a loaded machine (seconds
        # instead of milliseconds), and the order of sums, so the next ask, would depend on the number of cores.
        with single_threaded():
            return self._chosen(self._model(evidence, rng), rng)

    def _planned(self) -> Config | None:
        """The next config of the design; None when it is done."""
        return self._first_new(self._design)

    def _known(self) -> list[Evidence]:
        """What the model learns from."""
        return list(self.ledger)

    def _chosen(self, model: Model, rng: np.random.Generator) -> Config:
        """The config to ask, given the model."""
        return self._most_promising(model, rng)

    def _remote(self, rng: np.random.Generator) -> Config:
        """While nothing could be measured: a random config far from everything that failed."""
        drawn = [config for config in self.space.sample(32, rng) if self._is_new(config)]
        if not drawn or not len(self.ledger):
            return self._random_new(rng)
        known = np.array([e.features for e in self.ledger])
        gaps = self.space.features(drawn)[:, None, :] - known[None, :, :]
        return drawn[int(np.argmax((gaps**2).sum(axis=2).min(axis=1)))]

    def _pending_features(self) -> Array:
        """(p, f) features of the configs asked and not yet told."""
        return self.space.features(list(self.pending)) if self.pending else np.empty((0, 0))

    def _most_promising(self, model: Model, rng: np.random.Generator) -> Config:
        points = self._candidates(model.leaders, rng)
        if not len(points):
            return self._random_new(rng)
        worth = model.worth(self.space.features_of_points(points))
        points, worth = self._climb(model, points, worth, rng)
        order = np.argsort(-worth, kind="stable")[:_TRIED]
        config = self._first_new(self.space.decode_many(points[order]))
        if config is None:
            return self._random_new(rng)
        gain = model.expected_gain(self.space.features([config]))
        self._n_small_gains = self._n_small_gains + 1 if gain < self.options["marginal"] else 0
        return config

    def _moves(self, mean_changes: float) -> Moves:
        """Knobs that the model holds for relevant are changed more often; each keeps a fair chance."""
        d, effects = self.space.n_dims, self._effects()
        weights = np.full(d, 1.0 / d)
        if effects is not None:
            relevance = np.sqrt([effects[columns].sum() for columns in self._slices])
            weights = 0.5 * weights + 0.5 * relevance / relevance.sum()
        return Moves(weights, self._costly, self.options["restart_share"], mean_changes)

    def _candidates(self, leaders: Sequence[Evidence], rng: np.random.Generator) -> Array:
        """Points (m, d) of new feasible configs, to be scored."""
        n = int(self.options["candidates"])
        best = np.array([e.point for e in leaders[:_N_DONORS]])
        anchors = [self.space.encode(config) for config in [self.filler, *self._openers()]]
        donors = np.vstack([best, *anchors])
        moves = self._moves(self.options["changes"])
        far = 0 if self._is_local else n * 4 // 10
        return self._feasible_points(
            np.vstack(
                [
                    moves.near(best[:1], donors, (n - far) // 2, rng),
                    moves.near(best[:_N_CENTRES], donors, (n - far) // 2, rng),
                    moves.between(donors, far // 4, rng),
                    moves.anywhere(far - far // 4, self.space.n_dims, rng),
                ]
            )
        )

    def _bounded(self, points: Array) -> Array:
        """`points` (m, d) moved to where the strategy looks at all."""
        return points

    def _feasible_points(self, points: Array) -> Array:
        """The new feasible ones of `points`; where few are feasible, some that were moved into the region as well."""
        mask = self.space.feasible_mask(points)
        if mask.sum() < len(points) // 4:
            repaired = [self.space.repair(config) for config in self.space.decode_many(points[~mask][:_REPAIRED])]
            points = np.vstack([points[mask], *map(self.space.encode, repaired)])
        return self._new_points(points)

    def _new_points(self, points: Array) -> Array:
        """The places of the feasible configs that `points` decode to, each once, without those asked or told."""
        points = np.unique(self.space.snap(points[self.space.feasible_mask(points)]), axis=0)
        known = {e.point.tobytes() for e in self.ledger} | {self.space.encode(c).tobytes() for c in self.pending}
        return points[[point.tobytes() not in known for point in points]]

    def _climb(self, model: Model, points: Array, worth: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        """`points` and their `worth` with those added that a few rounds of single-knob changes find."""
        moves = self._moves(1.0)
        for _ in range(_CLIMB_ROUNDS):
            top = points[np.argsort(-worth, kind="stable")[:_CLIMBERS]]
            steps = self._new_points(self._bounded(moves.near(top, top, _CLIMB_POINTS, rng)))
            if len(steps):
                points = np.vstack([points, steps])
                worth = np.r_[worth, model.worth(self.space.features_of_points(steps))]
        return points, worth
