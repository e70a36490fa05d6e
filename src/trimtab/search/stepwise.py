"""SteppedSearcher: a strategy written as a generator that yields the configs whose losses it needs to go on."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Generator

import numpy as np

from trimtab.records import Trial
from trimtab.search.base import SearcherBase
from trimtab.search.searcher import SearchProblem
from trimtab.space import Config

__all__ = ["SteppedSearcher", "Steps"]

Steps = Generator[list[Config], None, None]
"""Yields feasible configs; is resumed when all of them are in the ledger, or given up."""

_MOST_SILENT = 200
"""Configs answered from the ledger in one go before a random one is given instead (a space nearly used up): where constraints
leave a sliver, each of them was repaired, which takes milliseconds."""

_NEARBY = 16


class SteppedSearcher(SearcherBase):
    """Hands out what the strategy waits for; asks beyond that are answered with neighbours of the best config.

    A config whose loss is known already is not asked again: the strategy walks on from the ledger. `_run` starts with
    the first ask, so it sees what was told before.
    """

    def __init__(self, problem: SearchProblem) -> None:
        super().__init__(problem)
        self._check_options()
        self._rng = np.random.default_rng([problem.seed, 0, 2])
        self._steps: Steps | None = None
        self._wanted: list[Config] = []

    @abstractmethod
    def _check_options(self) -> None:
        """Raises UsageError for an option out of range."""

    @abstractmethod
    def _run(self) -> Steps:
        """The strategy; never ends."""

    @property
    def _reach(self) -> float:
        """How far from the best config an ask is that the strategy did not wait for, as a share of a knob's range."""
        return 0.15

    def tell(self, trial: Trial) -> None:
        super().tell(trial)
        # Not only when asked: whether the search has converged must show before one more trial is paid for.
        if self._steps is not None and not self.is_exhausted:
            self._advance()

    def _propose(self, rng: np.random.Generator) -> Config:
        if self.is_exhausted:
            return self._random_new(rng)
        if self._steps is None:
            self._steps = self._run()
        missing = self._advance()
        waiting = [config for config in missing if config not in self.pending]
        if waiting:
            return waiting[0]
        return self._meanwhile(rng) if missing else self._random_new(rng)

    def _advance(self) -> list[Config]:
        """Goes on as far as the ledger allows; what the strategy waits for, empty when it only walks over the known."""
        n_silent, known = 0, self.ledger
        while n_silent < _MOST_SILENT:
            missing = [config for config in self._wanted if config not in known and not known.is_given_up(config)]
            if missing or self._steps is None:
                return missing
            self._wanted = next(self._steps)
            n_silent += max(1, len(self._wanted))
        return []

    def _meanwhile(self, rng: np.random.Generator) -> Config:
        """Something useful while everything that the strategy needs is being measured."""
        best = self.ledger.best()
        if best is not None:
            near = self._first_new(self.space.neighbours(best.config, rng, _NEARBY, radius=self._reach))
            if near is not None:
                return near
        return self._random_new(rng)

    def _best_loss(self) -> float:
        best = self.ledger.best()
        return math.inf if best is None else best.loss

    def _start(self, n_probes: int = 0) -> Steps:
        """Makes sure that there is something to start from: the advice, else the baseline, and random configs."""
        yield (self._openers() or [self.space.repair(self.filler)]) + self.space.sample(n_probes, self._rng)
        while self.ledger.best() is None:
            yield self.space.sample(1, self._rng)

    def _best_config(self) -> Config:
        """The best acceptable config told; after `_start` there is one."""
        best = self.ledger.best()
        return self.space.repair(self.filler) if best is None else best.config
