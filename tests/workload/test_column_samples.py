"""Columns of a large table as parameters: the frequencies of their values and the pages that they lead to are the table's own."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import psycopg
import pytest

from tests.servers.postgresql import TRUST, started
from trimtab.records import Endpoint
from trimtab.workload.sql.generators import parse_generators
from trimtab.workload.sql.samples import native_generators

N_ROWS, N_CUSTOMERS = 10_000_000, 1_000_000
N_WARM, N_ASKED = 4_000, 4_000

pytestmark = [pytest.mark.service, pytest.mark.full]


@pytest.fixture(scope="module")
def large() -> Iterator[Endpoint]:
    """Ten million orders of a million customers, few of whom have most; a cache that holds a tenth of the table."""
    settings = "shared_buffers = '64MB'\nfsync = off\nmax_wal_size = '8GB'\nmaintenance_work_mem = '512MB'\n"
    with started("18", settings=settings, hba=TRUST) as mine:
        there = Endpoint(protocol="postgresql", host="127.0.0.1", port=mine.port, user="postgres", database="postgres")
        with _connect(there) as connection:
            connection.execute("CREATE UNLOGGED TABLE orders (id int, customer int, note text)")
            connection.execute(
                "INSERT INTO orders SELECT i, (%s * power(random(), 3))::int, repeat('x', 40) FROM generate_series(1, %s) i",
                (N_CUSTOMERS, N_ROWS),
            )
            connection.execute("CREATE INDEX ON orders (customer)")
            connection.execute("VACUUM ANALYZE orders")
        yield there


def _connect(there: Endpoint) -> psycopg.Connection[tuple[int, ...]]:
    return psycopg.connect(
        f"host={there.host} port={there.port} user={there.user} dbname={there.database}", autocommit=True
    )


def _hit_ratio(there: Endpoint, customers: Sequence[int]) -> float:
    """Of the table's pages, when these customers' orders are read one customer after the other and the first are the warm-up."""
    with _connect(there) as connection:
        for customer in customers[:N_WARM]:
            connection.execute(
                "SELECT max(note) FROM (SELECT note FROM orders WHERE customer = %s LIMIT 50) o", (customer,)
            )
        before = _pages(connection)
        for customer in customers[N_WARM:]:
            connection.execute(
                "SELECT max(note) FROM (SELECT note FROM orders WHERE customer = %s LIMIT 50) o", (customer,)
            )
        hit, read = (after - first for after, first in zip(_pages(connection), before, strict=True))
    return hit / (hit + read)


def _pages(connection: psycopg.Connection[tuple[int, ...]]) -> tuple[int, int]:
    connection.execute("SELECT pg_stat_force_next_flush()")
    time.sleep(0.1)
    row = connection.execute("SELECT heap_blks_hit, heap_blks_read FROM pg_statio_user_tables").fetchone()
    assert row is not None
    return row[0], row[1]


def test_a_skewed_column_of_ten_million_rows_keeps_its_frequencies_and_its_pages(large: Endpoint) -> None:
    (made,) = native_generators(
        large, parse_generators({"c": {"type": "column", "table": "orders", "column": "customer"}})
    )
    drawn = [int(value) for value in made["values"]]
    assert len(drawn) == pytest.approx(100_000, rel=0.02)
    # P(customer <= x) of the table is (x / N_CUSTOMERS) ** (1 / 3).
    for share in (0.001, 0.01, 0.1, 0.5):
        of_sample = sum(customer <= share * N_CUSTOMERS for customer in drawn) / len(drawn)
        assert of_sample == pytest.approx(share ** (1 / 3), abs=0.02)
    assert max(Counter(drawn).values()) < 0.02 * len(drawn)
    choice = random.Random(1)
    true_mix = [round(N_CUSTOMERS * choice.random() ** 3) for _ in range(N_WARM + N_ASKED)]
    true_ratio = _hit_ratio(large, true_mix)
    assert _hit_ratio(large, choice.choices(drawn, k=N_WARM + N_ASKED)) == pytest.approx(true_ratio, abs=0.05)
    too_few = _hit_ratio(large, choice.choices(drawn[:300], k=N_WARM + N_ASKED))
    assert too_few > true_ratio + 0.1, "the test would not notice a sample that is too small"
