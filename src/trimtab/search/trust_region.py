"""Trust-region search: a Gaussian process near the incumbent, in a region that grows with success and shrinks with failure.

    symbol     meaning                                                       value
    L          side of the region, as a share of each knob's range           0.8 at the start
    L_min      a region smaller than this is given up                        2⁻⁷ · 0.8
    w_i        what the side is multiplied with for knob i                   effect_i^(-1/4), mean of logarithms 0
    τ_s, τ_f   successes after which L doubles, failures after it halves     options

Source: D. Eriksson, M. Pearce, J. Gardner, R. Turner, M. Poloczek, "Scalable Global Optimization via Local Bayesian
Optimization" (TuRBO-1), NeurIPS 2019, §3 and supplement (perturbing few dimensions, min(1, 20/d)). Changed for tuning:
the model keeps all trials, so a new region starts with what is known; failed trials count as failures of the region but
teach only the classifier; choices and special values, which have no neighbourhood, may change inside any region.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from trimtab.records import Trial
from trimtab.search.base import Options
from trimtab.search.gp import GaussianProcessSearcher
from trimtab.search.ledger import Evidence
from trimtab.search.modelled import Model
from trimtab.search.searcher import SearchProblem
from trimtab.space import Config

__all__ = ["TrustRegionSearcher"]

Array = NDArray[np.float64]

_START, _LARGEST, _SMALLEST = 0.8, 1.6, 0.8 / 2**7
_PROGRESS = 1e-3
"""Least improvement of the loss (log-ratio) that counts as success."""

_WIDEST, _NARROWEST = 4.0, 0.25
"""Bounds of w_i."""

_MOST_CHANGED = 20
"""Expected number of knobs changed in one candidate of TuRBO is at most this."""

_DRAWN = 300
"""Candidates at which a function is drawn for Thompson sampling: its cost grows with the cube."""


class TrustRegionSearcher(GaussianProcessSearcher):
    """Few-knob changes within a region around the incumbent that adapts its size; restarts elsewhere.

    Attributes:
        side: L, as a share of each knob's range.
    """

    NAME: ClassVar[str] = "trust-region"
    OPTIONS: ClassVar[Options] = {
        **GaussianProcessSearcher.OPTIONS,
        "acquisition": ("ei", "'ei': expected improvement; 'thompson': the least of a function drawn from the model"),
        "successes": (3, "improvements in a row after which the region doubles"),
        "failures": (0, "trials in a row without one after which it halves; 0: a quarter of the knobs, 4 to 10"),
    }

    def __init__(self, problem: SearchProblem) -> None:
        super().__init__(problem)
        self.side = _START
        self._n_successes = self._n_failures = 0
        self._least = math.inf
        self._n_regions = 1
        self._box = np.full(self.space.n_dims, 0.5), np.full(self.space.n_dims, 0.5)
        self._tolerance = self.options["failures"] or int(np.clip(self.space.n_dims // 4, 4, 10))

    def _check_options(self) -> None:
        super()._check_options()
        known = self.options["acquisition"] in ("ei", "thompson")
        self._require("acquisition", known, "'ei' or 'thompson'")
        self._require("successes", self.options["successes"] >= 1, "1 or more")
        self._require("failures", self.options["failures"] >= 0, "0 or more")

    @property
    def is_converged(self) -> bool:
        """Whether two regions have shrunk to nothing, or the model promises nothing more."""
        return self._n_regions > 2 or super().is_converged

    def tell(self, trial: Trial) -> None:
        """As `SearcherBase.tell`; a trial that this searcher asked for also counts for the size of the region."""
        config = self.ledger.own(trial.config)
        was_asked = config is not None and config in self.pending
        n_known = len(self.ledger)
        super().tell(trial)
        evidence = None if config is None else self.ledger.get(config)
        if evidence is None or len(self.ledger) == n_known:
            return
        loss = evidence.loss if evidence.is_acceptable else math.inf
        if was_asked and not any(config == planned for planned in self._design):
            self._adapt(loss < self._least - _PROGRESS)
        self._least = min(self._least, loss)

    def _adapt(self, is_success: bool) -> None:
        """One trial more in the region."""
        self._n_successes = self._n_successes + 1 if is_success else 0
        self._n_failures = 0 if is_success else self._n_failures + 1
        if self._n_successes == self.options["successes"]:
            self.side, self._n_successes = min(2.0 * self.side, _LARGEST), 0
        elif self._n_failures == self._tolerance:
            self.side, self._n_failures = 0.5 * self.side, 0
        if self.side < _SMALLEST:
            self._restart()

    def _restart(self) -> None:
        """A new region of full size; random configs decide with what is known where it lies."""
        self.side, self._least = _START, math.inf
        self._n_regions += 1
        rng = np.random.default_rng([self.problem.seed, self._n_regions, 5])
        self._design = self.space.sample(self._n_initial(), rng)
        self._start = len(self.ledger)

    _start = 0
    """Number of configs known when the present region began."""

    def _chosen(self, model: Model, rng: np.random.Generator) -> Config:
        if self.options["acquisition"] == "ei" or self._surrogate is None:
            return super()._chosen(model, rng)
        points = self._candidates(model.leaders, rng)
        if len(points) > _DRAWN:
            points = points[rng.choice(len(points), _DRAWN, replace=False)]
        if not len(points):
            return self._random_new(rng)
        features = self.space.features_of_points(points)
        drawn = self._surrogate.process.draw(features, rng) - self._surrogate.risk(features)
        config = self._first_new(self.space.decode_many(points[np.argsort(drawn, kind="stable")[:8]]))
        return self._random_new(rng) if config is None else config

    def _centre(self, leaders: Sequence[Evidence]) -> Array:
        """Where the region lies: the leader among the configs told since it began, else the leader."""
        recent = {id(e) for e in list(self.ledger)[self._start :]} if self._start else set()
        own = [e for e in leaders if id(e) in recent]
        return (own or list(leaders))[0].point

    def _lengths(self) -> Array:
        """The region's side for each knob, (d,): short for knobs of large effect."""
        effects = self._effects()
        if effects is None:
            return np.full(self.space.n_dims, self.side)
        logs = np.log([effects[columns].sum() + 1e-9 for columns in self._slices])
        weights = np.exp(-0.25 * (logs - logs.mean()))
        return np.asarray(self.side * np.clip(weights, _NARROWEST, _WIDEST))

    def _candidates(self, leaders: Sequence[Evidence], rng: np.random.Generator) -> Array:
        """Points (m, d) of new feasible configs in the region around the best of `leaders`."""
        n, d = int(self.options["candidates"]), self.space.n_dims
        centre = self._centre(leaders)
        half = 0.5 * self._lengths()
        self._box = centre, half
        donors = np.vstack([[e.point for e in leaders[:20]], self.space.encode(self.filler)])
        anchored = self._moves(self.options["changes"]).near(centre[None, :], donors, n // 2, rng)
        chance = min(1.0, _MOST_CHANGED / d) * rng.random((n - len(anchored), 1))
        changed = rng.random((len(chance), d)) < chance
        changed[np.arange(len(chance)), rng.integers(d, size=len(chance))] = True
        free = np.clip(centre + half * rng.uniform(-1.0, 1.0, changed.shape), 0.0, 1.0)
        points = np.vstack([anchored, np.where(changed, self._with_jumps(free, centre, rng), centre)])
        points = self._feasible_points(self._bounded(points))
        return points if len(points) else super()._candidates(leaders, rng)

    def _with_jumps(self, points: Array, centre: Array, rng: np.random.Generator) -> Array:
        """`points` with choices anywhere, and numbers on a special value now and then."""
        begins, counts = self.space.bins
        anywhere = rng.random(points.shape)
        jumps = (counts > 0) & ((begins >= 1.0) | (rng.random(points.shape) < 0.1) | (centre < begins))
        return np.where(jumps, anywhere, points)

    def _bounded(self, points: Array) -> Array:
        """`points` with numbers clipped to the region of the last candidates; choices and special values stay."""
        (centre, half), (begins, _) = self._box, self.space.bins
        is_number = (points >= begins) & (centre >= begins)
        inside = np.clip(points, np.maximum(centre - half, begins), np.minimum(centre + half, 1.0))
        return np.where(is_number, inside, points)
