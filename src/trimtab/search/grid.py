"""Exhaustive search over a grid: every combination of some levels of each knob, its size known beforehand.

Source: Active Harmony's exhaustive method (Zhou 2013, §3.4.1). It is only for few knobs with few levels; a grid that nobody
will ever finish is refused, not begun.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import UsageError
from trimtab.search.base import Options, SearcherBase
from trimtab.search.searcher import SearchProblem
from trimtab.space import Config, RestartClass, Value

__all__ = ["GridSearcher"]

_ORDERS = ("shuffled", "sorted")

_SHOWN = 8
"""Knobs whose levels are written out in a message."""


class GridSearcher(SearcherBase):
    """Every feasible config of the grid once, and then it is exhausted; known configs are left out."""

    NAME: ClassVar[str] = "grid"
    FITS_MODEL: ClassVar[bool] = False
    OPTIONS: ClassVar[Options] = {
        "levels": (0, "values of each knob, spread evenly; 0: as many as fit the budget in trials, 2 at least"),
        "levels_of": ({}, "levels of single knobs: a number of levels, or a list of values"),
        "most": (10_000, "a grid of more configs than this is refused"),
        "order": ("shuffled", "'shuffled', or 'sorted': knobs that need a restart change as rarely as possible"),
    }

    def __init__(self, problem: SearchProblem) -> None:
        super().__init__(problem)
        self._require("levels", self.options["levels"] >= 0, "0 or more")
        self._require("most", self.options["most"] >= 1, "1 or more")
        self._require("order", self.options["order"] in _ORDERS, "'shuffled' or 'sorted'")
        own = {name: self._own_levels(name, wish) for name, wish in self.options["levels_of"].items()}
        self.levels: Mapping[str, tuple[Value, ...]] = self._chosen_levels(own)
        if self.size > int(self.options["most"]):
            raise UsageError(
                f"the grid has {self.describe_size()} configs, more than most={self.options['most']}",
                hint="tune fewer knobs, give fewer levels (levels, levels_of), or raise most",
            )
        self._configs = tuple(self._grid())
        self._place = 0

    @property
    def size(self) -> int:
        """Combinations of levels, feasible or not."""
        return math.prod(map(len, self.levels.values()))

    @property
    def is_exhausted(self) -> bool:
        """Whether every config of the grid was told, is pending or given up."""
        return not any(map(self._is_new, self._configs[self._place :])) and not any(map(self._is_new, self._configs))

    def describe(self) -> str:
        """The size of the grid, in a line."""
        return f"the grid has {self.describe_size()} configs, {len(self._configs):,} of them feasible and different"

    def describe_size(self) -> str:
        """The product that the size is, the largest factors first when there are many."""
        sizes = sorted((len(levels) for levels in self.levels.values() if len(levels) > 1), reverse=True)
        factors = [*map(str, sizes[:_SHOWN]), *(["…"] if len(sizes) > _SHOWN else [])]
        return f"{' × '.join(factors)} = {self.size:,}" if len(sizes) > 1 else f"{self.size:,}"

    def _own_levels(self, name: str, wish: Any) -> tuple[Value, ...]:
        """The levels that `levels_of` wishes for a knob.

        Raises:
            SpaceError: no such knob, or a value that is not legal.
            UsageError: neither a number of levels nor a list of values.
        """
        if isinstance(wish, int) and not isinstance(wish, bool) and wish >= 1:
            return self.space.levels(name, wish)
        if isinstance(wish, list) and wish:
            self.space.levels(name, 1)
            knob = self.space.knobs[name]
            values = [knob.parse(each) if isinstance(each, str) and not knob.is_text else each for each in wish]
            return tuple(dict.fromkeys(self.space.validate({**self.filler, name: value})[name] for value in values))
        raise UsageError(
            f"levels_of.{name}={wish!r} of searcher {self.NAME!r}", hint="give a number of levels, or a list of values"
        )

    def _chosen_levels(self, own: Mapping[str, tuple[Value, ...]]) -> dict[str, tuple[Value, ...]]:
        wanted = int(self.options["levels"]) or self._fitting(own)
        return {name: own[name] if name in own else self.space.levels(name, wanted) for name in self.space.knobs}

    def _fitting(self, own: Mapping[str, tuple[Value, ...]]) -> int:
        """The largest number of levels with which the grid is no larger than the budget, or `most`; 2 at least."""
        limit = min(int(self.options["most"]), self.problem.budget_trials or int(self.options["most"]))
        fixed = math.prod(map(len, own.values()))
        # However few levels are wanted, a knob has its special values and one more.
        counts = [(len(self.space.levels(n, 1)), self.space.n_levels(n)) for n in self.space.knobs if n not in own]

        def size(wanted: int) -> float:
            return fixed * math.prod(min(max(wanted, least), most) for least, most in counts)

        top = int(min(max((most for _, most in counts), default=2), limit))
        n = 2
        while n < top and size(n + 1) <= limit:
            n += 1
        return n

    def _grid(self) -> Iterator[Config]:
        """The feasible configs of the grid, canonical and without repeats, in the order of asking."""
        self.space.require_feasible()
        names = sorted(self.levels, key=lambda name: self.space.knobs[name].restart is RestartClass.RELOAD)
        rest, columns = np.arange(self.size), dict[str, NDArray[np.float64]]()
        for name in reversed(names):  # the last one changes fastest
            places = self._places(name)
            rest, place = np.divmod(rest, len(places))
            columns[name] = places[place]
        points = np.stack([columns[name] for name in self.levels], axis=1) if names else np.empty((1, 0))
        configs = list(dict.fromkeys(self.space.decode_many(points[self.space.feasible_mask(points)])))
        if self.options["order"] == "sorted":
            yield from configs
        else:
            order = np.random.default_rng([self.problem.seed, 0, 4]).permutation(len(configs))
            yield from (configs[place] for place in order)

    def _places(self, name: str) -> NDArray[np.float64]:
        """Where the levels of a knob lie on its axis of the cube."""
        axis = list(self.space.knobs).index(name)
        return np.array([self.space.encode({**self.filler, name: value})[axis] for value in self.levels[name]])

    def _propose(self, rng: np.random.Generator) -> Config:
        # What lies before `_place` was told or pending once; it is looked at again when the rest is used up, because a
        # trial that taught nothing (infrastructure) leaves its config open.
        for start, end in ((self._place, len(self._configs)), (0, self._place)):
            for place in range(start, end):
                if self._is_new(self._configs[place]):
                    self._place = place
                    return self._configs[place]
        return self._random_new(rng)
