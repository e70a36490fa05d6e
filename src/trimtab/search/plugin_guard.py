"""Searchers that may be broken plug-ins: what they do wrong is named, and a study goes on without them.

`GuardedSearcher`: what a searcher raises by mistake, and what it answers that is no answer, shows as an error that names it.
`FallbackSearcher`: whatever the guarded one raises, and whatever it answers that is no config of the space, is made good: a
value out of range is brought into it, a missing or senseless one is taken from the best config so far, and where there is no
answer at all, or the same one over and over, one is drawn at random near the best config (about 0.1 of each range away, or with
few other values where that is none that was not tried). After three failures in a row the searcher is not asked any more. Each
of these is said once in words, with the searcher's name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np

from trimtab.errors import InternalError, SpaceError, TrimtabError
from trimtab.records import Context, Role, Status, Trial
from trimtab.search.ledger import Ledger
from trimtab.search.searcher import Searcher, SearchProblem
from trimtab.space import Config, Space

__all__ = ["Describing", "FallbackSearcher", "GuardedSearcher"]

Result = TypeVar("Result")

_MAX_FAILURES = 3
_MAX_SAME = 3
"""Asks in a row that may be for one config: more of them are no search."""

_RADIUS = 0.1
_OFFERED = 16
"""Configs looked at for one that is not known yet."""


@runtime_checkable
class Describing(Protocol):
    """A searcher that knows beforehand what it will do."""

    def describe(self) -> str: ...


class GuardedSearcher:
    """The searcher made by `factory`, under its registered `name`.

    Attributes:
        name: the name it is registered under.
        inner: the searcher itself.

    Raises:
        TrimtabError: as the searcher raises it, from every method.
        InternalError: the searcher raised anything else, or did not give as many configs as were asked for.
    """

    def __init__(self, name: str, factory: Callable[[SearchProblem], Searcher], problem: SearchProblem) -> None:
        self.name = name
        self.inner = self._guarded("its construction", lambda: factory(problem))

    @property
    def is_exhausted(self) -> bool:
        """As `Searcher.is_exhausted`."""
        return self._guarded("is_exhausted", lambda: self.inner.is_exhausted)

    @property
    def is_converged(self) -> bool:
        """As `Searcher.is_converged`."""
        return self._guarded("is_converged", lambda: self.inner.is_converged)

    def ask(self, n: int = 1) -> list[Config]:
        """As `Searcher.ask`; exactly `n` configs."""
        configs: object = self._guarded("ask", lambda: self.inner.ask(n))
        if isinstance(configs, list) and len(configs) == n and all(isinstance(each, Config) for each in configs):
            return configs
        raise InternalError(
            f"searcher={self.name!r} was asked for n={n} configs and gave {configs!r:.200}",
            hint=f"ask must return a list of {n} trimtab.space.Config; tell the author of the searcher",
        )

    def tell(self, trial: Trial) -> None:
        """As `Searcher.tell`."""
        self._guarded("tell", lambda: self.inner.tell(trial))

    def best(self) -> Trial | None:
        """As `Searcher.best`."""
        return self._guarded("best", lambda: self.inner.best())

    def describe(self) -> str:
        """What the searcher says of its plan, in a line; "" when it says nothing."""
        inner = self.inner
        return self._guarded("describe", inner.describe) if isinstance(inner, Describing) else ""

    def _guarded(self, where: str, call: Callable[[], Result]) -> Result:
        try:
            return call()
        except TrimtabError:
            raise
        except Exception as error:
            raise InternalError(
                f"searcher={self.name!r} failed in {where}: {type(error).__name__}: {error}",
                hint="every trial so far is kept: the study goes on when the searcher is repaired; tell its author",
            ) from error


class FallbackSearcher:
    """`inner` with every failure made good; deterministic like any searcher: it draws from the problem's seed.

    Args:
        inner: a guarded searcher: all that it raises by mistake is `InternalError`, or `SpaceError` where a value is not legal.
        space, baseline, seed: of the problem that it was made for.
        say: told of each failure in a line, and of one that comes again only once.
    """

    def __init__(
        self, inner: Searcher, *, space: Space, baseline: Config, seed: int, say: Callable[[str], None]
    ) -> None:
        self._inner = inner
        self._space = space
        self._ledger = Ledger(space, space.fit(baseline, space.default()))
        self._seed = seed
        self._tell_user = say
        self._said: set[str] = set()
        self._n_asked = 0
        self._n_failures = 0
        self._last: Config | None = None
        self._told: Context | None = None
        self._n_same = 0

    @property
    def is_exhausted(self) -> bool:
        """As the searcher says; False when it cannot say or is not asked any more."""
        return not self._is_given_up and self._tried(lambda: self._inner.is_exhausted, False)

    @property
    def is_converged(self) -> bool:
        """As the searcher says; False when it cannot say or is not asked any more."""
        return not self._is_given_up and self._tried(lambda: self._inner.is_converged, False)

    @property
    def _is_given_up(self) -> bool:
        return self._n_failures >= _MAX_FAILURES

    def tell(self, trial: Trial) -> None:
        """Passes the trial on, and keeps what it says."""
        self._told = trial.context
        self._ledger.tell(trial)
        if not self._is_given_up:
            self._tried(lambda: self._inner.tell(trial), None)

    def best(self) -> Trial | None:
        """As `Searcher.best`, whatever the searcher says."""
        evidence = self._ledger.best()
        return None if evidence is None else evidence.representative()

    def ask(self, n: int = 1) -> list[Config]:
        """Configs of the space, whatever the searcher answers."""
        configs = []
        for _ in range(n):
            configs.append(self._one())
            self._ledger.pending[self._space.canonical(configs[-1])] += 1
        return configs

    def changes_workload(self) -> None:
        """The next config is for another workload than the last one: the same config may well be the best for both."""
        self._last, self._n_same = None, 0

    def _one(self) -> Config:
        self._n_asked += 1
        answer = None if self._is_given_up else self._tried(lambda: self._inner.ask(1)[0], None)
        if answer is None:
            return self._near()
        config = self._mended(answer)
        self._n_failures = 0
        self._n_same = self._n_same + 1 if config == self._last else 0
        self._last = config
        if self._n_same >= _MAX_SAME:
            self._say(
                "the searcher asks for one config over and over: a random one near the best is tried in its place"
            )
            self._withdrawn(config)
            return self._near()
        return config

    def _withdrawn(self, config: Config) -> None:
        """The searcher learns that a config which it has asked for is not measured."""
        context = Context(workload="", clients=1) if self._told is None else self._told
        trial = Trial(number=-1, role=Role.SEARCH, config=config, context=context, status=Status.INFRASTRUCTURE)
        self._tried(lambda: self._inner.tell(trial), None)

    def _tried(self, call: Callable[[], Result], otherwise: Result) -> Result:
        try:
            return call()
        except (InternalError, SpaceError) as error:
            self._n_failures += 1
            # A plug-in that makes a value which is not legal is told so by the space, which does not know who asks.
            what = f"the searcher failed: {error.message}" if isinstance(error, SpaceError) else error.message
            self._say(f"{what}; the study goes on without what it would have said")
            if self._is_given_up:
                self._say(
                    f"the searcher failed {_MAX_FAILURES} times in a row: random configs near the best one from here on"
                )
            return otherwise

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._tell_user(text)

    def _mended(self, config: Config) -> Config:
        """`config` itself when it is one of the space; else brought into it."""
        space = self._space
        try:
            return space.validate(config)
        except SpaceError as error:
            self._say(f"the searcher gave a config that is none: {error.message}; it was brought into the space")
        return space.repair(space.fit(config, self._center))

    @property
    def _center(self) -> Config:
        evidence = self._ledger.best()
        return self._ledger.home if evidence is None else evidence.config

    def _near(self) -> Config:
        """Random around the best config, feasible, and not known yet where one is found: switches and choices seldom move."""
        space, random = self._space, np.random.default_rng([self._seed, self._n_asked])
        point = space.encode(self._center) + random.normal(0.0, _RADIUS, space.n_dims)
        near = space.repair(space.decode(np.clip(point, 0.0, 1.0)))
        if self._ledger.is_new(near):
            return near
        others = space.neighbours(self._center, random, _OFFERED, radius=_RADIUS)
        return next(filter(self._ledger.is_new, [*others, *space.sample(_OFFERED, random)]), near)
