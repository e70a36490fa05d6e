"""Duels: narrow intervals, because no duel has more than eight pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trimtab.flow.pairs import MAX_DUEL_PAIRS, Duel
from trimtab.measure import Looks, NoisePool, PairedSequence
from trimtab.space import Config

FULL, WITHOUT = Config({"cache": 512, "jit": "off"}), Config({"cache": 512, "jit": "on"})
NOISE = 0.05


def duel(pool_df: int, looks: Looks | None) -> Duel:
    pool = NoisePool(pool_df * 2 * NOISE**2, pool_df)
    sequence = PairedSequence(is_maximised=True, pool=pool, looks=looks)
    return Duel(reference=FULL, challenger=WITHOUT, sequence=sequence)


def test_no_pair_counts_beyond_the_last_look() -> None:
    eight = duel(0, Looks(MAX_DUEL_PAIRS))
    for i in range(MAX_DUEL_PAIRS + 3):
        eight.add(110.0 + i, 100.0, True)
    assert eight.n_pairs == len(eight.sequence) == MAX_DUEL_PAIRS
    assert eight.ratio.n == MAX_DUEL_PAIRS


@pytest.mark.parametrize("pool_df", [3, 6, 12])
def test_what_a_setting_is_worth_is_known_more_closely_from_two_pairs_on(pool_df: int) -> None:
    rng = np.random.default_rng(2)
    any_number, bounded = duel(pool_df, None), duel(pool_df, Looks(MAX_DUEL_PAIRS, 1))
    for n in range(1, MAX_DUEL_PAIRS + 1):
        values = 110 * math.exp(rng.normal(0, NOISE)), 100 * math.exp(rng.normal(0, NOISE))
        for each in (any_number, bounded):
            each.add(*values, True)
        widths = [math.log(each.ratio.high / each.ratio.low) for each in (any_number, bounded)]
        assert widths[1] < (0.89 if n > 1 else 0.95) * widths[0]
