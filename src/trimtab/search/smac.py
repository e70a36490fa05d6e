"""SMAC3's random forest as a searcher (extra `smac`).

Source: M. Lindauer et al., "SMAC3: A Versatile Bayesian Optimization Package for Hyperparameter Optimization", JMLR 23
(2022). It is driven by ask and tell; the files that it insists on go to a temporary folder that ends with the searcher.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
import weakref
from typing import Any, ClassVar

from trimtab.errors import InternalError, UsageError
from trimtab.search.adapter import AdapterSearcher
from trimtab.search.base import Options
from trimtab.search.configspace import configspace_of, plain
from trimtab.search.parameters import Values
from trimtab.search.searcher import SearchProblem

__all__ = ["SmacSearcher"]

_ENOUGH = 1_000_000
"""Trials that SMAC is told to expect; the study knows when to stop."""


def _never(config: Any, seed: int = 0) -> float:
    """SMAC wants a target function, and calls it only in its own loop, which is not used here."""
    raise InternalError("SMAC3 has called its target function, although it is driven by ask and tell")


class SmacSearcher(AdapterSearcher):
    """The advice, then what SMAC3's facade for hyper-parameter optimisation proposes, moved to the nearest feasible config.

    Raises:
        UsageError: SMAC3 is not installed.
    """

    NAME: ClassVar[str] = "smac"
    OPTIONS: ClassVar[Options] = {
        "initial": (10, "configs drawn before SMAC's model is used"),
    }

    def __init__(self, problem: SearchProblem) -> None:
        super().__init__(problem)
        self._require("initial", self.options["initial"] >= 1, "1 or more")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                import smac
                from smac.main.exceptions import ConfigurationSpaceExhaustedException
                from smac.runhistory import dataclasses, enumerations
        except ImportError as error:
            raise UsageError("searcher 'smac' needs the library smac", hint="pip install 'trimtab[smac]'") from error
        self._values, self._status = dataclasses, enumerations.StatusType
        # It gives up on a small space some draws before every config of it was tried.
        self._exhausted = (StopIteration, ConfigurationSpaceExhaustedException)
        self._configspace = configspace_of(self.parameter_space.parameters.values(), problem.seed)
        self._facade = self._make(smac) if self.parameter_space.parameters else None

    def _make(self, smac: Any) -> Any:
        folder = tempfile.mkdtemp(prefix="trimtab-smac-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scenario = smac.Scenario(
                self._configspace, n_trials=_ENOUGH, seed=self.problem.seed, deterministic=True,
                output_directory=folder,
            )  # fmt: skip
            kind = smac.HyperparameterOptimizationFacade
            design = kind.get_initial_design(scenario, n_configs=self.options["initial"])
            return kind(scenario, _never, initial_design=design, logging_level=False, overwrite=True)

    def _peer_ask(self) -> tuple[Any, Values] | None:
        if self._facade is None:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                info = self._facade.ask()
            except self._exhausted:
                return None
        return info, {name: plain(value) for name, value in info.config.items()}

    def _peer_tell(self, token: Any, values: Values, loss: float, is_failed: bool) -> None:
        if self._facade is None:
            return
        info = token
        if info is None:
            config = self._configuration(values)
            info = self._values.TrialInfo(config, seed=0)
        status = self._status.CRASHED if is_failed else self._status.SUCCESS
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._facade.tell(info, self._values.TrialValue(cost=loss, status=status), save=False)

    def _configuration(self, values: Values) -> Any:
        import ConfigSpace

        return ConfigSpace.Configuration(self._configspace, values=values)
