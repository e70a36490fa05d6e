"""SMAC3's random forest (its facade for hyper-parameter optimisation) with its defaults but for the initial design.

By default the first 10 configs per parameter, so all of a hundred trials, would be drawn without a model; here it is ten in all,
as many as Optuna and scikit-optimize draw.
"""

from __future__ import annotations

import importlib.metadata
import tempfile
import warnings
from typing import Any

import ConfigSpace
from protocol import Values, serve
from smac import HyperparameterOptimizationFacade, Scenario
from smac.runhistory.dataclasses import TrialInfo, TrialValue
from smac.runhistory.enumerations import StatusType

warnings.filterwarnings("ignore")


def hyperparameter(parameter: dict[str, Any]) -> Any:
    """The parameter as ConfigSpace has it."""
    name, default = parameter["name"], parameter["default"]
    if parameter["kind"] == "choice":
        return ConfigSpace.CategoricalHyperparameter(name, parameter["choices"], default_value=default)
    bounds, log = (parameter["low"], parameter["high"]), parameter["log"]
    kind = ConfigSpace.Integer if parameter["kind"] == "int" else ConfigSpace.Float
    return kind(name, bounds, log=log, default=default)


class SmacPeer:
    """One facade, driven by ask and tell."""

    library, version = "smac", importlib.metadata.version("smac")

    def __init__(self, space: list[dict[str, Any]], seed: int, budget: int) -> None:
        self._space = ConfigSpace.ConfigurationSpace(seed=seed)
        self._space.add([hyperparameter(parameter) for parameter in space])
        self._folder = tempfile.TemporaryDirectory(prefix="smac-peer-")
        scenario = Scenario(
            self._space, n_trials=10 * budget + 10_000, seed=seed, deterministic=True, output_directory=self._folder.name
        )  # fmt: skip
        self._facade = HyperparameterOptimizationFacade(
            scenario,
            lambda config, seed=0: 0.0,
            initial_design=HyperparameterOptimizationFacade.get_initial_design(scenario, n_configs=10),
            logging_level=False,
            overwrite=True,
        )
        self._asked: TrialInfo | None = None

    def ask(self) -> Values:
        self._asked = self._facade.ask()
        return {name: _plain(value) for name, value in self._asked.config.items()}

    def tell(self, values: Values, loss: float, failed: bool) -> None:
        status = StatusType.CRASHED if failed else StatusType.SUCCESS
        info = self._asked or TrialInfo(ConfigSpace.Configuration(self._space, values=values), seed=0)
        self._facade.tell(info, TrialValue(cost=loss, status=status), save=False)
        self._asked = None


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


serve(SmacPeer)
