"""The search for the config of greatest worth: candidates within a region, the best improved by single-knob changes.

Most of the reachable gain sits in a few knobs (Kanellis et al., HotStorage 2020), so most candidates differ from a good config
in a few knobs only. Values are also copied from other good configs: a special value (0, -1) is no neighbour of an ordinary
one. The trust region is that of TuRBO:

    symbol     meaning                                                       value
    L          side of the trust region, as a share of each knob's range     0.8 at the start
    L_min      a region smaller than this is given up                        2⁻⁷ · 0.8
    w_i        what the side is multiplied with for knob i                   effect_i^(-1/4), mean of logarithms 0
    τ_s, τ_f   successes after which L doubles, failures after it halves     options

Sources: D. Eriksson, M. Pearce, J. Gardner, R. Turner, M. Poloczek, "Scalable Global Optimization via Local Bayesian
Optimization" (TuRBO-1), NeurIPS 2019, §3 and supplement; F. Hutter, H. Hoos, K. Leyton-Brown, "Sequential Model-Based
Optimization for General Algorithm Configuration", LION 2011, §4.3 (changes of one parameter). Changed for tuning: the model
keeps all trials, so a new region starts with what is known; failed trials count as failures of the region but teach only the
classifier; choices and special values, which have no neighbourhood, may change inside any region.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trimtab.search.acquisition import Score
from trimtab.search.belief import Belief
from trimtab.search.ledger import Evidence, Ledger
from trimtab.search.surrogate import Model
from trimtab.space import Config, RestartClass, Space

__all__ = ["Everywhere", "Near", "Optimise", "Region", "TrustRegion", "crossed", "few_changes", "optimiser"]

Array = NDArray[np.float64]

_SMALLEST_STEP = 0.02
_LARGEST_STEP = 0.4
"""Range of the normal steps' standard deviation, drawn log-uniformly."""

_STEP, _JUMP = 0.5, 0.3
"""Shares of changed coordinates that make a normal step and that jump anywhere; the rest copies another good point."""


Near = Callable[[Array, Array, int, np.random.Generator], Array]
"""(k, d) centres, (a, d) donors, n -> (n, d) points: a centre each with few coordinates changed, some to a donor's."""


def few_changes(weights: Array, costly: NDArray[np.bool_], costly_share: float, mean_changes: float = 3.0) -> Near:
    """Makes points of the unit cube that lie near others.

    Args:
        weights: (d,) how likely each coordinate is changed, relative to the others; all more than 0.
        costly: (d,) coordinates of knobs that need more than a reload.
        costly_share: share of the points for which costly coordinates may change.
        mean_changes: expected number of coordinates changed in one point.
    """

    def chosen(n: int, d: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Which coordinates change, (n, d): at least one in each row."""
        count = np.minimum(1 + rng.poisson(max(0.0, mean_changes - 1.0), n), d)
        allowed = np.where(costly & (rng.random(n) >= costly_share)[:, None], 1e-9, 1.0) * weights
        # The `count` largest of Gumbel-perturbed log weights are a draw without replacement.
        keys = np.log(allowed) + rng.gumbel(size=(n, d))
        rank = np.argsort(np.argsort(-keys, axis=1), axis=1)
        return np.asarray(rank < count[:, None])

    def near(centres: Array, donors: Array, n: int, rng: np.random.Generator) -> Array:
        d = centres.shape[1]
        points = centres[rng.integers(len(centres), size=n)]
        changed = chosen(n, d, rng)
        spread = np.exp(rng.uniform(np.log(_SMALLEST_STEP), np.log(_LARGEST_STEP), (n, 1)))
        stepped = np.clip(points + spread * rng.standard_normal((n, d)), 0.0, 1.0)
        copied = donors[rng.integers(len(donors), size=(n, d)), np.arange(d)]
        kind = rng.random((n, d))
        moved = np.where(kind < _STEP, stepped, np.where(kind < _STEP + _JUMP, rng.random((n, d)), copied))
        return np.where(changed, moved, points)

    return near


def crossed(parents: Array, n: int, rng: np.random.Generator) -> Array:
    """`n` points (n, d), each taking every coordinate from one of two of `parents` (k, d)."""
    first, second = rng.integers(len(parents), size=n), rng.integers(len(parents), size=n)
    share = rng.random((n, 1))
    return np.where(rng.random((n, parents.shape[1])) < share, parents[first], parents[second])


_N_CENTRES, _N_DONORS = 6, 20

_START, _LARGEST, _SMALLEST = 0.8, 1.6, 0.8 / 2**7
_PROGRESS = 1e-3
"""Least improvement of the loss (log-ratio) that counts as success."""

_WIDEST, _NARROWEST = 4.0, 0.25
"""Bounds of w_i."""

_MOST_CHANGED = 20
"""Expected number of knobs changed in one candidate of TuRBO is at most this."""

_N_REGIONS = 2
"""Trust regions that shrink to nothing before the search has converged."""


class Region(Protocol):
    """Where a member looks.

    Attributes:
        planned: configs that the region wants tried before any candidate.
        is_converged: whether there is nowhere left to look.
    """

    planned: list[Config]

    @property
    def is_converged(self) -> bool: ...

    def draw(self, model: Model, near: Near, anchors: Array, n: int, rng: np.random.Generator) -> Array:
        """About `n` points (m, d), feasible or not; values may be copied from `anchors` (a, d)."""
        ...

    def bounded(self, points: Array) -> Array:
        """`points` (m, d) moved into the region of the last draw."""
        ...

    def told(self, evidence: Evidence, is_own: bool) -> None:
        """A config is known that was not before; `is_own`: this member asked for it."""
        ...

    def forget(self) -> None:
        """Drops what was kept of losses: they mean something else now."""
        ...


class Everywhere:
    """Few-knob changes of the leaders, mixtures of them, and points anywhere.

    Args:
        far: share of the candidates that are mixtures (a quarter of it) or anywhere.
    """

    def __init__(self, far: float = 0.4) -> None:
        self._far = far
        self.planned: list[Config] = []

    @property
    def is_converged(self) -> bool:
        """Never."""
        return False

    def draw(self, model: Model, near: Near, anchors: Array, n: int, rng: np.random.Generator) -> Array:
        """As `Region.draw`."""
        best = np.array([e.point for e in model.leaders[:_N_DONORS]])
        donors, far = np.vstack([best, anchors]), int(n * self._far)
        return np.vstack(
            [
                near(best[:1], donors, (n - far) // 2, rng),
                near(best[:_N_CENTRES], donors, (n - far) // 2, rng),
                crossed(donors, far // 4, rng),
                rng.random((far - far // 4, best.shape[1])),
            ]
        )

    def bounded(self, points: Array) -> Array:
        """All points are inside."""
        return points

    def told(self, evidence: Evidence, is_own: bool) -> None:
        """Nothing changes."""

    def forget(self) -> None:
        """Nothing was kept."""


class TrustRegion:
    """A region around the incumbent that grows with success, shrinks with failure, and starts again elsewhere.

    Args:
        space: what may change.
        successes, failures: τ_s and τ_f; failures 0: a quarter of the knobs, 4 to 10.
        sample: draws that many configs with which a new region begins, given its number.

    Attributes:
        side: L.
    """

    def __init__(
        self, space: Space, *, successes: int = 3, failures: int = 0, sample: Callable[[int], list[Config]]
    ) -> None:
        self._space, self._sample = space, sample
        self._successes, self._failures = successes, failures or int(np.clip(space.n_dims // 4, 4, 10))
        self.side, self.planned = _START, list[Config]()
        self._n_successes = self._n_failures = 0
        self._least = math.inf
        self._n_regions = 1
        self._inside: set[Config] | None = None
        self._box = np.full(space.n_dims, 0.5), np.full(space.n_dims, 0.5)

    @property
    def is_converged(self) -> bool:
        """Whether two regions have shrunk to nothing."""
        return self._n_regions > _N_REGIONS

    def told(self, evidence: Evidence, is_own: bool) -> None:
        """As `Region.told`; a trial that this member asked for also counts for the size of the region."""
        loss = evidence.loss if evidence.is_acceptable else math.inf
        if self._inside is not None:
            self._inside.add(evidence.config)
        is_success = loss < self._least - _PROGRESS
        self._least = min(self._least, loss)
        if is_own and evidence.config not in self.planned:
            self._adapt(is_success)

    def forget(self) -> None:
        """As `Region.forget`; its size stays."""
        self._least = math.inf

    def _adapt(self, is_success: bool) -> None:
        """One trial more in the region."""
        self._n_successes = self._n_successes + 1 if is_success else 0
        self._n_failures = 0 if is_success else self._n_failures + 1
        if self._n_successes == self._successes:
            self.side, self._n_successes = min(2.0 * self.side, _LARGEST), 0
        elif self._n_failures == self._failures:
            self.side, self._n_failures = 0.5 * self.side, 0
        if self.side < _SMALLEST:
            # A new region of full size; random configs decide with what is known where it lies.
            self.side, self._least, self._inside = _START, math.inf, set()
            self._n_regions += 1
            self.planned = self._sample(self._n_regions)

    def _lengths(self, model: Model) -> Array:
        """The region's side for each knob, (d,): short for knobs of large effect."""
        effects = [model.effects[columns].sum() for columns in self._space.feature_slices.values()]
        logs = np.log(np.array(effects) + 1e-9)
        weights = np.exp(-0.25 * (logs - logs.mean()))
        return np.asarray(self.side * np.clip(weights, _NARROWEST, _WIDEST))

    def draw(self, model: Model, near: Near, anchors: Array, n: int, rng: np.random.Generator) -> Array:
        """As `Region.draw`: around the leader among the configs known since the region began, else the leader."""
        inside = [e for e in model.leaders if self._inside is None or e.config in self._inside]
        centre, d = (inside or model.leaders)[0].point, self._space.n_dims
        half = 0.5 * self._lengths(model)
        self._box = centre, half
        donors = np.vstack([[e.point for e in model.leaders[:_N_DONORS]], anchors[:1]])
        local = near(centre[None, :], donors, n // 2, rng)
        chance = min(1.0, _MOST_CHANGED / d) * rng.random((n - len(local), 1))
        changed = rng.random((len(chance), d)) < chance
        changed[np.arange(len(chance)), rng.integers(d, size=len(chance))] = True
        free = np.clip(centre + half * rng.uniform(-1.0, 1.0, changed.shape), 0.0, 1.0)
        return self.bounded(np.vstack([local, np.where(changed, self._with_jumps(free, centre, rng), centre)]))

    def _with_jumps(self, points: Array, centre: Array, rng: np.random.Generator) -> Array:
        """`points` with choices anywhere, and numbers on a special value now and then."""
        begins, counts = self._space.bins
        anywhere = rng.random(points.shape)
        jumps = (counts > 0) & ((begins >= 1.0) | (rng.random(points.shape) < 0.1) | (centre < begins))
        return np.where(jumps, anywhere, points)

    def bounded(self, points: Array) -> Array:
        """`points` with numbers clipped to the region; choices and special values stay."""
        (centre, half), (begins, _) = self._box, self._space.bins
        is_number = (points >= begins) & (centre >= begins)
        inside = np.clip(points, np.maximum(centre - half, begins), np.minimum(centre + half, 1.0))
        return np.where(is_number, inside, points)


_CLIMBERS, _CLIMB_POINTS = 5, 100

_REPAIRED = 64
"""How many infeasible candidates are moved into the feasible region at most, when it is small."""

_PLAYED = 3
"""Leaders that candidates take over with each play."""


Optimise = Callable[[Ledger, Model, Score, Region, np.random.Generator], Array]
"""New feasible points (m, d) of a region, those of greatest worth first; perhaps none."""


def optimiser(
    space: Space, anchors: Sequence[Config], belief: Belief | None = None, *,
    n_candidates: int = 800, rounds: int = 6, changes: float = 3.0, restart_share: float = 1.0,
    held: frozenset[str] = frozenset(),
) -> Optimise:  # fmt: skip
    """Finds points of great worth.

    Args:
        space: what may change.
        anchors: baseline, advice and starts: points whose values candidates may copy.
        belief: plays that candidates may take; None where there are none.
        n_candidates: points scored before the best are improved.
        rounds: of single-knob changes.
        changes: mean number of knobs changed at once near a good config.
        restart_share: share of local candidates in which knobs that need a restart may change.
        held: knobs whose restart costs much: each candidate is looked at with these as the target has them now, too.
    """
    is_held = np.array([name in held for name in space.knobs], dtype=bool)

    def best(ledger: Ledger, model: Model, worth: Score, region: Region, rng: np.random.Generator) -> Array:
        donors, taken = np.array([space.encode(config) for config in anchors]), ledger.taken
        drawn = region.draw(model, _near(space, model, changes, restart_share), donors, n_candidates, rng)
        if belief is not None:
            plays = belief.moves(np.array([e.point for e in model.leaders[:_PLAYED]]))
            drawn = np.vstack([drawn, region.bounded(plays)]) if len(plays) else drawn
        if held:
            drawn = np.vstack([drawn, region.bounded(np.where(is_held, space.encode(ledger.here), drawn))])
        points, features = _new(space, _repaired(space, drawn), taken)
        if not len(points):
            return points
        value = worth(features)
        near = _near(space, model, 1.0, restart_share)
        for _ in range(rounds):
            top = points[np.argsort(-value, kind="stable")[:_CLIMBERS]]
            steps, features = _new(space, region.bounded(near(top, top, _CLIMB_POINTS, rng)), taken)
            if len(steps):
                points, value = np.vstack([points, steps]), np.r_[value, worth(features)]
        return np.asarray(points[np.argsort(-value, kind="stable")])

    return best


def _near(space: Space, model: Model, mean_changes: float, restart_share: float) -> Near:
    """Knobs that the model holds for relevant are changed more often; each keeps a fair chance."""
    relevance = np.sqrt([model.effects[columns].sum() for columns in space.feature_slices.values()])
    weights = 0.5 / space.n_dims + 0.5 * relevance / relevance.sum()
    costly = np.array([knob.restart is not RestartClass.RELOAD for knob in space.knobs.values()])
    return few_changes(weights, costly, restart_share, mean_changes)


def _repaired(space: Space, points: Array) -> Array:
    """`points`; where fewer than a quarter of them are feasible, others are moved into the feasible region, to make up for it."""
    mask = space.feasible_mask(points)
    n_lacking = min(len(points) // 4 - int(mask.sum()), _REPAIRED)
    if n_lacking > 0:
        repaired = space.feasible_configs(points[~mask][:n_lacking])
        points = np.vstack([points[mask], *map(space.encode, repaired)])
    return points


def _new(space: Space, points: Array, taken: frozenset[bytes]) -> tuple[Array, Array]:
    """The feasible configs that `points` decode to, each once, without those `taken`: places and features."""
    places, features = space.snapped(points[space.feasible_mask(points)])
    rows = _distinct(places)
    places = places[rows]
    fresh = np.array([place.tobytes() not in taken for place in places], dtype=bool)
    return places[fresh], features[rows[fresh]]


def _distinct(places: Array) -> NDArray[np.intp]:
    """Where each different row of `places` (m, d) stands first, in the order of the rows: `numpy.unique` compares rows slowly."""
    order = np.lexsort(places.T[::-1])
    first = np.ones(len(order), dtype=bool)
    first[1:] = (places[order[1:]] != places[order[:-1]]).any(axis=1)
    return order[first]
