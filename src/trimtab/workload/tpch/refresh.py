"""The refresh functions: RF1 inserts new orders with their lines into the key gaps, RF2 deletes them again.

Derived from TPC-H clause 2.5: a pair inserts and deletes 1500 x scale orders. Unlike the specification's, RF2 deletes
what RF1 of the same pair has inserted, so the data is the same after each pair and trials start alike.
Loaded order keys use the first 8 of every 32 (clause 4.2.3); the 24 others are the gaps.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import date, timedelta

from trimtab.workload.server import Session, SqlServer
from trimtab.workload.tpch.schema import TABLES

__all__ = ["RefreshPair", "gap_keys", "refresh_pair", "remove_leftovers"]

_ORDERS_PER_STATEMENT = 100
_KEYS_PER_STATEMENT = 500
_GAP_LEVELS = 3
"""Times that 8 keys fit into the 24 free ones of each 32."""

_FIRST_DAY = date(1992, 1, 1)
_N_ORDER_DAYS = (date(1998, 12, 31) - timedelta(days=151) - _FIRST_DAY).days + 1
_CURRENT_DAY = (date(1995, 6, 17) - _FIRST_DAY).days
_PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
_INSTRUCTIONS = ("COLLECT COD", "DELIVER IN PERSON", "NONE", "TAKE BACK RETURN")
_MODES = ("AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK")
_WORDS = ("bold", "brisk", "calm", "crates", "drift", "even", "harbours", "late", "quiet", "sails", "tides", "wake")
_ROWS = {table.name: table.rows_per_scale for table in TABLES}


@dataclass(frozen=True, slots=True)
class RefreshPair:
    """RF1 and RF2 of one pair as SQL statements, each list to run as one transaction; `keys` are their orders."""

    keys: tuple[int, ...]
    inserts: tuple[str, ...]
    deletes: tuple[str, ...]


def gap_keys(pair: int, scale: float) -> tuple[int, ...]:
    """The order keys of `pair`, ascending, in the gaps; pairs do not share keys until all gaps have been used."""
    n = max(1, round(1500 * scale))
    capacity = max(8, int(_ROWS["orders"] * scale) // 8 * 8)
    keys = []
    for slot in range(pair * n, (pair + 1) * n):
        level, place = divmod(slot % (capacity * _GAP_LEVELS), capacity)
        keys.append(place // 8 * 32 + 8 * (level + 1) + place % 8)
    return tuple(sorted(keys))


def refresh_pair(pair: int, *, scale: float, seed: int) -> RefreshPair:
    """RF1 and RF2 of `pair` (0 or more); a function of the arguments alone."""
    # Not numpy's: drawing single numbers with it takes five times as long, and there are 100,000 of them at scale 1.
    rng = random.Random(f"refresh {seed} {pair}")
    keys = gap_keys(pair, scale)
    inserts: list[str] = []
    for first in range(0, len(keys), _ORDERS_PER_STATEMENT):
        made = [_order(rng, key, scale) for key in keys[first : first + _ORDERS_PER_STATEMENT]]
        inserts.append("INSERT INTO orders VALUES " + ", ".join(order for order, _ in made))
        inserts.append("INSERT INTO lineitem VALUES " + ", ".join(line for _, lines in made for line in lines))
    deletes: list[str] = []
    for first in range(0, len(keys), _KEYS_PER_STATEMENT):
        some = ", ".join(str(key) for key in keys[first : first + _KEYS_PER_STATEMENT])
        deletes.append(f"DELETE FROM lineitem WHERE l_orderkey IN ({some})")
        deletes.append(f"DELETE FROM orders WHERE o_orderkey IN ({some})")
    return RefreshPair(keys, tuple(inserts), tuple(deletes))


def remove_leftovers(server: SqlServer, session: Session) -> int:
    """Deletes all orders in the key gaps, with their lines; returns how many orders there were."""
    n = int(session.execute("SELECT count(*) FROM orders WHERE o_orderkey % 32 >= 8")[0][0])
    if n:
        session.execute("START TRANSACTION")
        session.execute("DELETE FROM lineitem WHERE l_orderkey % 32 >= 8")
        session.execute("DELETE FROM orders WHERE o_orderkey % 32 >= 8")
        session.execute("COMMIT")
        server.analyse(session, ("orders", "lineitem"))
    return n


def _day(offset: int) -> str:
    return (_FIRST_DAY + timedelta(days=offset)).isoformat()


def _hundredths(value: int) -> str:
    return f"{value // 100}.{value % 100:02d}"


def _comment(rng: random.Random, low: int, high: int) -> str:
    return " ".join(rng.choices(_WORDS, k=rng.randint(low, high)))


def _order(rng: random.Random, key: int, scale: float) -> tuple[str, list[str]]:
    """The VALUES of one order and of its 1 to 7 lines (clause 4.2.3)."""
    day = rng.randrange(_N_ORDER_DAYS)
    n_lines = rng.randrange(1, 8)
    lines, total, statuses = [], 0, set()
    for number in range(1, n_lines + 1):
        values, price, status = _line(rng, key, number, day, scale)
        lines.append(values)
        total += price
        statuses.add(status)
    status = statuses.pop() if len(statuses) == 1 else "P"
    clerk = rng.randrange(1, max(2, round(1000 * scale) + 1))
    order = (
        f"({key}, {_customer(rng, scale)}, '{status}', {_hundredths(total)}, '{_day(day)}', "
        f"'{rng.choice(_PRIORITIES)}', 'Clerk#{clerk:09d}', 0, "
        f"'{_comment(rng, 3, 7)}')"
    )
    return order, lines


def _customer(rng: random.Random, scale: float) -> int:
    """A customer who orders: every third key never does (clause 4.2.3), which is what Q13 and Q22 count."""
    n = max(2, int(_ROWS["customer"] * scale))
    key = rng.randint(1, n)
    return key if key % 3 else key - 1


def _line(rng: random.Random, key: int, number: int, day: int, scale: float) -> tuple[str, int, str]:
    """The VALUES of one line, its share of the order's total price in cents, and its line status."""
    part = rng.randint(1, int(_ROWS["part"] * scale))
    n_suppliers = int(_ROWS["supplier"] * scale)
    # The four suppliers of a part follow from its key, so that the line has its partsupp row.
    supplier = (part + rng.randrange(4) * (n_suppliers // 4 + (part - 1) // n_suppliers)) % n_suppliers + 1
    quantity = rng.randrange(1, 51)
    price = quantity * (90_000 + part // 10 % 20_001 + 100 * (part % 1000))
    discount, tax = rng.randrange(11), rng.randrange(9)
    ship = day + rng.randrange(1, 122)
    commit = day + rng.randrange(30, 91)
    receipt = ship + rng.randrange(1, 31)
    flag = rng.choice("RA") if receipt <= _CURRENT_DAY else "N"
    status = "O" if ship > _CURRENT_DAY else "F"
    values = (
        f"({key}, {part}, {supplier}, {number}, {quantity}, "
        f"{_hundredths(price)}, {_hundredths(discount)}, {_hundredths(tax)}, '{flag}', '{status}', "
        f"'{_day(ship)}', '{_day(commit)}', '{_day(receipt)}', "
        f"'{rng.choice(_INSTRUCTIONS)}', '{rng.choice(_MODES)}', '{_comment(rng, 1, 4)}')"
    )
    # The loaded totals are cut to whole cents after each factor, too.
    return values, price * (100 - discount) // 100 * (100 + tax) // 100, status
