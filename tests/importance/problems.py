"""Problems with known answers for the tests of this room."""

from __future__ import annotations

from collections.abc import Callable

from trimtab.importance import RankProblem, make_design
from trimtab.space import Config, Knob, KnobKind, Space
from trimtab.testing.ranker_suite import planted_problem

__all__ = ["flat_space", "sampled"]


def flat_space(n: int = 6) -> Space:
    """n reals from 0 to 1, named a, b, c, ..., at 0.2."""
    return Space([Knob(name=chr(97 + i), kind=KnobKind.REAL, low=0.0, high=1.0, default=0.2) for i in range(n)])


def sampled(
    loss: Callable[[Config], float], space: Space | None = None, runs: int = 60, noise: float = 0.02, seed: int = 1
) -> RankProblem:
    """A Latin hypercube of `space` (default: six reals), measured."""
    space = flat_space() if space is None else space
    configs = make_design("lhs", space, space.default(), runs, seed).configs
    return planted_problem(space, configs, lambda _, config: loss(config), noise, seed)
