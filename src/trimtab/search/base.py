"""SearcherBase: the bookkeeping that all searchers share, so that each file holds one strategy and nothing else."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import product
from typing import Any, ClassVar

import numpy as np

from trimtab.errors import UsageError
from trimtab.records import Trial
from trimtab.search.ledger import Ledger
from trimtab.search.searcher import SearchProblem
from trimtab.space import Config

__all__ = ["Options", "SearcherBase"]

Options = Mapping[str, tuple[Any, str]]
"""Option name -> (default, one line of help)."""

_DRAWS = 16
_ROUNDS = 8
"""How hard a new random config is looked for before one that was seen already is asked again."""

_N_STARTS = 3
"""Configs of past studies that a searcher tries first."""

_SMALL = 1000
"""Spaces of at most so many configs are enumerated."""


class SearcherBase(ABC):
    """A searcher with its options read and its ledger kept; a strategy fills in `_propose`.

    Every ask gets a random generator of its own, derived from the seed and the number of configs asked before it, so a
    fresh instance that is told and asked the same goes the same way.

    Attributes:
        problem: what the searcher was made with.
        options: every option of `OPTIONS` with its value.
        filler: the baseline as a config of the space; a number out of range is brought into it, and what is no value of its
            knob is the default instead.
        ledger: what was asked, and what the trials told so far say.

    A strategy that only draws and compares says so with `FITS_MODEL = False` (see `Searcher`). With `NEARS_CONSTRAINTS` its
    ledger shows the way to configs that meet the objective's constraints while none does (see `Ledger`): what it keeps of losses
    itself must be dropped when `ledger.allowed` changes.
    """

    NAME: ClassVar[str]
    OPTIONS: ClassVar[Options] = {}
    FITS_MODEL: ClassVar[bool] = True
    NEARS_CONSTRAINTS: ClassVar[bool] = False

    def __init__(self, problem: SearchProblem) -> None:
        self.problem = problem
        self.space = problem.space
        self.options = _read_options(self.NAME, self.OPTIONS, problem.options)
        self.filler = problem.space.fit(problem.baseline, problem.space.default())
        self.ledger = Ledger(problem.space, self.filler, nears_constraints=self.NEARS_CONSTRAINTS)
        self.n_asked = 0
        self._opened: dict[int, list[Config]] = {}

    @property
    def pending(self) -> Counter[Config]:
        """Configs asked and not yet told, with how often."""
        return self.ledger.pending

    @property
    def is_exhausted(self) -> bool:
        """Whether every feasible config was told, is pending or given up; known for small spaces only, else false."""
        return self._every is not None and not any(self._is_new(config) for config in self._every)

    @cached_property
    def _every(self) -> tuple[Config, ...] | None:
        """All feasible configs of a small space; None for others."""
        if self.space.size() > _SMALL:
            return None
        names = tuple(self.space.knobs)
        levels = product(*(self.space.levels(name) for name in names))
        configs = dict.fromkeys(self.space.canonical(dict(zip(names, values, strict=True))) for values in levels)
        return tuple(filter(self.space.is_feasible, configs))

    @property
    def is_converged(self) -> bool:
        """Never, unless a strategy knows better."""
        return False

    def ask(self, n: int = 1) -> list[Config]:
        """`n` valid and feasible configs, in the order in which they should be tried.

        Raises:
            UsageError: `n` is less than 1.
        """
        if n < 1:
            raise UsageError(f"cannot ask for n={n} configs", hint="ask for at least 1")
        configs = []
        for _ in range(n):
            rng = np.random.default_rng([self.problem.seed, self.n_asked])
            config = self._opening() if self.problem.starts else None
            config = self._propose(rng) if config is None else config
            self.pending[config] += 1
            self.n_asked += 1
            configs.append(config)
        return configs

    def tell(self, trial: Trial) -> None:
        """Learns from `trial`, whether its config was asked or not."""
        self.ledger.tell(trial)

    def best(self) -> Trial | None:
        """The most precise trial of the config with the least mean loss; None before the first acceptable one.

        A config is acceptable while most of its trials were measured and met all constraints.
        """
        evidence = None if self.ledger.allowed else self.ledger.best()
        return None if evidence is None else evidence.representative()

    @abstractmethod
    def _propose(self, rng: np.random.Generator) -> Config:
        """The next config to try: valid, feasible, and not pending where the space allows it."""

    def _is_new(self, config: Config) -> bool:
        return self.ledger.is_new(config)

    def _loss(self, config: Config) -> float:
        """Loss of a told config; infinite, which only ranks it last, when it failed, broke a constraint, or is unknown."""
        evidence = self.ledger.get(config)
        return evidence.loss if evidence is not None and evidence.is_acceptable else math.inf

    def _first_new(self, configs: Iterable[Config]) -> Config | None:
        """The first of `configs` that is feasible and new (see `Ledger.is_new`)."""
        return next((c for c in configs if self._is_new(c) and self.space.is_feasible(c)), None)

    @property
    def n_features(self) -> int:
        """Columns of what models see of a config."""
        return int(self.space.features([self.filler]).shape[1])

    def _samples(self, n: int, number: int) -> list[Config]:
        """`n` random feasible configs that depend on the seed and `number` only."""
        return self.space.sample(n, np.random.default_rng([self.problem.seed, number, 5]))

    def _random_new(self, rng: np.random.Generator) -> Config:
        """A random feasible config: new if one is found, else told but not pending, else any."""
        before = rng.bit_generator.state
        first = self.space.sample(1, rng)[0]  # nearly always new, and the first of as many as one likes
        if self._is_new(first):
            return first
        rng.bit_generator.state = before
        drawn: list[Config] = []
        for _ in range(_ROUNDS):
            drawn = self.space.sample(_DRAWS, rng)
            for config in drawn:
                if self._is_new(config):
                    return config
        drawn = [*(self._every or ()), *drawn]
        unasked = [config for config in drawn if config not in self.pending]
        return next(filter(self._is_new, unasked), unasked[0] if unasked else drawn[0])

    @property
    def _n_starts(self) -> int:
        """How many of the problem's starts are tried."""
        return _N_STARTS

    def _opening(self) -> Config | None:
        """The next of the advice and the starts; None when all are tried."""
        return self._first_new(self._openers())

    def _openers(self, n_starts: int | None = None) -> list[Config]:
        """The advice and then the starts, as configs of the space, best first, without repeats.

        As soon as starts were tried and all of them turn out worse than the baseline, there are no others.
        """
        if n_starts is None:
            n_starts = 0 if self._are_starts_worse() else self._n_starts
        if n_starts not in self._opened:
            known = (self.ledger.own(config) for config in (*self.problem.advice, *self.problem.starts[:n_starts]))
            repaired = (self.space.repair(config) for config in known if config is not None)
            self._opened[n_starts] = list(dict.fromkeys(repaired))
        return list(self._opened[n_starts])

    def _are_starts_worse(self) -> bool:
        """Whether starts were tried, and none of them was better than the baseline."""
        base = self.ledger.get(self.filler)
        if not self.problem.starts or base is None:
            return False
        starts = self._openers(self._n_starts)[len(self._openers(0)) :]
        tried = [e for config in starts if (e := self.ledger.get(config)) is not None]
        return bool(tried) and all(not e.is_acceptable or (base.is_acceptable and e.loss >= base.loss) for e in tried)

    def _require(self, name: str, is_met: bool, rule: str) -> None:
        """Checks the option `name`.

        Raises:
            UsageError: `is_met` is false; `rule` says what holds for the option.
        """
        if not is_met:
            raise UsageError(f"{name}={self.options[name]!r} of searcher {self.NAME!r}", hint=f"{name} must be {rule}")


def _read_options(searcher: str, known: Options, given: Mapping[str, Any]) -> dict[str, Any]:
    values = {name: default for name, (default, _) in known.items()}
    for name, value in given.items():
        if name not in known:
            raise UsageError(
                f"unknown option {name}={value!r} of searcher {searcher!r}",
                hint=f"use one of: {', '.join(sorted(known))}" if known else "this searcher has no options",
            )
        values[name] = _checked(searcher, name, value, known[name][0])
    return values


def _checked(searcher: str, name: str, value: Any, default: Any) -> Any:
    """`value` as the type of `default`; an integer may stand for a real."""
    kind = type(default)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not kind:
        raise UsageError(
            f"{name}={value!r} of searcher {searcher!r} is not of type {kind.__name__}",
            hint=f"write it like its default, {name} = {default!r}",
        )
    if kind is float and not math.isfinite(value):
        raise UsageError(
            f"{name}={value!r} of searcher {searcher!r} is not a finite number",
            hint=f"write it like its default, {name} = {default!r}",
        )
    return value
