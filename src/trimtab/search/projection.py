"""Projection search: another searcher works on a few made-up dimensions, each of which moves many knobs at once.

    symbol   meaning                                                              shape
    z        what the inner searcher chooses, each in [-1, 1], on K levels        (m,)
    h, σ     which z moves a knob, and in which direction (±1): drawn once        (d,)
    u        a knob's place: from the baseline (z = 0) towards an end of its axis (d,)
    p        share of the axis of a knob with special values that means those     scalar

Source: K. Kanellis, C. Ding, B. Kroth, A. Müller, C. Curino, S. Venkataraman, "LlamaTune: Sample-Efficient DBMS
Configuration Tuning", VLDB 2022, §3 (HeSBO projection), §4.1 (special-value bias) and §4.2 (bucketing); the projection is
that of A. Nayebi, A. Munteanu, M. Poloczek, "A Framework for Bayesian Optimization in Embedded Subspaces", ICML 2019.
Changed: z = 0 is the baseline instead of the middle of every range, so that what is known to work is in the search.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from trimtab import plugins
from trimtab.records import Prior, Trial
from trimtab.search.base import Options, SearcherBase
from trimtab.search.searcher import Searcher, SearchProblem
from trimtab.space import Config, Knob, KnobKind, Space

__all__ = ["ProjectionSearcher"]

Array = NDArray[np.float64]

_TRIES = 12
"""How many points of the inner searcher are looked at for one whose config is new."""


class ProjectionSearcher(SearcherBase):
    """The advice, then what `inner` asks for in few dimensions projected onto all knobs; not compared with `random` yet.

    Trials of configs that the projection cannot make (the advice, other studies) count for `best` only.
    """

    NAME: ClassVar[str] = "projection"
    OPTIONS: ClassVar[Options] = {
        "inner": ("gp", "searcher that works on the few dimensions, with its own defaults"),
        "dimensions": (16, "how many dimensions there are; at most one for each knob"),
        "special_share": (0.2, "share of its axis that means the special values of a knob which has them"),
        "buckets": (10000, "levels of a dimension"),
    }

    def __init__(self, problem: SearchProblem) -> None:
        super().__init__(problem)
        self._check_options()
        rng = np.random.default_rng([problem.seed, 0, 7])
        d = self.space.n_dims
        m = max(1, min(self.options["dimensions"], d))
        # Every dimension gets a knob first, and what is left over falls at random.
        self._source = rng.permutation(np.r_[np.arange(m)[:d], rng.integers(m, size=d - min(m, d))])
        self._sign = rng.choice([-1.0, 1.0], size=d)
        self._half = max(1, self.options["buckets"] // 2)
        self._names = [f"z{i:02d}" for i in range(m)]
        self._home = self._to_shares(self.space.encode(self.filler))
        self._inner = self._make_inner()
        origin = Config(dict.fromkeys(self._names, 0))
        self._places: dict[Config, list[Config]] = {self.space.canonical(self.filler): [origin]}
        self._told: dict[Config, list[Trial]] = {}

    def _check_options(self) -> None:
        self._require("dimensions", self.options["dimensions"] >= 1, "1 or more")
        self._require("special_share", 0 <= self.options["special_share"] < 1, "0 or more and less than 1")
        self._require("buckets", self.options["buckets"] >= 2, "2 or more")
        self._require("inner", self.options["inner"] != self.NAME, "another searcher")

    def _make_inner(self) -> Searcher:
        """The inner searcher on integers from -K/2 to K/2."""
        low, high = -self._half, self._half
        knobs = [Knob(name=name, kind=KnobKind.INTEGER, low=low, high=high, default=0) for name in self._names]
        space = Space(knobs)
        inner = plugins.load("searchers", self.options["inner"])
        problem = replace(
            self.problem,
            space=space,
            baseline=space.default(),
            advice=(),
            starts=(),
            past=(),
            prior=Prior(),
            options={},
        )
        return cast(Searcher, inner(problem))

    @property
    def is_converged(self) -> bool:
        """Whether the inner searcher thinks so."""
        return self._inner.is_converged

    def tell(self, trial: Trial) -> None:
        """As `SearcherBase.tell`; the inner searcher hears of it where the projection makes this config."""
        super().tell(trial)
        config = self.ledger.own(trial.config)
        if config is None:
            return
        self._told.setdefault(config, []).append(trial)
        for place in self._places.get(config, ()):
            self._inner.tell(replace(trial, config=place))

    def _propose(self, rng: np.random.Generator) -> Config:
        opener = self._opening()
        if opener is not None:
            return opener
        for _ in range(0 if self.is_exhausted else _TRIES):
            place = self._inner.ask()[0]
            config = self._projected(place)
            places = self._places.setdefault(config, [])
            is_repeat = place in places
            if not is_repeat:
                places.append(place)
            if self._is_new(config) or (is_repeat and config not in self.pending):
                return config
            # Another point has made this config before: what is known of it is known of this point as well.
            for trial in () if is_repeat else self._told.get(config, ()):
                self._inner.tell(replace(trial, config=place))
        return self._random_new(rng)

    def _projected(self, place: Config) -> Config:
        """The feasible config that a point of the inner space makes."""
        z = np.array([float(place[name]) for name in self._names]) / self._half
        t = self._sign * z[self._source]
        room = np.where(t > 0, 1.0 - self._home, self._home)
        return self.space.repair(self.space.decode(self._to_points(self._home + t * room)))

    def _is_hybrid(self) -> NDArray[np.bool_]:
        """Which knobs are numbers with special values, (d,)."""
        begins, _ = self.space.bins
        return (begins > 0) & (begins < 1)

    def _to_points(self, shares: Array) -> Array:
        """Places on the axes (d,) where special values take p of the axis, as points of the cube."""
        begins, p = self.space.bins[0], self.options["special_share"]
        special = shares / max(p, 1e-12) * begins
        regular = begins + (shares - p) / (1.0 - p) * (1.0 - begins)
        # Just below, since a bin ends where the next one begins.
        moved = np.where(shares < p, np.minimum(special, np.nextafter(begins, 0.0)), regular)
        return np.where(self._is_hybrid(), moved, shares)

    def _to_shares(self, points: Array) -> Array:
        """The inverse of `_to_points`."""
        begins, p = self.space.bins[0], self.options["special_share"]
        inner = np.where(begins > 0, begins, 1.0)
        special = points / inner * p
        regular = p + (points - begins) / np.where(begins < 1, 1.0 - begins, 1.0) * (1.0 - p)
        return np.where(self._is_hybrid(), np.where(points < begins, special, regular), points)
