"""Substitution parameters stay in the specification's ranges, use all of them, and depend on the seed alone."""

from __future__ import annotations

import re
from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.workload.tpch.orders import ORDERS, order_of
from trimtab.workload.tpch.parameters import (
    COLORS,
    CONTAINERS,
    NATIONS,
    QUERIES,
    REGIONS,
    SEGMENTS,
    SHIP_MODES,
    TYPES,
    draw,
    validation,
)
from trimtab.workload.tpch.queries import render, sequence, template, validation_query

SEEDS = st.integers(0, 2**32)
BRANDS = {f"Brand#{m}{n}" for m in range(1, 6) for n in range(1, 6)}
YEARS = {f"{year}-01-01" for year in range(1993, 1998)}


def months(first: str, last: str) -> set[str]:
    """First days of all months from `first` to `last`."""
    low, high = date.fromisoformat(first), date.fromisoformat(last)
    days = (date(year, month, 1) for year in range(low.year, high.year + 1) for month in range(1, 13))
    return {day.isoformat() for day in days if low <= day <= high}


def numbers(low: int, high: int) -> set[str]:
    return {str(n) for n in range(low, high + 1)}


RANGES = {
    1: {"delta": numbers(60, 120)},
    2: {"size": numbers(1, 50), "type": {t for _, _, t in TYPES}, "region": set(REGIONS)},
    3: {"segment": set(SEGMENTS), "date": {f"1995-03-{day:02d}" for day in range(1, 32)}},
    4: {"date": months("1993-01-01", "1997-10-01")},
    5: {"region": set(REGIONS), "date": YEARS},
    6: {"date": YEARS, "discount": {f"0.0{n}" for n in range(2, 10)}, "quantity": {"24", "25"}},
    7: {"nation1": set(NATIONS), "nation2": set(NATIONS)},
    8: {"nation": set(NATIONS), "region": set(REGIONS), "type": {" ".join(t) for t in TYPES}},
    9: {"color": set(COLORS)},
    10: {"date": months("1993-02-01", "1995-01-01")},
    11: {"nation": set(NATIONS), "fraction": {"0.0010000000"}},
    12: {"shipmode1": set(SHIP_MODES), "shipmode2": set(SHIP_MODES), "date": YEARS},
    13: {
        "word1": {"special", "pending", "unusual", "express"},
        "word2": {"packages", "requests", "accounts", "deposits"},
    },
    14: {"date": months("1993-01-01", "1997-12-01")},
    15: {"date": months("1993-01-01", "1997-10-01")},
    17: {"brand": BRANDS, "container": set(CONTAINERS)},
    18: {"quantity": numbers(312, 315)},
    19: {f"quantity{i}": numbers(low, high) for i, (low, high) in enumerate([(1, 10), (10, 20), (20, 30)], 1)}
    | {f"brand{i}": BRANDS for i in (1, 2, 3)},
    20: {"color": set(COLORS), "date": YEARS, "nation": set(NATIONS)},
    21: {"nation": set(NATIONS)},
}
"""Query -> parameter -> all its values at scale 0.1 (Q16 and Q22 have lists and tests of their own)."""


def test_the_sets_have_the_specified_sizes() -> None:
    sizes = [len(set(values)) for values in (REGIONS, NATIONS, SEGMENTS, SHIP_MODES, COLORS, TYPES, CONTAINERS)]
    assert sizes == [5, 25, 5, 7, 92, 150, 40]
    assert [len(RANGES[query]["date"]) for query in (4, 10, 14, 15)] == [58, 24, 60, 58]


@pytest.mark.slow
@pytest.mark.parametrize("query", RANGES)
def test_draws_cover_exactly_the_range(query: int) -> None:
    rng = np.random.default_rng(1)
    seen: dict[str, set[str]] = {name: set() for name in RANGES[query]}
    for _ in range(3000):
        for name, value in draw(query, rng, 0.1).items():
            seen[name].add(value)
    assert seen == RANGES[query]


@given(SEEDS)
def test_pairs_that_must_differ_do(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nations, modes, eighth = draw(7, rng, 1.0), draw(12, rng, 1.0), draw(8, rng, 1.0)
    assert nations["nation1"] != nations["nation2"]
    assert modes["shipmode1"] != modes["shipmode2"]
    assert NATIONS[eighth["nation"]] == eighth["region"]


@given(SEEDS)
def test_q16_has_eight_different_sizes_and_two_syllables(seed: int) -> None:
    parameters = draw(16, np.random.default_rng(seed), 1.0)
    sizes = parameters["sizes"].split(", ")
    assert len(set(sizes)) == 8
    assert set(sizes) <= numbers(1, 50)
    assert parameters["brand"] in BRANDS
    assert parameters["type"] in {f"{first} {second}" for first, second, _ in TYPES}


@given(SEEDS)
def test_q22_has_seven_different_codes(seed: int) -> None:
    codes = re.findall(r"'(\d\d)'", draw(22, np.random.default_rng(seed), 1.0)["codes"])
    assert len(set(codes)) == len(codes) == 7
    assert set(codes) <= numbers(10, 34)


@given(st.sampled_from(QUERIES), SEEDS, st.integers(0, 50))
def test_a_sequence_depends_on_its_arguments_alone(query: int, seed: int, stream: int) -> None:
    first = sequence(query, 5, seed=seed, stream=stream, scale=0.1)
    assert first == sequence(query, 5, seed=seed, stream=stream, scale=0.1)
    assert first[:3] == sequence(query, 3, seed=seed, stream=stream, scale=0.1)


def test_streams_and_seeds_differ() -> None:
    texts = {tuple(sequence(9, 64, seed=seed, stream=stream, scale=0.1)) for seed in (1, 2) for stream in range(4)}
    assert len(texts) == 8


@given(st.sampled_from(QUERIES), SEEDS)
def test_rendered_queries_have_no_placeholder_left(query: int, seed: int) -> None:
    parameters = draw(query, np.random.default_rng(seed), 0.1)
    text = render(query, parameters)
    assert "{" not in text
    # Each value must really be used, else a parameter would be drawn for nothing.
    assert all(value in text for value in parameters.values())
    assert set(parameters) == set(validation(query)) == set(re.findall(r"{(\w+)}", template(query)))


def test_row_limits() -> None:
    limits = {query: re.search(r"LIMIT (\d+)$", validation_query(query)) for query in QUERIES}
    assert {query: match[1] for query, match in limits.items() if match} == {
        2: "100",
        3: "10",
        10: "20",
        18: "100",
        21: "100",
    }


def test_orders_are_41_different_permutations() -> None:
    assert len(set(ORDERS)) == 41
    assert all(sorted(order) == list(QUERIES) for order in ORDERS)


def test_the_first_and_last_orders() -> None:
    assert order_of(0) == (14, 2, 9, 20, 6, 17, 18, 8, 21, 13, 3, 22, 16, 4, 11, 15, 1, 10, 19, 5, 7, 12)
    assert order_of(40)[:4] == (13, 15, 17, 1)
    assert order_of(41) == order_of(0)
