"""BestConfig's search: divide-and-diverge sampling, and recursive bound-and-search around the best sample.

Source: Y. Zhu, J. Liu, M. Guo, Y. Bao, W. Ma, Z. Liu, K. Song, Y. Yang, "BestConfig: Tapping the Performance Potential of
Systems via Automatic Configuration Tuning", SoCC 2017 (sections on DDS and RBS). A round of k samples divides the range
of every knob into k intervals and takes each once, in combinations that differ from round to round. Around the best
sample the bounds are the nearest values of the other samples; the next round lies within them, around a better sample
again, and when there is none the search goes back to the whole space.

After a round over the whole space without a better config, this one bounds the search around the best one known, where the
paper bounds it around the best of that round: with tens of trials instead of hundreds a round is too small to compete.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import scipy  # its stats, most of a second to load, come on first use
from numpy.typing import NDArray

from trimtab.search.base import Options
from trimtab.search.stepwise import SteppedSearcher, Steps
from trimtab.space import Config

__all__ = ["BestConfigSearcher"]

Bounds = tuple[NDArray[np.float64], NDArray[np.float64]]


class BestConfigSearcher(SteppedSearcher):
    """Rounds of samples, in the whole space or within bounds; at 50 knobs it found less than `random` in 100 trials.

    A batch ask hands out a round.
    """

    NAME: ClassVar[str] = "bestconfig"
    FITS_MODEL: ClassVar[bool] = False
    OPTIONS: ClassVar[Options] = {
        "samples": (
            0,
            "configs in a round, 2 or more; 0: a sixth of the budget in trials, from 5 to 100, 10 when unknown",
        ),
        "rounds": (3, "most rounds within ever narrower bounds before the whole space is sampled again"),
    }

    def _check_options(self) -> None:
        self._require("samples", self.options["samples"] == 0 or self.options["samples"] >= 2, "0, or 2 or more")
        self._require("rounds", self.options["rounds"] >= 1, "1 or more")
        self._n = int(self.options["samples"]) or min(100, max(5, (self.problem.budget_trials or 60) // 6))

    def _run(self) -> Steps:
        n = self.space.n_dims
        openers = self._openers()
        while True:
            sampled = self._divided((np.zeros(n), np.ones(n)))
            yield openers + sampled
            for _ in range(int(self.options["rounds"])):
                best, loss = self._best_config(), self._best_loss()
                sampled = self._divided(self._bounds(best, sampled))
                yield sampled
                if not self._best_loss() < loss:
                    break

    def _divided(self, bounds: Bounds) -> list[Config]:
        """A round: each of k equal intervals of every knob once, combined at random."""
        low, high = bounds
        if not len(low):
            return [self.space.default()]
        places = scipy.stats.qmc.LatinHypercube(len(low), seed=self._rng).random(self._n)
        return self.space.feasible_configs(low + places * (high - low))

    def _bounds(self, best: Config, sampled: list[Config]) -> Bounds:
        """For each knob the nearest values of the last round below and above that of `best`, else the range's ends."""
        centre = self.space.encode(best)
        points = np.array([self.space.encode(config) for config in sampled])
        low = np.where(points < centre, points, 0.0).max(axis=0)
        high = np.where(points > centre, points, 1.0).min(axis=0)
        return low, high
