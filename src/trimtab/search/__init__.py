"""PROPOSE: one file per searcher, all behind ask and tell; no clock, file or socket."""

from __future__ import annotations

from trimtab import plugins
from trimtab.errors import UsageError
from trimtab.search.base import Options, SearcherBase
from trimtab.search.ledger import Evidence, Ledger
from trimtab.search.past import PastStudy
from trimtab.search.plugin_guard import FallbackSearcher, GuardedSearcher
from trimtab.search.searcher import RestartCost, Searcher, SearchProblem

__all__ = [
    "Evidence",
    "FallbackSearcher",
    "GuardedSearcher",
    "Ledger",
    "Options",
    "PastStudy",
    "RestartCost",
    "SearchProblem",
    "Searcher",
    "SearcherBase",
    "create",
    "may_fit_model",
]


def create(name: str, problem: SearchProblem) -> GuardedSearcher:
    """The searcher registered as `name`, ready to be asked; what it does wrong shows as an error that names it.

    Raises:
        UsageError: no such searcher, or an option of `problem.options` that it does not know or cannot take.
        InternalError: the searcher raised anything else.
    """
    return GuardedSearcher(name, plugins.load("searchers", name), problem)


def may_fit_model(name: str) -> bool:
    """Whether a call of the searcher registered as `name` may take long; true unless its class says otherwise (`FITS_MODEL`)."""
    try:
        return bool(getattr(plugins.load("searchers", name), "FITS_MODEL", True))
    except UsageError:
        return True
