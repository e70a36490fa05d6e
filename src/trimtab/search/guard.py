"""Guard: a searcher behind which nothing can break its promise unnoticed.

A searcher may be a plug-in. What it raises by mistake, and what it answers that is no answer, shows as an error that
names it, whichever room drives it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

from trimtab.errors import InternalError, TrimtabError
from trimtab.records import Trial
from trimtab.search.searcher import Searcher, SearchProblem
from trimtab.space import Config

__all__ = ["Describing", "GuardedSearcher"]

Result = TypeVar("Result")


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
