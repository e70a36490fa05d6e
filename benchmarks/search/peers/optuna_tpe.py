"""Optuna's tree-structured Parzen estimator with its defaults."""

from __future__ import annotations

from typing import Any

import optuna
from protocol import Values, serve

optuna.logging.set_verbosity(optuna.logging.ERROR)


def distribution(parameter: dict[str, Any]) -> optuna.distributions.BaseDistribution:
    """The parameter as Optuna has it."""
    if parameter["kind"] == "choice":
        return optuna.distributions.CategoricalDistribution(parameter["choices"])
    low, high, log = parameter["low"], parameter["high"], parameter["log"]
    if parameter["kind"] == "int":
        return optuna.distributions.IntDistribution(low, high, log=log)
    return optuna.distributions.FloatDistribution(low, high, log=log)


class OptunaPeer:
    """A study in memory; what was not asked comes in as a finished trial."""

    library, version = "optuna", optuna.__version__

    def __init__(self, space: list[dict[str, Any]], seed: int, budget: int) -> None:
        self._distributions = {parameter["name"]: distribution(parameter) for parameter in space}
        self._study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
        self._asked: optuna.Trial | None = None

    def ask(self) -> Values:
        self._asked = self._study.ask(self._distributions)
        return self._asked.params

    def tell(self, values: Values, loss: float, failed: bool) -> None:
        if self._asked is not None and self._asked.params == values:
            self._study.tell(self._asked, loss)
            self._asked = None
            return
        self._study.add_trial(optuna.trial.create_trial(params=values, distributions=self._distributions, value=loss))


serve(OptunaPeer)
