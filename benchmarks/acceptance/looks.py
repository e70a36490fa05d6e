"""How small a p-value must be where one looks after each pair: the figures of `trimtab.measure.repeated`, by simulation.

python benchmarks/acceptance/looks.py               # two million sequences of 200 pairs without a difference, two minutes
python benchmarks/acceptance/looks.py --n 20000     # the same with fewer

For each largest number of pairs (rows) and chance of a false alarm (columns): the p-value that must be reached at the last look.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from trimtab.measure.repeated import ALPHAS, FIRST_LOOK, MOST, SHAPE

__all__ = ["last_p_values", "main"]

_CHUNK = 20_000


def _least_by_most(rng: np.random.Generator, n: int, most: tuple[int, ...], pool_df: int) -> NDArray[np.float64]:
    """(n, len(most)) of each sequence, the least p-value so far as one at the last look."""
    looks = np.arange(1, most[-1] + 1)
    pairs = rng.standard_normal((n, most[-1]))
    mean = pairs.cumsum(axis=1) / looks
    squares = np.maximum((pairs**2).cumsum(axis=1) - looks * mean**2, 0)
    if pool_df:
        squares += rng.chisquare(pool_df, (n, 1))
    df = (looks - 1 + pool_df)[FIRST_LOOK - 1 :]
    mean, squares, looks = mean[:, FIRST_LOOK - 1 :], squares[:, FIRST_LOOK - 1 :], looks[FIRST_LOOK - 1 :]
    t = np.abs(mean) / np.sqrt(squares / df / looks)
    p = np.ones_like(t)
    is_far = t > 0.2  # the rest is above every p-value of the table
    p[is_far] = 2 * stdtr(np.broadcast_to(df, t.shape)[is_far], -t[is_far])
    least = np.minimum.accumulate(p / looks**SHAPE, axis=1)
    return np.stack([least[:, each - FIRST_LOOK] * each**SHAPE for each in most], axis=1)


def last_p_values(n: int, most: tuple[int, ...] = MOST, *, pool_df: int = 0, seed: int = 1) -> NDArray[np.float64]:
    """(len(most), len(ALPHAS)) p-values at the last look with which `n` simulated sequences without a difference raise a false
    alarm at any look with these chances; `pool_df` degrees of freedom of the noise are known beforehand."""
    rng = np.random.default_rng(seed)
    chunks = [min(_CHUNK, n - done) for done in range(0, n, _CHUNK)]
    least = np.concatenate([_least_by_most(rng, each, most, pool_df) for each in chunks])
    return np.asarray(np.quantile(least, ALPHAS, axis=0).T)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=2_000_000)
    parser.add_argument("--pool-df", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.n < 1000 or arguments.pool_df < 0:
        parser.error("--n must be 1000 or more, and --pool-df 0 or more")
    for most, row in zip(MOST, last_p_values(arguments.n, pool_df=arguments.pool_df), strict=True):
        print(f"    ({', '.join(f'{p:.3g}' for p in row)}),  # {most}")


if __name__ == "__main__":
    main()
