"""OpenTuner's ensemble (the AUC bandit) with its defaults."""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
import math
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


class Exponent(manipulator.FloatParameter):
    """A number on the scale that is searched; rounding may not carry it over its bounds, which OpenTuner takes for a fault.

    OpenTuner's own log-scaled parameters do that in its simplex technique.
    """

    def set_value(self, config: Any, value: float) -> None:
        super().set_value(config, min(max(value, self.min_value), self.max_value))


def parameter_of(parameter: dict[str, Any]) -> Any:
    """The parameter as OpenTuner has it; numbers on a log scale by their logarithm."""
    name, low, high = parameter["name"], parameter["low"], parameter["high"]
    if parameter["kind"] == "choice":
        return manipulator.EnumParameter(name, parameter["choices"])
    if parameter["log"]:
        return Exponent(name, math.log(low), math.log(high))
    return manipulator.IntegerParameter(name, low, high) if parameter["kind"] == "int" else Exponent(name, low, high)


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
            data = dict(desired.configuration.data)
            known = self._known.get(_key(data))
            if known is None:
                self._asked = desired
                return self._outside(data)
            self._report(desired, *known)

    def _report(self, desired: Any, loss: float, failed: bool) -> None:
        assert self._manager is not None
        # Times are positive in OpenTuner; the order is what it goes by.
        time = float("inf") if failed else float(np.exp(loss))
        self._manager.report_result(desired, Result(state="ERROR" if failed else "OK", time=time))

    def _outside(self, data: Values) -> Values:
        logs = {parameter["name"]: parameter for parameter in self._space if parameter["log"]}
        raised = {name: math.exp(data[name]) for name in logs}
        return data | {name: round(x) if logs[name]["kind"] == "int" else x for name, x in raised.items()}

    def tell(self, values: Values, loss: float, failed: bool) -> None:
        logs = {p["name"]: math.log(values[p["name"]]) for p in self._space if p["log"]}
        data = dict(self._asked.configuration.data) if self._asked is not None else values | logs
        self._known[_key(data)] = (loss, failed)
        if self._asked is not None:
            self._report(self._asked, loss, failed)
            self._asked = None
        elif self._manager is None:
            self._seeds.append(data)


def _key(values: Values) -> tuple[Any, ...]:
    return tuple(sorted(values.items()))


serve(OpenTunerPeer)
