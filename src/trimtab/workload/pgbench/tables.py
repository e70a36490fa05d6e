"""pgbench's own tables, filled by the server: branches, tellers, accounts and an empty history (PostgreSQL manual, pgbench)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trimtab.records import Endpoint
from trimtab.workload.database import Dataset, check_rows
from trimtab.workload.server import Session, server_of

__all__ = ["ACCOUNTS_PER_BRANCH", "dataset"]

ACCOUNTS_PER_BRANCH = 100_000
_TELLERS_PER_BRANCH = 10
_BYTES_PER_SCALE = 16_000_000
"""Tables, primary keys, and the WAL of the load that is not recycled yet, with room to spare."""

_MOST_ACCOUNTS_A_STATEMENT = 1_000_000

_TABLES = """
CREATE TABLE pgbench_branches (bid int NOT NULL, bbalance int, filler char(88)) WITH (fillfactor = 100);
CREATE TABLE pgbench_tellers (tid int NOT NULL, bid int, tbalance int, filler char(84)) WITH (fillfactor = 100);
CREATE TABLE pgbench_accounts (aid {aid} NOT NULL, bid int, abalance int, filler char(84)) WITH (fillfactor = 100);
CREATE TABLE pgbench_history (tid int, bid int, aid {aid}, delta int, mtime timestamp, filler char(22));
"""

_KEYS = (
    "ALTER TABLE pgbench_branches ADD PRIMARY KEY (bid)",
    "ALTER TABLE pgbench_tellers ADD PRIMARY KEY (tid)",
    "ALTER TABLE pgbench_accounts ADD PRIMARY KEY (aid)",
)

_LARGEST_INT_SCALE = 20_000
"""From here on account numbers need more than 4 bytes."""


def dataset(scale: int) -> Dataset:
    """The data of `pgbench -i -s scale`: 100,000 accounts, 10 tellers and 1 branch per unit of scale."""
    content: dict[str, Any] = {"workload": "pgbench", "version": 1, "scale": scale}

    def fill(there: Endpoint, report: Callable[[str], None]) -> None:
        with server_of(there).connect() as session:
            _fill(session, scale, report)

    def check(session: Session) -> str:
        return check_rows(session, {"pgbench_accounts": scale * ACCOUNTS_PER_BRANCH})

    return Dataset(
        database=f"trimtab_pgbench_{scale}",
        content=content,
        size_bytes=scale * _BYTES_PER_SCALE,
        fill=fill,
        check=check,
    )


def _fill(session: Session, scale: int, report: Callable[[str], None]) -> None:
    session.execute(_TABLES.format(aid="int" if scale < _LARGEST_INT_SCALE else "bigint"))
    # Only for this session; a crash is recognised by the marker, and a checkpoint ends the load.
    session.execute("SET synchronous_commit = off")
    session.execute("SET maintenance_work_mem = '128MB'")
    session.execute("INSERT INTO pgbench_branches SELECT b, 0, '' FROM generate_series(1, %s) b", (scale,))
    session.execute(
        "INSERT INTO pgbench_tellers SELECT t, (t - 1) / %s + 1, 0, '' FROM generate_series(1, %s) t",
        (_TELLERS_PER_BRANCH, scale * _TELLERS_PER_BRANCH),
    )
    n_accounts = scale * ACCOUNTS_PER_BRANCH
    for first in range(1, n_accounts + 1, _MOST_ACCOUNTS_A_STATEMENT):
        last = min(first + _MOST_ACCOUNTS_A_STATEMENT - 1, n_accounts)
        session.execute(
            "INSERT INTO pgbench_accounts SELECT a, (a - 1) / %s + 1, 0, '' FROM generate_series(%s::bigint, %s) a",
            (ACCOUNTS_PER_BRANCH, first, last),
        )
        report(f"loaded {last} of {n_accounts} accounts")
    for statement in _KEYS:
        session.execute(statement)
    for table in ("branches", "tellers", "accounts", "history"):
        session.execute(f"VACUUM (ANALYZE) pgbench_{table}")
