"""SimplexSearcher: what Nelder-Mead, Parallel Rank Ordering and AtuneRT share: the initial simplex, its end, restarts.

Source of the ways to begin: Zhou 2013, §5.6 and the outlook of its last chapter (random points of the bounded space,
boundary values, Latin hypercube sampling, the best configurations of prior runs). All vertices are feasible, and span
as many dimensions as the constraints leave (§3.4.3: a flat simplex cannot see some directions).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import ClassVar

import numpy as np
import scipy  # its stats, most of a second to load, come on first use
from numpy.typing import NDArray

from trimtab.search.base import Options
from trimtab.search.searcher import SearchProblem
from trimtab.search.stepwise import SteppedSearcher, Steps
from trimtab.space import Config

__all__ = ["Point", "SimplexSearcher"]

Point = NDArray[np.float64]

_INITS = ("axes", "random", "boundary", "latin", "prior")
_REJECTS = ("penalty", "repair")

_FLAT = 1e-6
"""A vertex less than this out of the plane of the others adds no dimension."""

_SHARES = (1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0)
"""Steps along an axis, in radii, tried until one leads to another feasible config."""


class SimplexSearcher(SteppedSearcher):
    """Probes, then one simplex after another; how a simplex moves is up to the strategy."""

    FITS_MODEL: ClassVar[bool] = False
    OPTIONS: ClassVar[Options] = {
        "probes": (8, "random configs tried before the first simplex, in addition to the advice"),
        "init": ("axes", "initial simplex: 'axes', 'random', 'boundary', 'latin', or 'prior' (the best trials so far)"),
        "radius": (0.35, "size of the initial simplex as a share of each knob's range"),
        "reflect": (1.0, "reflection coefficient"),
        "expand": (2.0, "expansion coefficient, more than reflect"),
        "shrink": (0.5, "shrink coefficient, between 0 and 1"),
        "reject": (
            "penalty",
            "an infeasible point: 'penalty' ranks it last unasked, 'repair' moves it to the nearest feasible",
        ),
        "spread": (0.005, "converged when the losses (log-ratios) of the simplex lie this close together ..."),
        "size": (0.02, "... and its vertices this close to their centre, as a share of the cube's diagonal"),
        "marginal": (0.01, "least improvement of the loss that counts as progress"),
        "patience": (0, "steps without progress before a simplex is given up; 0: two per vertex"),
        "restarts": (2, "restarts without progress after which the search calls itself converged"),
    }

    def __init__(self, problem: SearchProblem) -> None:
        super().__init__(problem)
        self._stale_restarts = 0

    def _check_options(self) -> None:
        given = self.options
        for name in ("probes", "patience"):
            self._require(name, given[name] >= 0, "0 or more")
        for name in ("reflect", "spread", "size", "marginal"):
            self._require(name, given[name] > 0, "more than 0")
        self._require("shrink", 0 < given["shrink"] < 1, "between 0 and 1")
        self._require("radius", 0 < given["radius"] <= 1, "more than 0 and at most 1")
        self._require("expand", given["expand"] > given["reflect"], "more than reflect")
        self._require("restarts", given.get("restarts", 1) >= 1, "1 or more")
        self._require("init", given["init"] in _INITS, "'axes', 'random', 'boundary', 'latin' or 'prior'")
        self._require("reject", given["reject"] in _REJECTS, "'penalty' or 'repair'")

    @property
    def is_converged(self) -> bool:
        """Whether the last `restarts` simplices brought no progress."""
        return self._stale_restarts >= int(self.options["restarts"])

    @property
    def _reach(self) -> float:
        return float(self.options["radius"]) / 2

    @abstractmethod
    def _transform(self, simplex: list[Config]) -> Steps:
        """One step of the strategy on `simplex`, which is sorted by loss and changed in place."""

    @property
    def _n_starts(self) -> int:
        """As many as the initial simplex, which they form, has vertices."""
        return self._n_vertices()

    def _n_vertices(self) -> int:
        return self.space.n_dims + 1

    def _patience(self, simplex: list[Config]) -> int:
        return int(self.options["patience"]) or 2 * len(simplex)

    def _run(self) -> Steps:
        yield from self._probe()
        method = "prior" if self.problem.starts else str(self.options["init"])
        while True:
            before = self._best_loss()
            yield from self._descend(self._simplex(self._best_or_random(), method))
            yield from self._elsewhere()
            method = "random"
            progressed = self._best_loss() < before - self.options["marginal"]
            self._stale_restarts = 0 if progressed else self._stale_restarts + 1

    def _probe(self) -> Steps:
        """The advice and random configs, or what past studies found best instead; at least one config is known then."""
        openers = self._openers()
        n_least = 0 if openers or len(self.ledger) else 1
        n = 0 if self.problem.starts else int(self.options["probes"])
        yield openers + self.space.sample(max(n_least, n), self._rng)

    def _best_or_random(self) -> Config:
        best = self.ledger.best()
        return best.config if best is not None else self.space.sample(1, self._rng)[0]

    def _elsewhere(self) -> Steps:
        """Half as many probes as at the start and a simplex from the best of them, to leave a local minimum."""
        probes = self.space.sample(max(1, int(self.options["probes"]) // 2), self._rng)
        yield probes
        yield from self._descend(self._simplex(min(probes, key=self._loss), "random"))

    def _simplex(self, start: Config, method: str) -> list[Config]:
        """Different feasible configs, `start` first, that span the space as far as constraints allow."""
        origin = self.space.encode(start)
        vertices = self._spanning(start, self._candidates(origin, method))
        for _ in range(4 * self._n_vertices()):
            if len(vertices) >= self._n_vertices():
                break
            extra = self._scattered(origin)
            if extra not in vertices:
                vertices.append(extra)
        return vertices

    def _candidates(self, origin: Point, method: str) -> Iterator[Config]:
        """Feasible configs for the vertices by `method`, and then those that move along one axis."""
        axes = range(self.space.n_dims)
        if method == "random":
            yield from (self._scattered(origin) for _ in axes)
        elif method == "boundary":
            yield from filter(None, (self._moved_to_border(origin, axis) for axis in axes))
        elif method == "latin":
            yield from self._latin(origin)
        elif method == "prior":
            told = (evidence for evidence in self.ledger if evidence.is_acceptable)
            yield from (evidence.config for evidence in sorted(told, key=lambda evidence: evidence.loss))
        yield from filter(None, (self._moved(origin, axis) for axis in axes))

    def _spanning(self, start: Config, candidates: Iterable[Config]) -> list[Config]:
        """`start` and the first of `candidates` that each add a dimension (Gram-Schmidt)."""
        vertices, basis = [start], np.empty((0, self.space.n_dims))
        origin = self.space.encode(start)
        for config in candidates:
            edge = self.space.encode(config) - origin
            rest = edge - basis.T @ (basis @ edge)
            length = float(np.linalg.norm(rest))
            if length > _FLAT:
                vertices.append(config)
                basis = np.vstack([basis, rest / length])
            if len(vertices) > self.space.n_dims:
                break
        return vertices

    def _moved(self, origin: Point, axis: int) -> Config | None:
        """A feasible config that differs from `origin` along `axis`, as near to the radius as there is one."""
        sign = 1.0 if self._rng.random() < 0.5 else -1.0
        return self._placed(origin, axis, [origin[axis] + sign * share * self.options["radius"] for share in _SHARES])

    def _moved_to_border(self, origin: Point, axis: int) -> Config | None:
        """A feasible config at the end of `axis` that is farther from `origin`, or as near to an end as constraints allow."""
        far = 0.0 if origin[axis] > 0.5 else 1.0
        ways = [(far, 1.0), (1.0 - far, 1.0), (far, 0.5), (1.0 - far, 0.5), (far, 0.25), (1.0 - far, 0.25)]
        return self._placed(origin, axis, [origin[axis] + share * (end - origin[axis]) for end, share in ways])

    def _placed(self, origin: Point, axis: int, places: Iterable[float]) -> Config | None:
        """`origin` with `axis` at the first of `places` that gives another feasible config."""
        start = self.space.decode(origin)
        for place in places:
            point = origin.copy()
            point[axis] = np.clip(place, 0.0, 1.0)
            config = self.space.decode(point)
            if config != start and self.space.is_feasible(config):
                return config
        return None

    def _scattered(self, origin: Point) -> Config:
        """A feasible random config within the radius of `origin` in every knob."""
        radius = self.options["radius"]
        shift = self._rng.uniform(-radius, radius, origin.shape)
        return self._feasible(np.clip(origin + shift, 0.0, 1.0))

    def _latin(self, origin: Point) -> Iterator[Config]:
        """Feasible configs of a Latin hypercube over the box of the radius around `origin`."""
        if not len(origin):
            return
        low, high = np.clip([origin - self.options["radius"], origin + self.options["radius"]], 0.0, 1.0)
        for place in scipy.stats.qmc.LatinHypercube(len(origin), seed=self._rng).random(len(origin)):
            yield self._feasible(low + place * (high - low))

    def _feasible(self, point: Point) -> Config:
        return self.space.repair(self.space.decode(point))

    def _descend(self, simplex: list[Config]) -> Steps:
        """Transforms `simplex` until it has converged or no longer progresses."""
        yield simplex
        best, idle = math.inf, 0
        while len(simplex) > 1 and idle < self._patience(simplex):
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

    def _at(self, centre: Point, vertex: Point, factor: float) -> Config:
        """The lattice point next to centre + factor · (vertex - centre), kept within the cube; as `reject` says when
        infeasible."""
        point = np.clip(centre + factor * (vertex - centre), 0.0, 1.0)
        return self._feasible(point) if self.options["reject"] == "repair" else self.space.decode(point)

    def _askable(self, configs: Iterable[Config]) -> list[Config]:
        return [config for config in configs if self.space.is_feasible(config)]

    def _shrunk(self, simplex: list[Config]) -> list[Config]:
        """All vertices but the best, moved towards it; those that become infeasible stay where they were."""
        best = self.space.encode(simplex[0])
        moved = [self._at(best, self.space.encode(vertex), self.options["shrink"]) for vertex in simplex[1:]]
        return [new if self.space.is_feasible(new) else old for new, old in zip(moved, simplex[1:], strict=True)]
