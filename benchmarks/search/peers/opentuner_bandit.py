"""OpenTuner's ensemble (the AUC bandit) with its defaults."""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
import random
import warnings
from typing import Any

warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402
import opentuner  # noqa: E402
from opentuner.api import TuningRunManager  # noqa: E402
from opentuner.measurement.interface import DefaultMeasurementInterface  # noqa: E402
from opentuner.resultsdb.models import Result  # noqa: E402
from opentuner.search import manipulator  # noqa: E402
from protocol import Values, serve  # noqa: E402

logging.disable(logging.CRITICAL)


def parameter_of(parameter: dict[str, Any]) -> Any:
    """The parameter as OpenTuner has it."""
    name = parameter["name"]
    if parameter["kind"] == "choice":
        return manipulator.EnumParameter(name, parameter["choices"])
    prefix, kind = "Log" if parameter["log"] else "", parameter["kind"]
    made = getattr(manipulator, f"{prefix}{'Integer' if kind == 'int' else 'Float'}Parameter")
    return made(name, parameter["low"], parameter["high"])


class OpenTunerPeer:
    """A tuning run; what is known before the first ask are its seed configurations."""

    library, version = "opentuner", importlib.metadata.version("opentuner")

    def __init__(self, space: list[dict[str, Any]], seed: int, budget: int) -> None:
        random.seed(seed)
        np.random.seed(seed)
        self._space = space
        self._known: dict[tuple[Any, ...], tuple[float, bool]] = {}
        self._seeds: list[Values] = []
        self._asked: Any = None
        self._manager: TuningRunManager | None = None

    def _make(self) -> TuningRunManager:
        configuration = manipulator.ConfigurationManipulator()
        for parameter in self._space:
            configuration.add_parameter(parameter_of(parameter))
        parser = argparse.ArgumentParser(parents=opentuner.argparsers())
        args = parser.parse_args(["--no-dups", "--database", "sqlite://", "--test-limit", "1000000"])
        interface = DefaultMeasurementInterface(
            args=args, manipulator=configuration, project_name="bench", program_name="bench", program_version="0"
        )
        seeds = self._seeds
        interface.seed_configurations = lambda: seeds
        return TuningRunManager(interface, args)

    def ask(self) -> Values:
        if self._manager is None:
            self._manager = self._make()
        while True:
            desired = self._manager.get_next_desired_result()
            if desired is None:
                continue
            values = dict(desired.configuration.data)
            known = self._known.get(_key(values))
            if known is None:
                self._asked = desired
                return values
            self._report(desired, *known)

    def _report(self, desired: Any, loss: float, failed: bool) -> None:
        assert self._manager is not None
        # Times are positive in OpenTuner; the order is what it goes by.
        time = float("inf") if failed else float(np.exp(loss))
        self._manager.report_result(desired, Result(state="ERROR" if failed else "OK", time=time))

    def tell(self, values: Values, loss: float, failed: bool) -> None:
        self._known[_key(values)] = (loss, failed)
        if self._asked is not None:
            self._report(self._asked, loss, failed)
            self._asked = None
        elif self._manager is None:
            self._seeds.append(values)


def _key(values: Values) -> tuple[Any, ...]:
    return tuple(sorted(values.items()))


serve(OpenTunerPeer)
