"""Searcher: what every search strategy promises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from trimtab.records import Context, Prior, Trial
from trimtab.search.past import PastStudy
from trimtab.space import Config, Space

__all__ = ["RestartCost", "SearchProblem", "Searcher"]


@dataclass(frozen=True, slots=True)
class RestartCost:
    """What it costs to restart what must warm up for long afterwards, as a Java server does.

    Attributes:
        knobs: a change of any of them restarts it.
        runs: what that costs beside another trial, in runs.
    """

    knobs: frozenset[str]
    runs: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchProblem:
    """Everything a searcher may know when it starts.

    Attributes:
        space: what may change.
        baseline: the config the target had when we came; may lie outside the space's useful ranges.
        advice: rule-based configs worth trying first, best first.
        starts: configs that did well in past studies, best first; they need not be feasible here.
        prior: where good configs are expected: plays and places of single knobs; searchers without a model ignore it.
        past: what past studies measured, nearest first: a prior for searchers that have a model.
        context: the workload.
        seed: the only source of randomness.
        budget_trials: how many trials are to be expected; None when unknown.
        n_before: configs that an earlier search of this study has measured: so much less needs to be spread out at first.
        restarts: those that cost much more than others; searchers without a model ignore it.
        options: the searcher's own options from the study file's [search] table.
    """

    space: Space
    baseline: Config
    advice: Sequence[Config] = ()
    starts: Sequence[Config] = ()
    prior: Prior = field(default_factory=Prior)
    past: Sequence[PastStudy] = ()
    context: Context | None = None
    seed: int = 0
    budget_trials: int | None = None
    n_before: int = 0
    restarts: Sequence[RestartCost] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Searcher(Protocol):
    """Proposes configs and learns from trials; minimises `Trial.loss`.

    Deterministic: the sequence of asks depends only on the problem (with its seed) and on the trials told so far, in
    order; a fresh instance that is told the same trials with the same asks in between gives the same next ask. It has
    no clock, file or socket.

    * `ask(n)` gives n configs of the problem's space, each valid (`Space.validate`) and feasible
      (`Space.is_feasible`), and remembers them as pending. Configs asked twice in a row without a tell between differ
      where the space allows it.
    * `tell(trial)` may come in any order, for configs never asked (baseline, advice, other studies), and more than once
      for one config (repeats: they are averaged by their precision). A trial whose status is a config fault
      (`Status.is_config_fault`) teaches feasibility and never enters the model of the loss; one with
      `Status.INFRASTRUCTURE` teaches nothing. A trial with `excess > 0` was measured but broke a constraint of the
      objective: it is not acceptable, however small its loss.
    * `is_exhausted`: nothing is left to ask (a grid is finished).
    * `is_converged`: the searcher itself thinks that going on is not worth it.
    * `best()`: the feasible trial with the least loss (mean over repeats), None before the first one.

    Constructed as `SearcherClass(problem)`; raises `UsageError` for options it does not know, naming those it does.
    Class attribute `OPTIONS` maps each option's name to (default, one line of help). `FITS_MODEL = False` promises that no
    call ever takes long, because the searcher only draws and compares; without it, or where it is true, any call may fit a model.
    """

    @property
    def is_exhausted(self) -> bool: ...
    @property
    def is_converged(self) -> bool: ...
    def ask(self, n: int = 1) -> list[Config]: ...
    def tell(self, trial: Trial) -> None: ...
    def best(self) -> Trial | None: ...
