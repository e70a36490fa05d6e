"""Refresh pairs: keys in the gaps, rows that fit the data, and a database that is the same after each pair."""

from __future__ import annotations

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workload.conftest import SCALE
from trimtab.records import Endpoint
from trimtab.workload.server import server_of
from trimtab.workload.tpch.refresh import RefreshPair, gap_keys, refresh_pair, remove_leftovers

PAIRS = st.integers(0, 4000)
CHECKSUM = (
    "SELECT count(*), sum(hashtextextended(o::text, 0)), (SELECT count(*) FROM lineitem),"
    " (SELECT sum(hashtextextended(l::text, 0)) FROM lineitem l) FROM orders o"
)


@given(PAIRS, st.sampled_from([0.01, 0.1, 0.25, 1.0]))
def test_keys_are_in_the_gaps_and_within_the_table(pair: int, scale: float) -> None:
    keys = gap_keys(pair, scale)
    assert len(set(keys)) == len(keys) == max(1, round(1500 * scale))
    assert all(key % 32 >= 8 for key in keys)
    assert 0 < min(keys) <= max(keys) <= 6_000_000 * scale


@given(st.integers(0, 1000), st.integers(1, 1000))
def test_pairs_share_no_keys_until_the_gaps_are_used(pair: int, distance: int) -> None:
    # 15 orders of 15000 x 3 free places: 3000 pairs.
    assert not set(gap_keys(pair, SCALE)) & set(gap_keys(pair + distance, SCALE))
    assert gap_keys(pair, SCALE) == gap_keys(pair + 3000, SCALE)


@pytest.mark.slow
@given(PAIRS, st.integers(0, 2**32))
def test_a_pair_depends_on_its_arguments_alone(pair: int, seed: int) -> None:
    assert refresh_pair(pair, scale=SCALE, seed=seed) == refresh_pair(pair, scale=SCALE, seed=seed)
    assert refresh_pair(pair, scale=SCALE, seed=seed).inserts != refresh_pair(pair, scale=SCALE, seed=seed + 1).inserts


def run(connection: psycopg.Connection, statements: tuple[str, ...]) -> int:
    """Rows touched by the statements, run as one transaction."""
    with connection.transaction():
        return sum(connection.execute(statement).rowcount for statement in statements)


def inserted(connection: psycopg.Connection, pair: RefreshPair) -> tuple[int, int]:
    """(orders, lines) in the key gaps."""
    row = connection.execute(
        "SELECT (SELECT count(*) FROM orders WHERE o_orderkey = ANY(%(keys)s)),"
        " (SELECT count(*) FROM lineitem WHERE l_orderkey = ANY(%(keys)s))",
        {"keys": list(pair.keys)},
    ).fetchone()
    assert row is not None
    return row[0], row[1]


@pytest.mark.service
def test_a_pair_leaves_the_data_as_it_was(connection: psycopg.Connection) -> None:
    before = connection.execute(CHECKSUM).fetchone()
    pair = refresh_pair(7, scale=SCALE, seed=1)
    n_inserted = run(connection, pair.inserts)
    n_orders, n_lines = inserted(connection, pair)
    assert n_orders == 15
    assert n_orders <= n_lines <= 7 * n_orders
    assert n_inserted == n_orders + n_lines
    assert connection.execute(CHECKSUM).fetchone() != before
    assert run(connection, pair.deletes) == n_inserted
    assert connection.execute(CHECKSUM).fetchone() == before


BROKEN = {
    "no customer of that key orders": """SELECT 1 FROM orders WHERE o_orderkey = ANY(%(k)s)
        AND (o_custkey %% 3 = 0 OR NOT EXISTS (SELECT 1 FROM customer WHERE c_custkey = o_custkey))""",
    "no such part and supplier": """SELECT 1 FROM lineitem WHERE l_orderkey = ANY(%(k)s)
        AND NOT EXISTS (SELECT 1 FROM partsupp WHERE ps_partkey = l_partkey AND ps_suppkey = l_suppkey)""",
    "wrong price": """SELECT 1 FROM lineitem, part WHERE l_orderkey = ANY(%(k)s) AND l_partkey = p_partkey
        AND l_extendedprice <> l_quantity * p_retailprice""",
    "wrong total": """SELECT 1 FROM orders JOIN lineitem ON l_orderkey = o_orderkey WHERE o_orderkey = ANY(%(k)s)
        GROUP BY o_orderkey, o_totalprice
        HAVING o_totalprice <> sum(trunc(trunc(l_extendedprice * (1 - l_discount), 2) * (1 + l_tax), 2))""",
    "wrong status": """SELECT 1 FROM orders JOIN lineitem ON l_orderkey = o_orderkey WHERE o_orderkey = ANY(%(k)s)
        GROUP BY o_orderkey, o_orderstatus HAVING o_orderstatus <>
        CASE WHEN count(DISTINCT l_linestatus) > 1 THEN 'P' ELSE min(l_linestatus::text) END""",
    "dates out of order": """SELECT 1 FROM orders JOIN lineitem ON l_orderkey = o_orderkey WHERE o_orderkey = ANY(%(k)s)
        AND (l_shipdate <= o_orderdate OR l_receiptdate <= l_shipdate OR l_commitdate < o_orderdate + 30
             OR l_receiptdate > date '1998-12-31')""",
    "wrong flags": """SELECT 1 FROM lineitem WHERE l_orderkey = ANY(%(k)s)
        AND ((l_linestatus = 'O') <> (l_shipdate > date '1995-06-17')
             OR (l_returnflag = 'N') <> (l_receiptdate > date '1995-06-17'))""",
}


@pytest.mark.service
def test_new_orders_follow_the_rules_of_the_loaded_ones(connection: psycopg.Connection, small: Endpoint) -> None:
    pairs = [refresh_pair(i, scale=SCALE, seed=3) for i in range(10)]
    keys = [key for pair in pairs for key in pair.keys]
    try:
        for pair in pairs:
            run(connection, pair.inserts)
        broken = [name for name, query in BROKEN.items() if connection.execute(query, {"k": keys}).fetchone()]
        # The rules are those of the generator: they hold for the loaded rows as well.
        loaded = [row[0] for row in connection.execute("SELECT o_orderkey FROM orders WHERE o_orderkey %% 32 < 8", ())]
        broken += [name for name, query in BROKEN.items() if connection.execute(query, {"k": loaded}).fetchone()]
    finally:
        with server_of(small).connect() as session:
            n_removed = [remove_leftovers(server_of(small), session) for _ in range(2)]
    assert broken == []
    assert n_removed == [150, 0]
