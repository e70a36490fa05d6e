"""scikit-optimize's Gaussian process with its defaults."""

from __future__ import annotations

import warnings
from typing import Any

import skopt
from protocol import Values, serve
from skopt.space import Categorical, Integer, Real

warnings.filterwarnings("ignore")


def dimension(parameter: dict[str, Any]) -> Any:
    """The parameter as scikit-optimize has it."""
    if parameter["kind"] == "choice":
        return Categorical(parameter["choices"])
    kind = Integer if parameter["kind"] == "int" else Real
    return kind(parameter["low"], parameter["high"], prior="log-uniform" if parameter["log"] else "uniform")


class SkoptPeer:
    """`skopt.Optimizer`."""

    library, version = "scikit-optimize", skopt.__version__

    def __init__(self, space: list[dict[str, Any]], seed: int, budget: int) -> None:
        self._names = [parameter["name"] for parameter in space]
        self._optimizer = skopt.Optimizer([dimension(parameter) for parameter in space], random_state=seed)
        self._waiting: list[tuple[list[Any], float]] = []

    def ask(self) -> Values:
        # Fitted once per ask: a tell that fits at once would fit a thousand times when a thousand trials are told.
        if self._waiting:
            xs, ys = zip(*self._waiting, strict=True)
            self._optimizer.tell(list(xs), list(ys))
            self._waiting = []
        return {n: _plain(v) for n, v in zip(self._names, self._optimizer.ask(), strict=True)}

    def tell(self, values: Values, loss: float, failed: bool) -> None:
        self._waiting.append(([values[name] for name in self._names], loss))


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


serve(SkoptPeer)
