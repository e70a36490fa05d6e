"""AtuneRT's search: a limited number of random probes, Nelder-Mead from the best of them, and an account of its cost.

Source: T. Karcher, M. Landhäußer, "Autotuning PostgreSQL: A Blueprint for Successful Autotuning of Real-World
Applications", ICSE 2018 (section on AtuneRT: discrete search space, values kept in range, random probes at the
beginning, stop when the improvement becomes marginal; section 2 on amortization: the overhead of tuning must not
outweigh the gain).

On-line the trials are runs of the program itself. A run with loss l (log-ratio of its time to the baseline's) costs
exp(l) - 1 baseline runs more than no tuning would have; one that failed is counted as one run lost, which is a
convention of the account and never seen by the search.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from trimtab.records import Trial
from trimtab.search.base import Options
from trimtab.search.nelder_mead import NelderMeadSearcher
from trimtab.search.searcher import SearchProblem
from trimtab.search.stepwise import Steps
from trimtab.space import Config

__all__ = ["Amortisation", "AtuneRTSearcher"]

_LONGEST = 50.0


@dataclass(frozen=True, slots=True)
class Amortisation:
    """What tuning has cost and when it is won back, in units of one run of the workload with the baseline.

    Attributes:
        n_trials: runs used for tuning.
        cost: how much longer they took together than with the baseline; negative when they were faster.
        gain: what the best config saves in every later run; 0 when nothing beats the baseline.
    """

    n_trials: int
    cost: float
    gain: float

    @property
    def break_even(self) -> float:
        """Further runs with the best config until the cost is won back; 0 when it is already, infinite without a gain."""
        if self.cost <= 0:
            return 0.0
        return self.cost / self.gain if self.gain > 0 else math.inf


class AtuneRTSearcher(NelderMeadSearcher):
    """Nelder-Mead that stops at the end of its first simplex, or when going on cannot be won back any more."""

    NAME: ClassVar[str] = "atunert"
    OPTIONS: ClassVar[Options] = {
        **{name: option for name, option in NelderMeadSearcher.OPTIONS.items() if name != "restarts"},
        "probes": (5, "random configs tried before the first simplex, in addition to the advice"),
        "marginal": (0.02, "least improvement of the loss that counts as progress"),
        "patience": (0, "steps without progress before the search calls itself converged; 0: one per vertex"),
        "runs": (0, "runs of the workload, trials included, within which tuning must pay; 0: no limit"),
    }

    def __init__(self, problem: SearchProblem) -> None:
        super().__init__(problem)
        self._extra: list[float] = []
        self._bests: list[float] = []
        self._is_done = False

    def _check_options(self) -> None:
        super()._check_options()
        self._require("runs", self.options["runs"] >= 0, "0 or more")

    @property
    def is_converged(self) -> bool:
        """Whether the first simplex is done, or one more trial is expected to cost more than it can win."""
        return self._is_done or not self._may_pay()

    def amortisation(self) -> Amortisation:
        """The account so far; repeats and the baseline's own runs are in it."""
        return Amortisation(len(self._extra), sum(self._extra), max(0.0, 1.0 - _time(self._best_loss())))

    def tell(self, trial: Trial) -> None:
        n_known = self._n_told()
        super().tell(trial)
        if self._n_told() > n_known:
            self._extra.append(_extra(trial))
            self._bests.append(self._best_loss())

    def _n_told(self) -> int:
        return sum(evidence.n_good + evidence.n_bad for evidence in self.ledger)

    def _patience(self, simplex: list[Config]) -> int:
        return int(self.options["patience"]) or len(simplex)

    def _run(self) -> Steps:
        yield from self._probe()
        yield from self._descend(self._simplex(self._best_or_random(), str(self.options["init"])))
        self._is_done = True
        yield from super()._run()

    def _may_pay(self) -> bool:
        """Whether the recent rate of improvement, kept up for one more trial, is worth a trial as dear as the recent ones.

        The improvement is won in every run that is left; the trial costs what the recent ones took beyond the best.
        """
        n_recent = self._n_vertices() + int(self.options["probes"])
        if not self.options["runs"] or len(self._extra) <= n_recent or math.isinf(self._bests[-n_recent - 1]):
            return True
        n_left = int(self.options["runs"]) - len(self._extra)
        before, now = _time(self._bests[-n_recent - 1]), _time(self._bests[-1])
        cost = sum(self._extra[-n_recent:]) / n_recent + 1.0 - now
        return n_left > 0 and (before - now) / n_recent * n_left > cost


def _time(loss: float) -> float:
    """Time of a run in baseline runs; a loss beyond all measure is not allowed to overflow."""
    return math.exp(min(loss, _LONGEST))


def _extra(trial: Trial) -> float:
    """What a run took beyond a baseline run; a failed one counts as one run lost."""
    loss = trial.loss if trial.status.is_measured else None
    return _time(loss) - 1.0 if loss is not None and math.isfinite(loss) else 1.0
