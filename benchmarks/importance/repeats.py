"""What it brings that of the many runs of one config three count: planted spaces, ranked with that limit and without it.

    python benchmarks/importance/repeats.py [--spaces 100] [--first-space 0] [--configs 60]
        [--baseline-runs 25] [--winner-runs 12]

As in a study with a proof, the baseline and the best config have been measured many times besides. Printed is the mean
difference that the limit makes, with its standard error over the spaces: the five knobs' share of the score, how many of them
are among the first five, and by how many places the last of them comes sooner.
"""

from __future__ import annotations

import argparse
import math
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402
from planted import places, plant, problem_of  # noqa: E402

import trimtab.importance.samples as samples  # noqa: E402
from trimtab.importance import RankProblem, lhs_design, rank_knobs  # noqa: E402

N_KNOBS = 30
_FIGURES = ("share of the score", "among the first five", "places that the last comes sooner")
_NO_LIMIT = 10**9


def _ranked(problem: RankProblem, five: tuple[str, ...], most_runs: int) -> tuple[float, ...]:
    """The figures, the more the better, where so many runs of one config count."""
    samples._MOST_RUNS = most_runs
    found = rank_knobs(replace(problem))  # anew: a problem keeps what was worked out of its trials
    share = sum(each.score for each in found.knobs if each.knob in five)
    return share, sum(name in five for name in found.names[:5]), -places(found.names, five)


def differences(seed: int, n_configs: int, n_baseline: int, n_winner: int) -> tuple[float, ...]:
    """Of one space: each figure with the limit, less the same without it."""
    limit, planted = samples._MOST_RUNS, plant(N_KNOBS, seed)
    configs = list(lhs_design(planted.space, planted.space.default(), n_configs, seed).configs)
    repeats = [planted.space.default()] * n_baseline + [min(configs, key=planted.loss)] * n_winner
    problem = replace(problem_of(planted, configs + repeats, seed), n_bootstrap=8)
    limited, plain = (_ranked(problem, planted.five, most) for most in (limit, _NO_LIMIT))
    samples._MOST_RUNS = limit
    return tuple(one - other for one, other in zip(limited, plain, strict=True))


def main() -> None:
    """Ranks all spaces and prints the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spaces", type=int, default=100)
    parser.add_argument("--first-space", type=int, default=0)
    parser.add_argument("--configs", type=int, default=60)
    parser.add_argument("--baseline-runs", type=int, default=25)
    parser.add_argument("--winner-runs", type=int, default=12)
    given = parser.parse_args()
    of_one = partial(differences, n_configs=given.configs, n_baseline=given.baseline_runs, n_winner=given.winner_runs)
    with ProcessPoolExecutor() as pool:
        found = np.array(list(pool.map(of_one, range(given.first_space, given.first_space + given.spaces))))
    for name, column in zip(_FIGURES, found.T, strict=True):
        print(f"{name}: {column.mean():+.3f} ± {column.std(ddof=1) / math.sqrt(len(column)):.3f}")


if __name__ == "__main__":
    main()
