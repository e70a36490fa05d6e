"""The default searcher as data: which design, which members in which order, and what counts, by temper.

The constants were chosen by measurement on synthetic surfaces and recorded trials; which ones, and what each is worth, is
told in docs/measurements/search-tried.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from trimtab.search.acquisition import Term, believed, feasible, no_repeat, reach, restart_cost
from trimtab.search.base import Options
from trimtab.search.design import Design, InteriorDesign, n_first
from trimtab.search.engine import BayesianSearcher, Member
from trimtab.search.optimise import Everywhere, Optimise, TrustRegion, optimiser
from trimtab.search.surrogate import Feasibility, ForestModel, GaussianModel
from trimtab.space import Config

__all__ = ["AutoSearcher"]


@dataclass(frozen=True, slots=True)
class Temper:
    """What a temper means.

    Attributes:
        turns: who asks after whom.
        step, share: of the design: how far its configs go, and how many knobs the first one moves.
    """

    turns: tuple[str, ...]
    step: float = 1.0
    share: float = 1.0


TEMPERS = {
    "bold": Temper(("gaussian", "region", "gaussian", "forest")),
    "even": Temper(("gaussian", "region", "prudent", "forest"), share=0.5),
    "prudent": Temper(("prudent",), step=0.5, share=0.25),
}

_WIDE, _NARROW, _ACCEPTED = 0.7, 0.2, 0.01
"""Of a prudent member: shares of a knob's range by which leaving the tried range costs a factor of e, at first and while
more than the share of the trials that is accepted has failed."""

_BOLD_REACH = 4.0
"""The same of members that are not prudent, always: a range may be left by one setting, and not by many at once, which is what
most failures are (docs/measurements/search-tried.md)."""

_BOLD = 0.25
"""Share of `blame` that counts for members that are not prudent: the best configs lie near a border more often than not, and what
lies beyond it the classifier learns as well."""

_FAR_FOREST = 0.6
"""A forest knows nothing between its splits: more of its candidates lie anywhere."""


class AutoSearcher(BayesianSearcher):
    """Advice, a space-filling design, then a Gaussian process, a trust region and a forest in turn; after plays the design has
    every second turn."""

    NAME: ClassVar[str] = "auto"
    OPTIONS: ClassVar[Options] = {
        "temper": ("bold", "'bold': crosses borders to learn; 'prudent': for live servers, few failures; 'even': between"),
        "initial": (0, "space-filling configs before the model is used; 0: two more than a third of the knobs, 4 to 10"),
        "candidates": (800, "points scored for one ask, before the best are improved"),
        "cap": (400, "most configs that enter a model: the best, the latest, and some of the others"),
        "caution": (4.0, "how much the risk of failing counts: exponent of the probability of success"),
        "blame": (2.0, "how much repeating what is blamed for a failure counts; a quarter of it for bold members"),
        "changes": (3.0, "mean number of knobs changed at once near a good config"),
        "restart_share": (0.35, "prudent: share of local candidates in which knobs that need a restart may change"),
        "restart_cost": (0.3, "prudent: what a restart costs, in trials: expected improvement is divided by one plus it"),
        "prior_strength": (5.0, "trials after which plays and catalogue count as much as what was measured; 0: not at all"),
        "repeats": (1, "most trials of one config: the best so far is measured again when its loss looks like luck"),
        "marginal": (0.002, "converged when the expected gain (log-ratio) of ten asks in a row is below this"),
    }  # fmt: skip

    def _check_options(self) -> None:
        super()._check_options()
        for name in ("blame", "restart_cost", "prior_strength"):
            self._require(name, self.options[name] >= 0, "0 or more")
        self._require("temper", self.options["temper"] in TEMPERS, f"one of {', '.join(TEMPERS)}")

    def _made(self) -> tuple[Design, Sequence[Member]]:
        options, temper = self.options, TEMPERS[self.options["temper"]]
        n = options["initial"] or n_first(self.space.n_dims, self.problem.budget_trials)
        # Losses are relative to a baseline outside the space as well; one inside that is never measured (by Optuna) is not known.
        par = math.nan if self.filler == self.problem.baseline else 0.0
        design = InteriorDesign(
            self.space, n, self.problem.seed, self.filler, self.belief, par=par,
            n_before=self.problem.n_before, step=temper.step, share=temper.share, is_sharing=True,
        )  # fmt: skip
        members = self._members()
        return design, [members[name] for name in temper.turns]

    def _members(self) -> dict[str, Member]:
        options = self.options
        gaussian = GaussianModel(self.n_features, options["cap"])
        works = feasible(Feasibility(options["cap"]), options["caution"])
        bold: list[Term] = [works, no_repeat(_BOLD * options["blame"])]
        if self.belief is not None and options["prior_strength"]:
            bold.append(believed(self.belief, options["prior_strength"]))
        slow = self.problem.restarts
        prudent = [
            *bold,
            no_repeat((1.0 - _BOLD) * options["blame"]),
            reach(_WIDE, _NARROW, _ACCEPTED),
            restart_cost(options["restart_cost"], slow),
        ]
        bold += [reach(_BOLD_REACH, _BOLD_REACH, 1.0), *([restart_cost(0.0, slow)] if slow else [])]
        free, kept = self._optimise(1.0), self._optimise(options["restart_share"])
        region = TrustRegion(self.space, sample=self._sampled)
        return {
            "gaussian": Member(gaussian, Everywhere(), bold, free),
            "region": Member(gaussian, region, bold, free),
            "forest": Member(ForestModel(options["cap"]), Everywhere(_FAR_FOREST), bold, free),
            "prudent": Member(gaussian, Everywhere(), prudent, kept),
        }

    def _optimise(self, restart_share: float) -> Optimise:
        return optimiser(
            self.space, (self.filler, *self._openers()), self.belief, n_candidates=self.options["candidates"],
            changes=self.options["changes"], restart_share=restart_share,
            held=frozenset(name for name in self.space.knobs if any(name in each.knobs for each in self.problem.restarts)),
        )  # fmt: skip

    def _sampled(self, number: int) -> list[Config]:
        """Configs with which the trust region of this number begins."""
        return self._samples(n_first(self.space.n_dims, self.problem.budget_trials), number)
