"""Nelder-Mead on the lattice of the space: random probes, then a simplex from the best of them, restarted when done.

Sources: J. Nelder, R. Mead, "A simplex method for function minimization", Computer Journal 7 (1965); the modified
method of AtuneRT (Karcher, Landhäußer, "Autotuning PostgreSQL", ICSE 2018, §2: limited random probes first, discrete
search space, values kept in range, stop when the improvement is marginal); Active Harmony's (Zhou 2013, §3.4.2, §5.6:
feasible initial simplex, penalty for infeasible points, converged when the values lie within a tolerance or all
vertices are one point).

An infeasible point gets an infinite loss inside the simplex and is never asked. A config whose loss is known already is
not asked again.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from trimtab.search.base import Options, SearcherBase
from trimtab.search.searcher import SearchProblem
from trimtab.space import Config

__all__ = ["NelderMeadSearcher"]

Point = NDArray[np.float64]
Steps = Generator[list[Config], None, None]
"""Yields configs whose losses it needs; is resumed when all of them are in the ledger."""

_MOST_SILENT_STEPS = 200
"""Steps answered from the ledger in one ask before a random config is given instead (a space nearly used up)."""


class NelderMeadSearcher(SearcherBase):
    """One simplex at a time; asks beyond what the simplex waits for are answered with neighbours of the best config."""

    NAME: ClassVar[str] = "nelder-mead"
    OPTIONS: ClassVar[Options] = {
        "probes": (8, "random configs tried before the first simplex, beside the advice"),
        "init": ("axes", "initial simplex: 'axes' moves one knob per vertex, 'random' draws them around the start"),
        "radius": (0.35, "size of the initial simplex as a share of each knob's range"),
        "reflect": (1.0, "reflection coefficient"),
        "expand": (2.0, "expansion coefficient, more than reflect"),
        "contract": (0.5, "contraction coefficient, between 0 and 1"),
        "shrink": (0.5, "shrink coefficient, between 0 and 1"),
        "spread": (0.005, "converged when the losses (log-ratios) of the simplex lie this close together ..."),
        "size": (0.02, "... and its vertices this close to their centre, as a share of the cube's diagonal"),
        "marginal": (0.01, "least improvement of the loss that counts as progress"),
        "patience": (0, "steps without progress before a simplex is given up; 0: two per vertex"),
        "restarts": (2, "restarts without progress after which the search calls itself converged"),
    }

    def __init__(self, problem: SearchProblem) -> None:
        super().__init__(problem)
        self._check_options()
        self._rng = np.random.default_rng([problem.seed, 0, 2])
        self._steps = self._run()
        self._wanted: list[Config] = next(self._steps)
        self._stale_restarts = 0

    def _check_options(self) -> None:
        given = self.options
        for name in ("probes", "patience"):
            self._require(name, given[name] >= 0, "0 or more")
        for name in ("reflect", "spread", "size", "marginal"):
            self._require(name, given[name] > 0, "more than 0")
        for name in ("contract", "shrink"):
            self._require(name, 0 < given[name] < 1, "between 0 and 1")
        self._require("radius", 0 < given["radius"] <= 1, "more than 0 and at most 1")
        self._require("expand", given["expand"] > given["reflect"], "more than reflect")
        self._require("restarts", given["restarts"] >= 1, "1 or more")
        self._require("init", given["init"] in ("axes", "random"), "'axes' or 'random'")

    @property
    def is_converged(self) -> bool:
        """Whether the last `restarts` simplices brought no progress."""
        return self._stale_restarts >= int(self.options["restarts"])

    def _propose(self, rng: np.random.Generator) -> Config:
        if self.is_exhausted:
            return self._random_new(rng)
        for _ in range(_MOST_SILENT_STEPS):
            missing = [config for config in self._wanted if config not in self.ledger]
            waiting = [config for config in missing if config not in self.pending]
            if waiting:
                return waiting[0]
            if missing:
                return self._meanwhile(rng)
            self._wanted = next(self._steps)
        return self._random_new(rng)

    def _meanwhile(self, rng: np.random.Generator) -> Config:
        """Something useful while every point that the simplex needs is being measured."""
        best = self.ledger.best()
        if best is not None:
            near = self._first_new(self.space.neighbours(best.config, rng, 16, radius=self.options["radius"] / 2))
            if near is not None:
                return near
        return self._random_new(rng)

    def _loss(self, config: Config) -> float:
        """Loss of a told config; the penalty (infinite) when it failed, broke a constraint, or is infeasible."""
        evidence = self.ledger.get(config)
        return evidence.loss if evidence is not None and evidence.is_acceptable else math.inf

    def _best_loss(self) -> float:
        best = self.ledger.best()
        return math.inf if best is None else best.loss

    def _run(self) -> Steps:
        yield self._openers() + self.space.sample(max(1, self.options["probes"]), self._rng)
        method = str(self.options["init"])
        while True:
            before = self._best_loss()
            best = self.ledger.best()
            start = best.config if best is not None else self.space.sample(1, self._rng)[0]
            yield from self._descend(self._simplex(start, method))
            yield from self._elsewhere()
            method = "random"
            progressed = self._best_loss() < before - self.options["marginal"]
            self._stale_restarts = 0 if progressed else self._stale_restarts + 1

    def _elsewhere(self) -> Steps:
        """Half as many probes as at the start and a simplex from the best of them, to leave a local minimum."""
        probes = self.space.sample(max(1, self.options["probes"] // 2), self._rng)
        yield probes
        yield from self._descend(self._simplex(min(probes, key=self._loss), "random"))

    def _simplex(self, start: Config, method: str) -> list[Config]:
        """Up to d + 1 different feasible configs, `start` first."""
        vertices = [start]
        origin = self.space.encode(start)
        for axis in range(self.space.n_dims):
            moved = self._moved(origin, axis) if method == "axes" else self._scattered(origin)
            if moved is not None and moved not in vertices:
                vertices.append(moved)
        return vertices

    def _moved(self, origin: Point, axis: int) -> Config | None:
        """A feasible config that differs from `origin` along `axis`, as near to the radius as there is one."""
        sign = 1.0 if self._rng.random() < 0.5 else -1.0
        start = self.space.decode(origin)
        for share in (1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0):
            point = origin.copy()
            point[axis] = np.clip(point[axis] + sign * share * self.options["radius"], 0.0, 1.0)
            config = self.space.decode(point)
            if config != start and self.space.is_feasible(config):
                return config
        return None

    def _scattered(self, origin: Point) -> Config:
        """A feasible random config within the radius of `origin` in every knob."""
        radius = self.options["radius"]
        shift = self._rng.uniform(-radius, radius, origin.shape)
        config = self.space.decode(np.clip(origin + shift, 0.0, 1.0))
        return config if self.space.is_feasible(config) else self.space.repair(config)

    def _descend(self, simplex: list[Config]) -> Steps:
        """Transforms `simplex` until it has converged or no longer progresses."""
        yield simplex
        patience = int(self.options["patience"]) or 2 * len(simplex)
        best, idle = math.inf, 0
        while len(simplex) > 1 and idle < patience:
            simplex.sort(key=self._loss)
            if self._has_converged(simplex):
                return
            before = list(simplex)
            yield from self._transform(simplex)
            if set(simplex) == set(before):
                return
            least = min(map(self._loss, simplex))
            idle = 0 if least < best - self.options["marginal"] else idle + 1
            best = min(best, least)

    def _has_converged(self, simplex: list[Config]) -> bool:
        losses = [self._loss(config) for config in simplex]
        points = np.array([self.space.encode(config) for config in simplex])
        reach = float(np.linalg.norm(points - points.mean(axis=0), axis=1).max())
        is_flat = losses[-1] - losses[0] <= self.options["spread"] if math.isfinite(losses[-1]) else False
        return len(set(simplex)) == 1 or (is_flat and reach <= self.options["size"] * math.sqrt(points.shape[1]))

    def _transform(self, simplex: list[Config]) -> Steps:
        """One step of Nelder and Mead on `simplex`, which is sorted by loss and changed in place."""
        worst = self.space.encode(simplex[-1])
        centre = np.mean([self.space.encode(config) for config in simplex[:-1]], axis=0)
        reflected = self._at(centre, worst, -self.options["reflect"])
        yield self._askable(reflected)
        if self._is_better(reflected, simplex, than=simplex[0]):
            expanded = self._at(centre, worst, -self.options["expand"])
            yield self._askable(expanded)
            simplex[-1] = expanded if self._is_better(expanded, simplex, than=reflected) else reflected
            return
        if self._is_better(reflected, simplex, than=simplex[-2]):
            simplex[-1] = reflected
            return
        outside = self._is_better(reflected, simplex, than=simplex[-1])
        contracted = self._at(centre, worst, self.options["contract"] * (-1.0 if outside else 1.0))
        yield self._askable(contracted)
        if self._is_better(contracted, simplex, than=reflected if outside else simplex[-1]):
            simplex[-1] = contracted
            return
        simplex[1:] = self._shrunk(simplex)
        yield [config for vertex in simplex for config in self._askable(vertex)]

    def _shrunk(self, simplex: list[Config]) -> list[Config]:
        """All vertices but the best, moved towards it; those that become infeasible stay where they were."""
        best = self.space.encode(simplex[0])
        moved = []
        for vertex in simplex[1:]:
            config = self._at(best, self.space.encode(vertex), self.options["shrink"])
            moved.append(config if self.space.is_feasible(config) else vertex)
        return moved

    def _at(self, centre: Point, vertex: Point, factor: float) -> Config:
        """The lattice point next to centre + factor · (vertex - centre), kept within the cube."""
        return self.space.decode(np.clip(centre + factor * (vertex - centre), 0.0, 1.0))

    def _askable(self, config: Config) -> list[Config]:
        return [config] if self.space.is_feasible(config) else []

    def _is_better(self, config: Config, simplex: list[Config], *, than: Config) -> bool:
        """Whether `config` has less loss than `than`; never when it is a vertex: that would flatten the simplex."""
        return config not in simplex and self._loss(config) < self._loss(than)
