"""Any of Optuna's samplers as a searcher (extra `optuna`).

Source: T. Akiba et al., "Optuna: A Next-generation Hyperparameter Optimization Framework", KDD 2019; the sampler's own
documentation says what it does.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import warnings
from types import ModuleType
from typing import Any, ClassVar

from trimtab.errors import UsageError
from trimtab.search.adapter import AdapterSearcher
from trimtab.search.base import Options
from trimtab.search.parameters import Parameter, Values
from trimtab.search.searcher import SearchProblem

__all__ = ["OptunaSearcher"]


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise UsageError("searcher 'optuna' needs the library optuna", hint="pip install 'trimtab[optuna]'") from error
    return optuna


def _distribution(parameter: Parameter) -> Any:
    kinds = _optuna().distributions
    if parameter.kind == "choice":
        return kinds.CategoricalDistribution(parameter.choices)
    made = kinds.IntDistribution if parameter.kind == "int" else kinds.FloatDistribution
    return made(parameter.low, parameter.high, log=parameter.log)


def _require_libraries(name: str, sampler: Any) -> None:
    """Imports what the sampler's module imports on first use only, which would be in the middle of a study.

    Raises:
        UsageError: something of it cannot be imported.
    """
    for each in list(vars(sys.modules[sampler.__module__]).values()):
        if isinstance(each, ModuleType) and type(each) is not ModuleType:  # Optuna's stand-in for a module
            try:
                importlib.import_module(each.__name__)
            except ImportError as error:
                library = (error.name or each.__name__).partition(".")[0]
                raise UsageError(
                    f"sampler={name!r} of Optuna needs the library {library}: {error}",
                    hint=f"pip install {library}, or give another sampler",
                ) from error


class OptunaSearcher(AdapterSearcher):
    """The advice, then what the sampler proposes, moved to the nearest feasible config.

    Raises:
        UsageError: Optuna or a library that the sampler needs is not installed, there is no such sampler, or it refuses its
            options.
    """

    NAME: ClassVar[str] = "optuna"
    OPTIONS: ClassVar[Options] = {
        "sampler": ("TPESampler", "name of a class in optuna.samplers"),
        "sampler_options": ({}, "keyword arguments of the sampler; its seed is that of the study"),
    }

    def __init__(self, problem: SearchProblem) -> None:
        super().__init__(problem)
        optuna = _optuna()
        self._trial, self._has_ended = optuna.trial, False
        self._distributions = {name: _distribution(p) for name, p in self.parameter_space.parameters.items()}
        verbosity = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        try:
            self._study = optuna.create_study(sampler=self._make_sampler(optuna.samplers))
            # A sampler that has been through its grid stops the study, which Optuna allows in a loop of its own only.
            self._study.stop = self._note_end
        finally:
            optuna.logging.set_verbosity(verbosity)

    @property
    def is_exhausted(self) -> bool:
        """Whether the sampler has been through its grid, or every config of a small space was told or is pending."""
        return self._has_ended or super().is_exhausted

    def _note_end(self) -> None:
        self._has_ended = True

    def _make_sampler(self, samplers: Any) -> Any:
        name, given = self.options["sampler"], dict(self.options["sampler_options"])
        made = getattr(samplers, name, None)
        if not (inspect.isclass(made) and issubclass(made, samplers.BaseSampler)):
            known = sorted(n for n in samplers.__all__ if n.endswith("Sampler") and n != "BaseSampler")
            raise UsageError(f"sampler={name!r} is none of Optuna's", hint=f"use one of: {', '.join(known)}")
        _require_libraries(name, made)
        if "seed" in inspect.signature(made).parameters:
            given = {"seed": self.problem.seed, **given}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return made(**given)
        except (TypeError, ValueError, ImportError) as error:
            raise UsageError(
                f"sampler={name!r} with sampler_options={self.options['sampler_options']!r} cannot be made: {error}",
                hint=f"see the documentation of optuna.samplers.{name}",
            ) from error

    def _peer_ask(self) -> tuple[Any, Values]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            asked = self._study.ask(self._distributions)
        return asked, asked.params

    def _peer_tell(self, token: Any, values: Values, loss: float, is_failed: bool) -> None:
        if token is not None:
            self._study.tell(token, loss)
            return
        create = self._trial.create_trial
        self._study.add_trial(create(params=values, distributions=self._distributions, value=loss))

    def _peer_drop(self, token: Any, values: Values) -> None:
        self._study.tell(token, state=self._trial.TrialState.FAIL)
