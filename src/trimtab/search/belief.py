"""Belief: a prior as the searcher uses it, over the points and features of one space.

    symbol   meaning
    p, m     a play, and how near a config is to having all of its settings, 0 to 1
    q, w     its chance of working, and its worth relative to that of the most promising play
    z        distance of a knob from the value expected to be best, in widths
    t        trust in a play or a knob's place, from how the configs told so far did that had it, 0 to 1

    ln π = Σ_plays t · w · ln(1 - q (1 - m)) + Σ_knobs t · ln(ε + (1 - ε) exp(-z² / 2)),   at least -4

The density never vanishes: ε keeps every place open. Source: C. Hvarfner et al., "πBO", ICLR 2022 (the density). Changed: each
part is trusted as far as the trials bear it out, and all of them as far as they bear out the whole, so that a wrong prior is
dropped within a few of them; plays are also moves of the candidate search, and factors of the first design, which separates them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # its stats, most of a second to load, come on first use
from numpy.typing import NDArray

from trimtab.errors import SpaceError
from trimtab.records import KnobPrior, Prior
from trimtab.search.ledger import Evidence
from trimtab.space import Config, Space

__all__ = ["Belief"]

Array = NDArray[np.float64]

_OPEN = 0.05
"""ε."""

_NEAR = 0.1
"""Distance in features at which a setting of a play still counts for 61 %."""

_LEAST = -4.0
"""Least of ln π."""

_FAVOUR = 0.5
"""Standard deviations by which a part of the prior is favoured while no trial speaks for or against it."""

_VARIED = 0.05
"""Standard deviation of how far the trials have a part, below which they say nothing about it."""

_LEAST_JUDGED = 5
"""Configs told before they are asked about the prior."""

_TAKEN = 0.5
"""Chance that a config of the design takes a play, or a knob's expected place: each is met with and without."""


def _borne_out(near: Array, better: Array) -> Array:
    """How surely the columns of `near` (n, p) go along with `better` (n,), which is standardised: (p,) standard normal scores."""
    n, spread = len(better), np.maximum(near.std(axis=0), _VARIED)
    r = np.clip(((near - near.mean(axis=0)) * better[:, None]).mean(axis=0) / spread, -0.99, 0.99)
    return np.asarray(r * np.sqrt((n - 2) / (1.0 - r * r)))


@dataclass(frozen=True, slots=True)
class _Bundle:
    """A play in numbers: coordinates (k,) with their places, features (j,) with their values, q and w."""

    axes: NDArray[np.intp]
    places: Array
    columns: NDArray[np.intp]
    values: Array
    chance: float
    weight: float


@dataclass(frozen=True, slots=True)
class _Place:
    """A knob's expected place: its coordinate, its feature columns with their values, widths of both (0: a label)."""

    axis: int
    place: float
    columns: slice
    values: Array
    width: float


class Belief:
    """What `prior` says about `space`; plays and knobs that the space does not have are left out."""

    def __init__(self, space: Space, home: Config, prior: Prior) -> None:
        self._space = space
        names = {name: axis for axis, name in enumerate(space.knobs)}
        top = max((play.worth for play in prior.plays), default=1.0)
        self._bundles: list[_Bundle] = []
        for play in prior.plays:
            point, features = self._of(home, play.settings)
            if point is None or features is None:
                continue
            axes = np.array([names[name] for name in play.settings])
            columns = np.concatenate(
                [np.arange(s.start, s.stop) for s in (space.feature_slices[n] for n in play.settings)]
            )
            self._bundles.append(_Bundle(axes, point[axes], columns, features[columns], play.chance, play.worth / top))
        self._places = [
            found for name, knob in prior.knobs.items() if (found := self._place(home, name, knob, names)) is not None
        ]

    def _of(self, home: Config, settings: object) -> tuple[Array | None, Array | None]:
        """Point (d,) and features (f,) of `home` with `settings`, whether these are active in it or not.

        None where the space does not have them.
        """
        try:
            config = self._space.validate({**home, **dict(settings)})  # type: ignore[call-overload]
        except SpaceError:
            return None, None
        return self._space.encode(config), self._space.features([config], as_given=True)[0]

    def _place(self, home: Config, name: str, knob: KnobPrior, names: dict[str, int]) -> _Place | None:
        point, features = self._of(home, {name: knob.at})
        if point is None or features is None or name not in names:
            return None
        begin, axis = float(self._space.bins[0][names[name]]), names[name]
        is_number = self._space.knobs[name].is_numeric and point[axis] >= begin
        columns = self._space.feature_slices[name]
        return _Place(axis, float(point[axis]), columns, features[columns], knob.width if is_number else 0.0)

    def __bool__(self) -> bool:
        return bool(self._bundles or self._places)

    def _nearness(self, features: Array) -> Array:
        """How far the rows of `features` (m, f) have each part, plays first: (m, parts), 0 to 1."""
        columns = []
        for bundle in self._bundles:
            gaps = (features[:, bundle.columns] - bundle.values) / _NEAR
            columns.append(np.exp(-0.5 * np.einsum("ij,ij->i", gaps, gaps)))
        for place in self._places:
            gaps = (features[:, place.columns] - place.values) / _NEAR
            gaps[:, 0] *= _NEAR / (place.width or _NEAR)
            columns.append(np.exp(-0.5 * np.einsum("ij,ij->i", gaps, gaps)))
        return np.array(columns).T.reshape(len(features), len(columns))

    def trust(self, evidence: Sequence[Evidence]) -> Array:
        """t of each part, (parts,): the chance that having it is better, by rank correlation with the loss (failures last).

        A few trials tell little of one part, but much of all together: where those that had more of the prior did worse, every
        part is trusted less.
        """
        n, n_parts = len(evidence), len(self._bundles) + len(self._places)
        if n < _LEAST_JUDGED or not n_parts:
            return np.full(n_parts, float(scipy.special.ndtr(_FAVOUR)))
        losses = np.array([e.loss if e.is_acceptable and e.measured else np.inf for e in evidence])
        better = -scipy.stats.rankdata(losses)
        better = (better - better.mean()) / max(float(better.std()), 1e-9)
        near = self._nearness(np.array([e.features for e in evidence]))
        whole = near.sum(axis=1, keepdims=True)
        together = float(scipy.special.ndtr(_borne_out(whole, better))[0])
        return np.asarray(scipy.special.ndtr(_borne_out(near, better) + _FAVOUR) * min(1.0, 2.0 * together))

    def log_density(self, features: Array, trust: Array) -> Array:
        """ln π up to a constant, at the rows of `features` (m, f), given t (parts,): (m,), from -4 to 0."""
        near, k = self._nearness(features), len(self._bundles)
        chance, weight = np.array([[b.chance, b.weight] for b in self._bundles]).reshape(k, 2).T
        plays = trust[:k] * weight * np.log1p(-chance * (1.0 - near[:, :k]))
        knobs = np.log(_OPEN + (1.0 - _OPEN) * near[:, k:]) * trust[k:]
        return np.asarray(np.maximum(plays.sum(axis=1) + knobs.sum(axis=1), _LEAST))

    def drawn(self, point: Array, trust: Array, rng: np.random.Generator) -> Array:
        """`point` (d,) of a design with some plays taken, and some knobs near their expected places."""
        point, (begins, _) = point.copy(), self._space.bins
        taken = rng.random(len(trust)) < _TAKEN * np.minimum(1.0, 1.5 * trust)
        k = len(self._bundles)
        for place, is_taken in zip(self._places, taken[k:], strict=True):
            step = place.width * (1.0 - begins[place.axis]) * rng.standard_normal()
            if is_taken:
                near = np.clip(place.place + step, begins[place.axis], 1.0)
                point[place.axis] = near if place.width else place.place
        for number in rng.permutation(k):
            bundle = self._bundles[number]
            if taken[number]:
                point[bundle.axes] = bundle.places
        return point

    def moves(self, points: Array) -> Array:
        """Each of `points` (k, d) with each play's settings: (k · plays, d)."""
        moved = [points]
        for bundle in self._bundles:
            with_play = points.copy()
            with_play[:, bundle.axes] = bundle.places
            moved.append(with_play)
        return np.vstack(moved[1:]) if self._bundles else np.empty((0, points.shape[1]))
