"""Trust-region search: a Gaussian process near the incumbent, in a region that grows with success and shrinks with failure.

The region and its source (TuRBO) are described in `trimtab.search.optimise`.
"""

from __future__ import annotations

from typing import ClassVar

from trimtab.search.acquisition import thompson
from trimtab.search.base import Options
from trimtab.search.engine import Member
from trimtab.search.gp import GaussianProcessSearcher
from trimtab.search.optimise import Region, TrustRegion

__all__ = ["TrustRegionSearcher"]

_DRAWN = 300
"""Candidates at which a function is drawn for Thompson sampling: its cost grows with the cube."""


class TrustRegionSearcher(GaussianProcessSearcher):
    """Few-knob changes within a region around the incumbent that adapts its size; restarts elsewhere."""

    NAME: ClassVar[str] = "trust-region"
    OPTIONS: ClassVar[Options] = {
        **GaussianProcessSearcher.OPTIONS,
        "acquisition": ("ei", "'ei': expected improvement; 'thompson': the least of a function drawn from the model"),
        "successes": (3, "improvements in a row after which the region doubles"),
        "failures": (0, "trials in a row without one after which it halves; 0: a quarter of the knobs, 4 to 10"),
    }

    def _check_options(self) -> None:
        super()._check_options()
        known = self.options["acquisition"] in ("ei", "thompson")
        self._require("acquisition", known, "'ei' or 'thompson'")
        self._require("successes", self.options["successes"] >= 1, "1 or more")
        self._require("failures", self.options["failures"] >= 0, "0 or more")

    def _region(self) -> Region:
        return TrustRegion(
            self.space, successes=self.options["successes"], failures=self.options["failures"],
            sample=lambda number: self._samples(self._n_initial(), number),
        )  # fmt: skip

    def _member(self) -> Member:
        member = super()._member()
        if self.options["acquisition"] == "thompson":
            member.gain, member.optimise = thompson, self._optimise(_DRAWN, rounds=0)
        return member
