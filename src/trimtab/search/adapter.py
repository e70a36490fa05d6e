"""AdapterSearcher: another library's optimiser as a searcher.

The library sees a space of parameters (`trimtab.search.parameters`) without constraints. What it proposes is moved to
the nearest feasible config, and it is told the result under the values that it proposed. Libraries do not know
repeats, and few of them know failure: each first answer for a proposal is told, a failure as the worst loss seen so
far, so not before there is one.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np

from trimtab.records import Status, Trial
from trimtab.search.base import SearcherBase
from trimtab.search.parameters import ParameterSpace, Values
from trimtab.search.searcher import SearchProblem
from trimtab.space import Config

__all__ = ["AdapterSearcher"]

_TRIES = 8
"""How often the library is asked for a config that is new, before a random one is taken."""


class AdapterSearcher(SearcherBase):
    """The advice, then what the library proposes.

    Attributes:
        parameter_space: the space as the library sees it.
    """

    def __init__(self, problem: SearchProblem) -> None:
        super().__init__(problem)
        self.parameter_space = ParameterSpace(self.space)
        self._open: dict[Config, tuple[Any, Values]] = {}
        self._worst: float | None = None
        self._held: list[tuple[Any, Values]] = []

    @abstractmethod
    def _peer_ask(self) -> tuple[Any, Values] | None:
        """The library's own token and values of a proposal; None when it has no more."""

    @abstractmethod
    def _peer_tell(self, token: Any, values: Values, loss: float, is_failed: bool) -> None:
        """The result of a proposal; `token` is None for values that the library did not propose."""

    def _peer_drop(self, token: Any, values: Values) -> None:
        """A proposal that will get no result."""

    def _propose(self, rng: np.random.Generator) -> Config:
        planned = self._opening()
        if planned is not None:
            return planned
        for _ in range(_TRIES if self.parameter_space.parameters else 0):
            proposal = self._peer_ask()
            if proposal is None:
                break
            config = self.parameter_space.config(proposal[1])
            if self._is_new(config):
                self._open[config] = proposal
                return config
            self._answer_again(proposal, config)
        return self._random_new(rng)

    def _answer_again(self, proposal: tuple[Any, Values], config: Config) -> None:
        """A proposal for a config that is known gets the known answer; one for a pending config none."""
        token, values = proposal
        evidence = self.ledger.get(config)
        if evidence is None:
            self._peer_drop(token, values)
        else:
            self._tell_loss(token, values, evidence.loss if evidence.is_acceptable else None)

    def tell(self, trial: Trial) -> None:
        """Learns from `trial`; the library sees the first answer to each of its proposals, and trials from elsewhere."""
        config = self.ledger.own(trial.config)
        is_known = config is None or config in self.ledger
        super().tell(trial)
        if config is None:
            return
        proposal = self._open.pop(config, None)
        if trial.status is Status.INFRASTRUCTURE:
            if proposal is not None:
                self._peer_drop(*proposal)
        elif not is_known and self.parameter_space.parameters:
            token, values = proposal or (None, self.parameter_space.values(config))
            self._tell_loss(token, values, trial.loss if trial.is_feasible else None)

    def _tell_loss(self, token: Any, values: Values, loss: float | None) -> None:
        if loss is not None and math.isfinite(loss):
            self._worst = loss if self._worst is None else max(self._worst, loss)
            self._peer_tell(token, values, loss, False)
        else:
            self._held.append((token, values))
        if self._worst is not None:
            for failed in self._held:
                self._peer_tell(*failed, self._worst, True)
            self._held = []
