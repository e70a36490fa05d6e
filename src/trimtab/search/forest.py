"""Random-forest search: expected improvement on a forest of trees, local search from the best, and random configs between.

Source: F. Hutter, H. Hoos, K. Leyton-Brown, "Sequential Model-Based Optimization for General Algorithm Configuration"
(SMAC), LION 2011, §4; M. Lindauer et al., "SMAC3", JMLR 23 (2022). Numbers enter on their own scale (logarithmic where
the knob says so), special values and choices as indicators, inactive knobs at their defaults. Changed: failed trials teach
a classifier whose probability is multiplied in, instead of entering the forest with an invented loss.
"""

from __future__ import annotations

from typing import ClassVar

from trimtab.search.base import Options
from trimtab.search.engine import Member
from trimtab.search.gp import MODEL_OPTIONS, ModelSearcher
from trimtab.search.surrogate import ForestModel, Model

__all__ = ["ForestSearcher"]


class ForestSearcher(ModelSearcher):
    """Advice and a small Latin hypercube first; then the largest expected improvement by a forest; random ones between."""

    NAME: ClassVar[str] = "forest"
    OPTIONS: ClassVar[Options] = {
        **MODEL_OPTIONS,
        "random_share": (0.05, "share of asks that are random configs: they keep a wrong model from going in circles"),
    }

    def _check_options(self) -> None:
        super()._check_options()
        self._require("random_share", 0 <= self.options["random_share"] < 1, "0 or more and less than 1")

    def _model(self) -> Model:
        return ForestModel(self.options["cap"])

    def _member(self) -> Member:
        member = super()._member()
        member.random_share = self.options["random_share"]
        return member
