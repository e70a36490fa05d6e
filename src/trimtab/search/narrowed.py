"""NarrowedSearcher: some knobs of a space are searched, all others are held; told of trials of the whole space."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trimtab.records import Context, Role, Status, Trial
from trimtab.search.searcher import Searcher, SearchProblem
from trimtab.space import Config

__all__ = ["NarrowedSearcher"]

_ATTEMPTS = 20
"""How often the searcher within is asked for one config, before what it asks for is moved to where the constraints hold."""


class NarrowedSearcher:
    """A `Searcher` over the whole space that asks only for configs in which the other knobs are as they are held.

    A config in which others differ may meet the constraints of an objective because of these. So no such trial is told before
    one with the knobs as they are held has met them.

    Args:
        problem: of the whole space.
        names: knobs that are searched.
        held: a feasible config of the whole space; the knobs that are not named stay as they are in it.
        make: the searcher for the problem over the named knobs.
        budget_trials: to be expected of this search; None when not known.
        spread: standard deviation of the loss that knobs outside may explain: a trial in which others differ is told with so
            much more noise. None: such a trial is not told, for it shows another place.
        same_as_held: a config that counts as `held` although it differs: a baseline outside the space, which was repaired.

    Attributes:
        names: as given.
    """

    def __init__(
        self,
        problem: SearchProblem,
        names: Sequence[str],
        held: Config,
        make: Callable[[SearchProblem], Searcher],
        *,
        budget_trials: int | None,
        spread: float | None,
        same_as_held: Config | None = None,
    ) -> None:
        self.names = tuple(names)
        self._space, self._held, self._spread, self._same = problem.space, held, spread, same_as_held
        self._is_met, self._waiting = False, list[Trial]()
        self._context = problem.context or Context(workload="", clients=1)
        space = problem.space.subspace(self.names, held)
        self._inner = make(
            replace(
                problem,
                space=space,
                baseline=_narrowed(held, self.names),
                advice=[space.repair(_narrowed(config, self.names)) for config in problem.advice],
                budget_trials=budget_trials,
                options={name: self._narrowed_option(problem, value) for name, value in problem.options.items()},
            )
        )

    @property
    def is_exhausted(self) -> bool:
        """As the searcher within."""
        return self._inner.is_exhausted

    @property
    def is_converged(self) -> bool:
        """As the searcher within."""
        return self._inner.is_converged

    def ask(self, n: int = 1) -> list[Config]:
        """`n` configs of the whole space, each feasible there.

        A knob that is held and has no effect with what is asked is at its default, which the searcher within does not know: where
        that breaks a constraint, it learns so and is asked again.
        """
        return [self._feasible(config) for config in self._inner.ask(n)]

    def _feasible(self, config: Config) -> Config:
        for attempt in range(_ATTEMPTS):
            if attempt:
                (config,) = self._inner.ask(1)
            whole = self._whole(config)
            if self._space.is_feasible(whole):
                return whole
            refused = Trial(number=-1, role=Role.SEARCH, config=config, context=self._context, status=Status.INFEASIBLE)
            self._inner.tell(refused)
            if self._inner.is_exhausted:
                break
        return self._space.repair(self._whole(config))

    def tell(self, trial: Trial) -> None:
        """Learns from a trial of the whole space through the knobs that are searched."""
        seen = _narrowed(trial.config, self.names)
        if trial.config in (self._same, self._whole(seen)):
            self._is_met = self._is_met or trial.is_feasible
            self._inner.tell(replace(trial, config=seen))
        elif self._spread is not None and trial.is_feasible:
            self._waiting.append(replace(trial, config=seen, loss_se=math.hypot(trial.loss_se or 0.0, self._spread)))
        if self._is_met:
            for other in self._waiting:
                self._inner.tell(other)
            self._waiting = []

    def best(self) -> Trial | None:
        """The best trial of the searcher within, as a config of the whole space."""
        found = self._inner.best()
        return None if found is None else replace(found, config=self._whole(found.config))

    def _whole(self, config: Mapping[str, Any]) -> Config:
        return self._space.canonical(self._held.replace(dict(config)))

    def _narrowed_option(self, problem: SearchProblem, value: Any) -> Any:
        """Of a table by knob the part that the searcher within knows; any other value as it is."""
        if not isinstance(value, Mapping) or not set(value) <= set(problem.space.knobs):
            return value
        return {name: part for name, part in value.items() if name in self.names}


def _narrowed(config: Mapping[str, Any], names: Sequence[str]) -> Config:
    return Config({name: config[name] for name in names})
