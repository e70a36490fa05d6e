"""Who takes part: Trimtab's searchers, and peers in the environments of `make bench-search`, as searchers of a study."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimtab import plugins
from trimtab.records import Trial
from trimtab.search import SearchProblem
from trimtab.space import Config

_SEARCH = Path(__file__).parents[1] / "search"

OURS = ("auto", "random", "tpe", "gp")
PEERS = {"optuna-tpe": "optuna TPE", "smac3": "SMAC3 forest", "opentuner": "OpenTuner"}
"""Name here -> name in benchmarks/search/contenders.py."""


def _search_benchmark() -> Any:
    """The contenders of the search benchmark."""
    if str(_SEARCH) not in sys.path:
        sys.path.append(str(_SEARCH))
    spec = importlib.util.spec_from_file_location("search_contenders", _SEARCH / "contenders.py")
    if spec is None or spec.loader is None:
        raise SystemExit("error: benchmarks/search/contenders.py is missing\nhint: run from a whole checkout")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True, slots=True)
class _Task:
    """What a peer needs of the search benchmark's tasks."""

    space: Any


class PeerSearcher:
    """A peer as a `Searcher`: it tries the advice first, as Trimtab's own searchers do."""

    PEER = ""

    def __init__(self, problem: SearchProblem) -> None:
        contenders = _search_benchmark()
        budget = problem.budget_trials or 50
        self._peer = contenders.Peer(contenders.PEERS[self.PEER], _Task(problem.space), problem.seed, budget)
        self._openers = [problem.space.repair(config) for config in problem.advice]
        self._space = problem.space
        self._best: Trial | None = None

    is_exhausted = False
    is_converged = False

    def ask(self, n: int = 1) -> list[Config]:
        return [self._openers.pop(0) if self._openers else self._space.repair(self._peer.ask()) for _ in range(n)]

    def tell(self, trial: Trial) -> None:
        if trial.status == "infrastructure":
            return
        if trial.is_feasible and (self._best is None or (trial.loss or 0.0) < (self._best.loss or 0.0)):
            self._best = trial
        self._peer.tell(trial)

    def best(self) -> Trial | None:
        return self._best


def missing(name: str) -> str:
    """Why the contender cannot take part; "" when it can."""
    if name in OURS or name not in PEERS:
        return "" if name in plugins.names("searchers") else "there is no such searcher"
    kind = _search_benchmark().PEERS[PEERS[name]]
    return "" if kind.python.exists() else "its environment is not installed (make bench-live makes it)"


def register() -> None:
    """Makes the peers known as searchers to studies of this process."""
    load = plugins.load

    def found(group: plugins.Group, name: str) -> Any:
        if group == "searchers" and name in PEERS:
            return type("Peer", (PeerSearcher,), {"PEER": PEERS[name]})
        return load(group, name)

    plugins.load = found
