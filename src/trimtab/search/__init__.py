"""PROPOSE: one file per searcher, all behind ask and tell; no clock, file or socket."""

from __future__ import annotations

from typing import cast

from trimtab import plugins
from trimtab.search.base import Options, SearcherBase
from trimtab.search.ledger import Evidence, Ledger
from trimtab.search.searcher import Searcher, SearchProblem

__all__ = ["Evidence", "Ledger", "Options", "SearchProblem", "Searcher", "SearcherBase", "create"]


def create(name: str, problem: SearchProblem) -> Searcher:
    """The searcher registered as `name`, ready to be asked.

    Raises:
        UsageError: no such searcher, or an option of `problem.options` that it does not know or cannot take.
    """
    return cast(Searcher, plugins.load("searchers", name)(problem))
