"""Driving a searcher over a known surface, for the tests of this room."""

from __future__ import annotations

import math
from collections.abc import Callable

from trimtab.search import SearcherBase
from trimtab.space import Config

from .problems import crash, trial

__all__ = ["best_config", "bowl", "drive"]

Loss = Callable[[Config], float]


def bowl(config: Config) -> float:
    """Least (0) at a=62, b=31."""
    return ((float(config["a"]) - 62) / 50) ** 2 + ((float(config["b"]) - 31) / 50) ** 2


def drive(searcher: SearcherBase, n: int, loss: Loss = bowl, start: int = 0) -> list[Config]:
    """Asks and answers `n` times; an infinite loss is a crash."""
    asked = []
    for number in range(start, start + n):
        asked += searcher.ask()
        value = loss(asked[-1])
        searcher.tell(trial(asked[-1], number, value) if math.isfinite(value) else crash(asked[-1], number))
    return asked


def best_config(searcher: SearcherBase) -> Config:
    best = searcher.best()
    assert best is not None
    return best.config
