"""Parallel Rank Ordering: a simplex of which all vertices but the best move at once, so that they can be measured at once.

Sources: V. Tabatabaee, A. Tiwari, J. Hollingsworth, "Parallel Parameter Tuning for Applications with Performance
Variability", SC 2005; Active Harmony's way of it (Zhou 2013, §3.4.3 and figure 3.7: N + 1 or k·N vertices; reflection of
all points through the best, one expanded point as a check before all expand, shrink when the reflection fails).

A moved vertex that failed, or fell on another, stays where it was: failures and flat simplices are not accepted.
"""

from __future__ import annotations

from typing import ClassVar

from trimtab.search.base import Options
from trimtab.search.simplex import Point, SimplexSearcher
from trimtab.search.stepwise import Steps
from trimtab.space import Config

__all__ = ["ParallelRankOrderSearcher"]


class ParallelRankOrderSearcher(SimplexSearcher):
    """A simplex of which all points but the best move at once, in rounds that can be measured side by side.

    A batch ask hands out as many of the moves as are pending.
    """

    NAME: ClassVar[str] = "pro"
    OPTIONS: ClassVar[Options] = {
        **SimplexSearcher.OPTIONS,
        "vertices": (0, "k for a simplex of k·N vertices, 2 or more; 0: N + 1"),
        "reject": ("repair", SimplexSearcher.OPTIONS["reject"][1]),
    }

    def _check_options(self) -> None:
        super()._check_options()
        self._require("vertices", self.options["vertices"] == 0 or self.options["vertices"] >= 2, "0, or 2 or more")

    def _n_vertices(self) -> int:
        return max(int(self.options["vertices"]) * self.space.n_dims, self.space.n_dims + 1)

    def _transform(self, simplex: list[Config]) -> Steps:
        centre = self.space.encode(simplex[0])
        edges = [self.space.encode(vertex) for vertex in simplex[1:]]
        reflected = self._moves(centre, edges, -self.options["reflect"])
        yield self._askable(reflected)
        leader = min(range(len(reflected)), key=lambda place: self._loss(reflected[place]))
        if not self._loss(reflected[leader]) < self._loss(simplex[0]):
            moved = self._shrunk(simplex)
            yield self._askable(moved)
        else:
            scout = self._at(centre, edges[leader], -self.options["expand"])
            yield self._askable([scout])
            moved = reflected
            if self._loss(scout) < self._loss(reflected[leader]):
                moved = self._moves(centre, edges, -self.options["expand"])
                yield self._askable(moved)
        self._accept(simplex, moved)

    def _moves(self, centre: Point, edges: list[Point], factor: float) -> list[Config]:
        return [self._at(centre, edge, factor) for edge in edges]

    def _accept(self, simplex: list[Config], moved: list[Config]) -> None:
        """Puts the moves in place of the vertices that they came from, where they are known to work."""
        for place, config in enumerate(moved, start=1):
            evidence = self.ledger.get(config)
            if evidence is not None and evidence.is_acceptable and config not in simplex:
                simplex[place] = config
