"""Stationary shares of the five mixes that come with Trimtab: computed from their tables, and walked by the engine."""

from __future__ import annotations

import json

import numpy as np
import pytest

from trimtab.load import build_source
from trimtab.workload.site import builtin_site, stationary_shares
from trimtab.workload.site.plan import plain_site
from trimtab.workload.site.shares import session_pages

# Per cent. TPC-W: the specification's table of the mixes. RUBiS: of requests, tables normalised.
TPCW = {
    "Home": (29.00, 16.00, 9.12), "NewProducts": (11.00, 5.00, 0.46), "BestSellers": (11.00, 5.00, 0.46),
    "ProductDetail": (21.00, 17.00, 12.35), "SearchRequest": (12.00, 20.00, 14.53), "SearchResults": (11.00, 17.00, 13.08),
    "ShoppingCart": (2.00, 11.60, 13.53), "CustomerRegistration": (0.82, 3.00, 12.86), "BuyRequest": (0.75, 2.60, 12.73),
    "BuyConfirm": (0.69, 1.20, 10.18), "OrderInquiry": (0.30, 0.75, 0.25), "OrderDisplay": (0.25, 0.66, 0.22),
    "AdminRequest": (0.10, 0.10, 0.12), "AdminConfirm": (0.09, 0.09, 0.11),
}  # fmt: skip
BIDDING = {
    "Home": 8.2, "Register": 1.4, "RegisterUser": 1.4, "Browse": 10.9, "BrowseCategories": 7.6, "SearchItemsInCategory": 15.7,
    "BrowseRegions": 3.1, "BrowseCategoriesInRegion": 3.1, "SearchItemsInRegion": 6.3, "ViewItem": 12.3, "ViewUserInfo": 2.35,
    "ViewBidHistory": 1.5, "BuyNowAuth": 1.03, "BuyNow": 1.01, "StoreBuyNow": 0.99, "PutBidAuth": 4.2, "PutBid": 5.0,
    "StoreBid": 3.6, "PutCommentAuth": 0.0, "PutComment": 0.44, "StoreComment": 0.44, "Sell": 0.85,
    "SelectCategoryToSellItem": 0.83, "SellItemForm": 0.82, "RegisterItem": 0.80, "AboutMeAuth": 2.6, "AboutMe": 3.5,
}  # fmt: skip
BROWSING = {
    "Home": 10.5, "Browse": 11.0, "BrowseCategories": 7.8, "SearchItemsInCategory": 26.5, "BrowseRegions": 3.2,
    "BrowseCategoriesInRegion": 3.2, "SearchItemsInRegion": 10.9, "ViewItem": 20.8, "ViewUserInfo": 4.2, "ViewBidHistory": 2.1,
}  # fmt: skip

MIXES = [
    *[
        ("tpcw", mix, {state: row[i] for state, row in TPCW.items()})
        for i, mix in enumerate(("browsing", "shopping", "ordering"))
    ],
    ("rubis", "bidding", BIDDING),
    ("rubis", "browsing", BROWSING),
]


@pytest.mark.parametrize(("name", "mix", "expected"), MIXES)
def test_shares_of_a_mix(name: str, mix: str, expected: dict[str, float]) -> None:
    site = builtin_site(name)
    shares = stationary_shares(site.mix(mix), site.start)
    assert sum(shares.values()) == pytest.approx(1.0)
    # The vectors have one decimal or two; those of RUBiS come from a simulation.
    tolerance = 0.006 if name == "tpcw" else 0.1
    for state, share in shares.items():
        assert 100 * share == pytest.approx(expected.get(state, 0.0), abs=tolerance), state


@pytest.mark.parametrize(("name", "mix", "expected"), MIXES)
def test_a_browser_walks_by_these_shares(name: str, mix: str, expected: dict[str, float]) -> None:
    site = builtin_site(name)
    # As a generator on another machine gets it.
    source = build_source(json.loads(json.dumps(plain_site(site, mix, numbers={}))))
    n = 400_000
    counts, n_sessions = source.walk(n, 1)  # type: ignore[union-attr]
    assert sum(counts) == n
    exact = stationary_shares(site.mix(mix), site.start)
    # Sessions make neighbours alike: six times what independent draws would differ by.
    for state, count in zip(site.states, counts, strict=True):
        share = exact[state.name]
        assert count / n == pytest.approx(share, abs=6 * np.sqrt(max(share, 1e-6) / n) + 1e-6), state.name
    length = n / n_sessions
    # Of RUBiS: moves from page to page; of TPC-W 15 min of thinking for 7 s each, cut at 60, and on to the next Home.
    expected_length = 1 + {"bidding": 11.3, "browsing": 8.6}[mix] if name == "rubis" else 15 * 60 / 7
    by_table = session_pages(site.mix(mix), site.start)
    assert by_table == pytest.approx(length, rel=0.02) if name == "rubis" else by_table > 1e6
    assert length == pytest.approx(expected_length, rel=0.02 if name == "rubis" else 0.25)


@pytest.mark.parametrize("mix", ["bidding", "browsing"])
def test_a_browser_that_reads_literally_walks_by_the_shares_of_that_reading(mix: str) -> None:
    site = builtin_site("rubis")
    source = build_source(plain_site(site, mix, numbers={}, is_literal=True))
    n = 400_000
    counts, _ = source.walk(n, 1)  # type: ignore[union-attr]
    exact = stationary_shares(site.mix(mix), site.start, is_literal=True)
    # Sessions hardly ever end: neighbours are more alike than in the other reading.
    for state, count in zip(site.states, counts, strict=True):
        share = exact[state.name]
        assert count / n == pytest.approx(share, abs=10 * np.sqrt(max(share, 1e-6) / n) + 1e-6), state.name


def test_a_literal_reading_ends_sessions_hardly_ever() -> None:
    site = builtin_site("rubis")
    counts = {}
    for is_literal in (False, True):
        source = build_source(plain_site(site, "browsing", numbers={}, is_literal=is_literal))
        counts[is_literal] = source.walk(100_000, 1)[1]  # type: ignore[union-attr]
    assert counts[True] < 0.1 * counts[False]
    assert 100_000 / counts[True] == pytest.approx(520, rel=0.4)


def test_shares_with_back_and_without_an_end() -> None:
    # a -> b; from b back or on to c alike; from c on to a: a, b and then c half the time; back from b is a again.
    table = {"a": {"b": 1.0}, "b": {"Back": 1.0, "c": 1.0}, "c": {"a": 1.0}}
    shares = stationary_shares(table, "a")
    assert shares == pytest.approx({"a": 0.4, "b": 0.4, "c": 0.2}, abs=1e-6)


def test_what_was_computed_for_a_table_is_nobodys_to_change() -> None:
    table = {"home": {"view": 1.0}, "view": {"home": 3.0, "view": 1.0}}
    found = stationary_shares(table, "home")
    kept = dict(found)
    found["home"] = 7.0
    assert stationary_shares(table, "home") == kept
    table["view"]["home"] = 1.0
    changed = stationary_shares(table, "home")
    assert changed["home"] == pytest.approx(1 / 3)
    assert changed != kept
