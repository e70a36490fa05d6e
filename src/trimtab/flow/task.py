"""Task: what a study is to do, as a value: no file, server or history behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from trimtab.flow.budget import Budget
from trimtab.records import Context, Cycle, Objective
from trimtab.space import Config, Space

if TYPE_CHECKING:
    from trimtab.search import RestartCost

__all__ = ["ProofOptions", "SearchOptions", "Task"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """How configs are looked for.

    Attributes:
        searcher: short name of a searcher.
        options: for the searcher itself.
        baseline_every: plays or search trials between two runs of the baseline, 1 or more.
        patience: search trials without an improvement after which the search ends, 1 or more.
    """

    searcher: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)
    baseline_every: int = 6
    patience: int = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofOptions:
    """What it takes to call a config better; shares are relative (0.02: 2 %).

    Attributes:
        min_gain: smallest gain worth claiming.
        min_pairs, max_pairs: pairs of a proof; the least number is made even when the budget is used up.
        advice: whether the advice is measured too; "near": only where the winner looks less than 10 % better and
            there is time.
        tolerance: how much worse another metric may be shown to be.
        max_noise: scatter of the baseline from run to run above which nothing is claimed.
        ablate: whether needless settings are taken from the winner.
        ablation_share: of the study's time or trials that the ablation may use.
    """

    min_gain: float = 0.02
    min_pairs: int = 3
    max_pairs: int = 24
    advice: bool | Literal["near"] = "near"
    tolerance: float = 0.05
    max_noise: float = 0.2
    ablate: bool = True
    ablation_share: float = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a study is to do.

    Attributes:
        space: the knobs that may change, with their constraints; contains the baseline and the advice.
        baseline: the values that were found.
        advice: rule-based config; the baseline where there is none.
        objective: what is optimised.
        budget: seconds or trials.
        context: what the workload looks like.
        seed: of the search.
        search, proof: options; `is_proven` false ends the study with its search.
        regression_budget_s: seconds of user time that trials may cost before nothing new is tried; 0: unlimited.
        lock_reasons: knob -> why its safety class is locked; knobs that are open are missing, or have "".
        cycle: the contexts that follow each other; None: `context` all the time.
        restarts: those that cost much more than others.
        windows_s: shortest and longest measuring window; None: the study does not make its runs itself.
        unfelt: knobs outside the space that have no effect whatever is tuned.
    """

    space: Space
    baseline: Config
    advice: Config
    objective: Objective
    budget: Budget
    context: Context
    seed: int = 1
    search: SearchOptions = field(default_factory=SearchOptions)
    proof: ProofOptions = field(default_factory=ProofOptions)
    is_proven: bool = True
    regression_budget_s: float = 0.0
    lock_reasons: Mapping[str, str] = field(default_factory=dict)
    cycle: Cycle | None = None
    restarts: Sequence[RestartCost] = ()
    windows_s: tuple[float, float] | None = None
    unfelt: frozenset[str] = frozenset()

    @property
    def is_prudent(self) -> bool:
        """Whether the server has users: settings change in small steps, and few at once."""
        return self.search.options.get("temper") == "prudent" or self.regression_budget_s > 0
