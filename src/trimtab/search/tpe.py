"""Tree-structured Parzen estimator: configs that are likely among the good trials and unlikely among the others.

Source: J. Bergstra, R. Bardenet, Y. Bengio, B. Kégl, "Algorithms for Hyper-Parameter Optimization", NeurIPS 2011, §4:
the expected improvement grows with l(x) / g(x), where l is the density of the better share γ of the trials and g that of
the rest. Failed trials belong to the rest, which needs no loss of them, and a probability of success from two further
densities is multiplied in. Configs asked and not yet told belong to the rest as well, so batches spread out.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from trimtab.search.base import Options, SearcherBase
from trimtab.search.ledger import Evidence, kept
from trimtab.search.lhs import latin_hypercube
from trimtab.search.parzen import Parzen
from trimtab.search.searcher import SearchProblem
from trimtab.space import Config

__all__ = ["TreeParzenSearcher"]

Array = NDArray[np.float64]

_TRIED = 8
"""How many of the best candidates are looked at for one that is new."""


class TreeParzenSearcher(SearcherBase):
    """The advice and a small Latin hypercube; then what is likely among good trials and unlikely among bad ones."""

    NAME: ClassVar[str] = "tpe"
    NEARS_CONSTRAINTS: ClassVar[bool] = True
    OPTIONS: ClassVar[Options] = {
        "startup": (0, "space-filling configs before the densities are used; 0: half of the knobs, 4 to 10"),
        "gamma": (0.2, "share of the trials that count as good; at most 25 of them"),
        "draws": (100, "candidates drawn from the good density for one ask"),
        "multivariate": (True, "one density over all knobs; else one for each knob"),
        "cap": (400, "most configs in the densities: the best, the latest, and some of the others"),
    }

    def __init__(self, problem: SearchProblem) -> None:
        super().__init__(problem)
        self._check_options()
        n = self.options["startup"] or int(np.clip(self.space.n_dims // 2, 4, 10))
        rng = np.random.default_rng([problem.seed, 0, 9])
        self._design = [*self._openers(n_starts=0), *latin_hypercube(self.space, n, rng)]

    def _check_options(self) -> None:
        self._require("startup", self.options["startup"] >= 0, "0 or more")
        self._require("gamma", 0 < self.options["gamma"] < 1, "between 0 and 1")
        self._require("draws", self.options["draws"] >= 1, "1 or more")
        self._require("cap", self.options["cap"] >= 10, "10 or more")

    def _propose(self, rng: np.random.Generator) -> Config:
        planned = self._first_new(self._design)
        if planned is not None:
            return planned
        if self.space.n_dims == 0 or self.ledger.best() is None:
            return self._random_new(rng)
        good, rest = self._split()
        liked = self._density(good)
        points = self._feasible(liked.draw(self.options["draws"], rng))
        ratio = liked.log_density(points) - self._density(rest).log_density(points)
        order = np.argsort(-(ratio + self._log_success(points)), kind="stable")
        config = self._first_new(self.space.decode_many(points[order]))
        return self._random_new(rng) if config is None else config

    def _density(self, points: Array) -> Parzen:
        return Parzen(points, self.space.bins, is_joint=self.options["multivariate"])

    def _log_success(self, points: Array) -> Array:
        """Log probability of being acceptable at `points` (m, d), by Bayes' rule from two densities: (m,)."""
        known = kept(list(self.ledger), self.options["cap"])
        works = np.array([e.point for e in known if e.is_acceptable])
        fails = np.array([e.point for e in known if not e.is_acceptable])
        if not len(fails):
            return np.zeros(len(points))
        odds = self._density(works).log_density(points) - self._density(fails).log_density(points)
        return np.asarray(special.log_expit(odds + math.log(len(works) / len(fails))))

    def _split(self) -> tuple[Array, Array]:
        """Places of the good configs (n, d), best first, and of all others (m, d), failed and pending ones included."""
        known = kept(list(self.ledger), self.options["cap"])
        ranked = sorted((e for e in known if e.is_acceptable), key=_loss)
        n_good = min(math.ceil(self.options["gamma"] * len(ranked)), 25)
        good = {id(e) for e in ranked[:n_good]}
        others = [e.point for e in known if id(e) not in good]
        others += [self.space.encode(config) for config in self.pending]
        d = self.space.n_dims
        return np.array([e.point for e in ranked[:n_good]]).reshape(-1, d), np.array(others).reshape(-1, d)

    def _feasible(self, points: Array) -> Array:
        """The feasible ones of `points` as their configs lie; where there is none, some moved into the region."""
        mask = self.space.feasible_mask(points)
        if mask.any():
            return self.space.snap(points[mask])
        configs = self.space.feasible_configs(points[:_TRIED])
        return np.array([self.space.encode(config) for config in configs])


def _loss(evidence: Evidence) -> float:
    return evidence.loss
