"""Designs: the first configs, chosen before a model can say anything.

Sources: M. McKay, R. Beckman, W. Conover, Technometrics 21 (1979) (Latin hypercube). That all knobs move at once, that the
upper ends of ranges are left out, and that configs come nearer to what works after a failure was chosen by measurement
(docs/measurements/search-tried.md): upper ends make the crashes, and few-knob designs starve the model. So was that the later
ones go on from the best so far: steps of an evolution strategy with large mutations, which keep what the good ones have
(I. Rechenberg, "Evolutionsstrategie", 1973).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import scipy  # its stats, most of a second to load, come on first use
from numpy.typing import NDArray

from trimtab.search.belief import Belief
from trimtab.search.ledger import Evidence, Ledger, measured
from trimtab.space import Config, Space

__all__ = ["Design", "InteriorDesign", "ListedDesign", "n_first"]

Array = NDArray[np.float64]

_REDRAWS = 8

_MUCH_WORSE = 0.7
"""Loss (log-ratio) above the baseline's: half the throughput."""

_CLEARLY = 0.1
"""Gain (log-ratio) of the centre on the baseline from which it is clearly better."""

_HALF = 0.5
"""Share of the knobs that move away from a centre that is clearly better: the others keep what made it so."""

_FREE = 2
"""Configs of the design that spread around what was known before it; the others go on from the best so far."""

_ALL = 40
"""Knobs that the first config may change."""

_TELLING = 6
"""Configs measured before a design (plays, past studies) from which on a model has something to go on."""

_LOWEST = 0.10
"""Share of numbers put on the low end of their range: it holds surprises more often than the rest."""


class Design(Protocol):
    """Configs to try before a model is asked."""

    @property
    def is_over(self) -> bool:
        """Whether all its configs have been given, but for those that are lost and given again."""
        ...

    def next(self, ledger: Ledger) -> Config | None:
        """The next one, feasible and new; None when the design is done or leaves its turn to a model."""
        ...


def n_first(n_knobs: int, budget: int | None) -> int:
    """How many configs a design has: two more than a third of the knobs, 4 to 10, at most half of a small budget."""
    return min(int(np.clip(n_knobs // 3 + _FREE, 4, 10)), max(3, (budget or 100) // 2))


class ListedDesign:
    """Given configs, in their order.

    Attributes:
        configs: the feasible ones.
    """

    def __init__(self, space: Space, configs: Sequence[Config]) -> None:
        self.configs = [config for config in configs if space.is_feasible(config)]

    is_over = True
    """What `next` does not give is none of its configs, or was measured."""

    def next(self, ledger: Ledger) -> Config | None:
        """As `Design.next`."""
        return next(filter(ledger.is_new, self.configs), None)


class InteriorDesign:
    """A Latin hypercube over the inner part of every range, made one config at a time around what is known to work.

    The centre of the first two is the best config that was measured and is not of the design (baseline, advice, plays, what the
    user gave); that of the others is the best of all. After a failure, or a config much worse than the baseline, fewer knobs
    move away from it; while configs work, more do, but never more than half of them from the third config on, or while the
    centre is clearly better than the baseline. Where enough was measured before it for a model to go on, it may share the turns
    with the models, which begin: what plays have found is gone on with at once.

    Args:
        space, n, seed: n configs.
        n_before: so many of them are left out, the first, because an earlier search has measured others.
        home: the baseline.
        par: its loss while no trial tells it; NaN: not known, so no config is much worse or better.
        belief: plays and places that every second config takes some of, or None; the others are free of what may be a wrong
            prior.
        reach: share of each range, from its low end, that is sampled.
        step: how far towards the sampled place a config goes; 1: all the way.
        share: share of the knobs that the first config moves.
        is_sharing: whether it leaves every second turn to a model where enough was measured before it.
    """

    def __init__(
        self, space: Space, n: int, seed: int, home: Config, belief: Belief | None, *,
        par: float = 0.0, n_before: int = 0, reach: float = 0.85, step: float = 1.0, share: float = 1.0,
        is_sharing: bool = False,
    ) -> None:  # fmt: skip
        self._space, self._seed, self._home, self._belief = space, seed, home, belief
        self._reach, self._step, self._par = reach, step, par
        d = max(1, space.n_dims)
        self._first_share = min(share, _ALL / d)
        cube = scipy.stats.qmc.LatinHypercube(d, seed=np.random.default_rng([seed, 0, 3])).random(
            n if space.n_dims else 0
        )
        self._rows: list[Array] = list(cube)
        self._asked: list[Config] = []
        self._n_before = self._n_made = n_before
        self._is_sharing: bool | None = None if is_sharing else False
        self._is_due = True

    @property
    def is_over(self) -> bool:
        """As `Design.is_over`."""
        return self._n_made >= len(self._rows)

    def next(self, ledger: Ledger) -> Config | None:
        """As `Design.next`."""
        if self._is_sharing is None:
            self._is_sharing = len(measured(ledger.evidence)) >= _TELLING
        if self._is_sharing and not self.is_over:
            self._is_due = not self._is_due
            if not self._is_due:
                return None
        for config in self._asked:
            if ledger.is_new(config):
                return config
        while self._n_made < len(self._rows):
            row, self._n_made = self._n_made, self._n_made + 1
            made = self._made(row, ledger)
            if made is not None:
                self._asked.append(made)
                return made
        return None

    @property
    def _is_going_on(self) -> bool:
        """Whether the next config starts from the best so far."""
        return self._n_before + len(self._asked) >= _FREE

    def _centre(self, ledger: Ledger) -> Evidence | None:
        """The config to start from; None while none has worked."""
        own = set() if self._is_going_on else set(self._asked)
        known = [e for e in ledger if e.is_acceptable and e.config not in own]
        return min(known, key=lambda e: e.loss, default=None)

    def _share(self, ledger: Ledger, centre: Evidence | None) -> float:
        """Share of the knobs that the next config moves."""
        home = ledger.get(self._home)
        start = home.loss if home is not None and home.measured else self._par
        most = _HALF if centre is not None and centre.loss < start - _CLEARLY else 1.0
        share = min(most, self._first_share)
        for config in self._asked:
            evidence = ledger.get(config)
            if evidence is not None:
                is_bad = not evidence.is_acceptable or evidence.loss > start + _MUCH_WORSE
                share = max(2.0 / self._space.n_dims, share / 2.0) if is_bad else min(most, 1.25 * share)
        return min(share, _HALF) if self._is_going_on else share

    def _made(self, row: int, ledger: Ledger) -> Config | None:
        rng = np.random.default_rng([self._seed, row, 3])
        centre = self._centre(ledger)
        origin = self._space.encode(self._space.repair(self._home) if centre is None else centre.config)
        share = self._share(ledger, centre)
        for _ in range(_REDRAWS):
            target = self._inner(self._rows[row], rng)
            if row % 2 == 0 and self._belief is not None:
                target = self._belief.drawn(target, self._belief.trust(list(ledger)), rng)
            target = origin + self._step * (target - origin)
            point = np.where(rng.random(len(origin)) < share, target, origin)
            config = self._space.repair(self._space.decode(point))
            if ledger.is_new(config):
                return config
        return None

    def _inner(self, row: Array, rng: np.random.Generator) -> Array:
        """`row` (d,) with numbers in the inner part of their range; special values and choices keep their share."""
        begins, _ = self._space.bins
        is_number = (row >= begins) & (begins < 1.0)
        room = np.where(begins < 1.0, 1.0 - begins, 1.0)
        place = self._reach * (row - begins) / room
        place = np.where(rng.random(len(row)) < _LOWEST, 0.0, place)
        return np.where(is_number, begins + room * place, row)
