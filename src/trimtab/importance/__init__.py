"""EXPLAIN: which knobs matter; pure functions of space and trials."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.deferred import deferred

if TYPE_CHECKING:
    from trimtab.importance.consensus import Consensus, default_rankers, rank_knobs
    from trimtab.importance.designs import (
        DESIGNS,
        Design,
        join_designs,
        least_runs,
        lhs_design,
        make_design,
        one_at_a_time,
        sard_design,
        sobol_design,
    )
    from trimtab.importance.interactions import Pair, top_pairs
    from trimtab.importance.knee import knee_of
    from trimtab.importance.rank_check import RankCheck, check_ranks
    from trimtab.importance.ranking import LEAST_CONFIGS, KnobRank, Ranker, Ranking, RankProblem, TooFewError
    from trimtab.importance.slices import Dependence, Slice, slice_of
else:
    __getattr__ = deferred(
        __name__,
        {
            "consensus": "Consensus default_rankers rank_knobs",
            "designs": "DESIGNS Design join_designs least_runs lhs_design make_design one_at_a_time sard_design sobol_design",
            "interactions": "Pair top_pairs",
            "knee": "knee_of",
            "rank_check": "RankCheck check_ranks",
            "ranking": "LEAST_CONFIGS KnobRank Ranker Ranking RankProblem TooFewError",
            "slices": "Dependence Slice slice_of",
        },
    )

__all__ = [
    "DESIGNS",
    "LEAST_CONFIGS",
    "Consensus",
    "Dependence",
    "Design",
    "KnobRank",
    "Pair",
    "RankCheck",
    "RankProblem",
    "Ranker",
    "Ranking",
    "Slice",
    "TooFewError",
    "check_ranks",
    "default_rankers",
    "join_designs",
    "knee_of",
    "least_runs",
    "lhs_design",
    "make_design",
    "one_at_a_time",
    "rank_knobs",
    "sard_design",
    "slice_of",
    "sobol_design",
    "top_pairs",
]
