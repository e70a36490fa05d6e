"""The queries against answers computed in plain Python from the generator's files, and all 22 on the real server."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import psycopg
import pytest

from tests.workload.conftest import SCALE
from trimtab.workload.tpch.parameters import QUERIES, draw
from trimtab.workload.tpch.queries import render, validation_query

pytestmark = pytest.mark.service

Tables = dict[str, list[list[str]]]

# Columns of lineitem and orders by position (clause 1.4).
ORDER, PART, SUPPLIER, QUANTITY, PRICE, DISCOUNT, TAX, FLAG, STATUS, SHIP, COMMIT, RECEIPT = (
    0,
    1,
    2,
    4,
    5,
    6,
    7,
    8,
    9,
    10,
    11,
    12,
)


def answer(connection: psycopg.Connection, query: int, **parameters: str) -> list[tuple[object, ...]]:
    """The server's rows, texts without padding."""
    text = render(query, parameters) if parameters else validation_query(query)
    return [tuple(v.strip() if isinstance(v, str) else v for v in row) for row in connection.execute(text)]


def revenue(line: list[str]) -> Decimal:
    return Decimal(line[PRICE]) * (1 - Decimal(line[DISCOUNT]))


def lines_shipped(tables: Tables, low: str, high: str) -> Iterator[list[str]]:
    return (line for line in tables["lineitem"] if low <= line[SHIP] < high)


def test_q1(connection: psycopg.Connection, tables: Tables) -> None:
    groups: dict[tuple[str, str], list[list[str]]] = defaultdict(list)
    for line in tables["lineitem"]:
        if line[SHIP] <= "1998-09-02":
            groups[line[FLAG], line[STATUS]].append(line)
    expected = []
    for key, lines in sorted(groups.items()):
        sums = [sum(Decimal(line[column]) for line in lines) for column in (QUANTITY, PRICE, DISCOUNT)]
        charge = sum(revenue(line) * (1 + Decimal(line[TAX])) for line in lines)
        expected.append(
            (*key, *sums[:2], sum(map(revenue, lines)), charge, *(s / len(lines) for s in sums), len(lines))
        )
    found = answer(connection, 1)
    assert [row[:6] + row[9:] for row in found] == [row[:6] + row[9:] for row in expected]
    averages = [[float(v) for v in row[6:9]] for row in found]
    assert averages == [pytest.approx([float(v) for v in row[6:9]]) for row in expected]


def test_q4(connection: psycopg.Connection, tables: Tables) -> None:
    late = {line[ORDER] for line in tables["lineitem"] if line[COMMIT] < line[RECEIPT]}
    counts = Counter(o[5] for o in tables["orders"] if "1993-07-01" <= o[4] < "1993-10-01" and o[0] in late)
    assert answer(connection, 4) == sorted(counts.items())


@pytest.mark.parametrize(("discount", "quantity"), [("0.06", "24"), ("0.02", "25"), ("0.09", "24")])
def test_q6(connection: psycopg.Connection, tables: Tables, discount: str, quantity: str) -> None:
    low, high = Decimal(discount) - Decimal("0.01"), Decimal(discount) + Decimal("0.01")
    expected = sum(
        Decimal(line[PRICE]) * Decimal(line[DISCOUNT])
        for line in lines_shipped(tables, "1994-01-01", "1995-01-01")
        if low <= Decimal(line[DISCOUNT]) <= high and Decimal(line[QUANTITY]) < int(quantity)
    )
    assert answer(connection, 6, date="1994-01-01", discount=discount, quantity=quantity) == [(expected,)]


def test_q9(connection: psycopg.Connection, tables: Tables) -> None:
    green = {part[0] for part in tables["part"] if "green" in part[1]}
    cost = {(row[0], row[1]): Decimal(row[3]) for row in tables["partsupp"]}
    nations = {nation[0]: nation[1] for nation in tables["nation"]}
    nation_of = {supplier[0]: nations[supplier[3]] for supplier in tables["supplier"]}
    year_of = {order[0]: int(order[4][:4]) for order in tables["orders"]}
    profit: dict[tuple[str, int], Decimal] = defaultdict(Decimal)
    for line in tables["lineitem"]:
        if line[PART] in green:
            amount = revenue(line) - cost[line[PART], line[SUPPLIER]] * Decimal(line[QUANTITY])
            profit[nation_of[line[SUPPLIER]], year_of[line[ORDER]]] += amount
    expected = [(*key, profit[key]) for key in sorted(profit, key=lambda k: (k[0], -k[1]))]
    assert answer(connection, 9, color="green") == expected


@pytest.mark.parametrize(("word1", "word2"), [("special", "requests"), ("express", "deposits")])
def test_q13(connection: psycopg.Connection, tables: Tables, word1: str, word2: str) -> None:
    orders = Counter(o[1] for o in tables["orders"] if not re.search(f"{word1}.*{word2}", o[8]))
    distribution = Counter(orders.get(customer[0], 0) for customer in tables["customer"])
    expected = sorted(distribution.items(), key=lambda item: (-item[1], -item[0]))
    assert answer(connection, 13, word1=word1, word2=word2) == expected


def test_q15(connection: psycopg.Connection, tables: Tables) -> None:
    revenues: dict[str, Decimal] = defaultdict(Decimal)
    for line in lines_shipped(tables, "1996-01-01", "1996-04-01"):
        revenues[line[SUPPLIER]] += revenue(line)
    best = max(revenues.values())
    expected = [(int(s[0]), s[1], s[2], s[4], best) for s in tables["supplier"] if revenues.get(s[0]) == best]
    assert answer(connection, 15, date="1996-01-01") == expected


def test_q17(connection: psycopg.Connection, tables: Tables) -> None:
    quantities: dict[str, list[Decimal]] = defaultdict(list)
    for line in tables["lineitem"]:
        quantities[line[PART]].append(Decimal(line[QUANTITY]))
    kind_of = {part[0]: (part[3], part[6]) for part in tables["part"]}
    totals: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for line in tables["lineitem"]:
        of_part = quantities[line[PART]]
        if Decimal(line[QUANTITY]) < Decimal("0.2") * sum(of_part) / len(of_part):
            totals[kind_of[line[PART]]] += Decimal(line[PRICE])
    for brand, container in sorted(totals)[:10]:
        ((found,),) = answer(connection, 17, brand=brand, container=container)
        assert float(str(found)) == pytest.approx(float(totals[brand, container]) / 7)


def test_q18(connection: psycopg.Connection, tables: Tables) -> None:
    quantities: dict[str, Decimal] = defaultdict(Decimal)
    for line in tables["lineitem"]:
        quantities[line[ORDER]] += Decimal(line[QUANTITY])
    large = [o for o in tables["orders"] if quantities[o[0]] > 280]
    large.sort(key=lambda o: (-Decimal(o[3]), o[4]))
    found = answer(connection, 18, quantity="280")
    assert [(row[2], row[5]) for row in found] == [(int(o[0]), quantities[o[0]]) for o in large[:100]]
    assert found


def test_q22(connection: psycopg.Connection, tables: Tables) -> None:
    codes = {"13", "31", "23", "29", "30", "18", "17"}
    customers = [(c[4][:2], Decimal(c[5]), c[0]) for c in tables["customer"] if c[4][:2] in codes]
    positive = [balance for _, balance, _ in customers if balance > 0]
    buyers = {order[1] for order in tables["orders"]}
    groups: dict[str, list[Decimal]] = defaultdict(list)
    for code, balance, key in customers:
        if balance > sum(positive) / len(positive) and key not in buyers:
            groups[code].append(balance)
    assert answer(connection, 22) == [(code, len(b), sum(b)) for code, b in sorted(groups.items())]


@pytest.mark.parametrize("query", QUERIES)
def test_every_query_runs_with_drawn_parameters(connection: psycopg.Connection, query: int) -> None:
    rng = np.random.default_rng(query)
    for _ in range(3):
        connection.execute(render(query, draw(query, rng, SCALE)))
