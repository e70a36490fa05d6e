"""Hill climbing: small steps from the best config, none of which is ever invalid, and a new start when no step helps.

Source: V. Fernando, "Auto-Tuning Multi-Tiered Applications for Performance", 2016, §6.1 (its own simple hill climbing
beside OpenTuner's evolutionary methods, because those made eight invalid configurations in fifty and it made none).
The new start is that of iterated local search: H. Lourenço, O. Martin, T. Stützle, "Iterated Local Search", 2003.
"""

from __future__ import annotations

from typing import ClassVar

from trimtab.search.base import Options
from trimtab.search.stepwise import SteppedSearcher, Steps
from trimtab.space import Config

__all__ = ["HillClimbingSearcher"]

_RESTARTS = ("kick", "random")
_OFFERED = 16


class HillClimbingSearcher(SteppedSearcher):
    """Small steps from the best config: neighbours differ from it in few knobs and meet every constraint."""

    NAME: ClassVar[str] = "hill-climbing"
    FITS_MODEL: ClassVar[bool] = False
    OPTIONS: ClassVar[Options] = {
        "probes": (5, "random configs tried before the first start, in addition to the advice"),
        "radius": (0.3, "standard deviation of a step, as a share of the knob's range"),
        "width": (1, "neighbours measured before the best of them is compared: 1 takes the first that is better"),
        "patience": (0, "neighbours without progress before a new start; 0: two for each knob"),
        "restart": ("kick", "new start: 'kick' changes some knobs of the best config at random, 'random' all of them"),
        "kick": (0.3, "share of the knobs that a kick changes"),
    }

    def _check_options(self) -> None:
        self._require("probes", self.options["probes"] >= 0, "0 or more")
        for name in ("radius", "kick"):
            self._require(name, 0 < self.options[name] <= 1, "more than 0 and at most 1")
        self._require("width", self.options["width"] >= 1, "1 or more")
        self._require("patience", self.options["patience"] >= 0, "0 or more")
        self._require("restart", self.options["restart"] in _RESTARTS, "'kick' or 'random'")

    @property
    def _reach(self) -> float:
        return float(self.options["radius"])

    def _run(self) -> Steps:
        yield from self._start(int(self.options["probes"]))
        here = self._best_config()
        while True:
            yield from self._climb(here)
            here = self._elsewhere()
            yield [here]

    def _climb(self, here: Config) -> Steps:
        """Steps up until `patience` neighbours in a row were no better, or there are no new ones."""
        patience = int(self.options["patience"]) or 2 * self.space.n_dims
        n_idle, known = 0, self._best_loss()
        while n_idle < patience:
            moves = self._moves(here)
            if not moves:
                return
            yield moves
            # A best config that others found (another strategy, an ask beyond the waiting one) is climbed from as well.
            best = self._best_config() if self._best_loss() < known else min(moves, key=self._loss)
            if self._loss(best) < self._loss(here):
                here, n_idle, known = best, 0, self._best_loss()
            else:
                n_idle += len(moves)

    def _moves(self, here: Config) -> list[Config]:
        offered = self.space.neighbours(here, self._rng, _OFFERED + int(self.options["width"]), radius=self._reach)
        return list(filter(self._is_new, offered))[: int(self.options["width"])]

    def _elsewhere(self) -> Config:
        other = self.space.sample(1, self._rng)[0]
        if self.options["restart"] == "random":
            return other
        is_kicked = self._rng.random(self.space.n_dims) < self.options["kick"]
        changes = {name: other[name] for name, kicked in zip(self.space.knobs, is_kicked, strict=True) if kicked}
        return self.space.repair(self._best_config().replace(changes))
