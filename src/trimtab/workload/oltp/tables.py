"""The tables sbtest1, sbtest2, ...: a number, an indexed number, and two texts of digits; the same rows each time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from trimtab.records import Endpoint
from trimtab.workload.database import Dataset, check_rows
from trimtab.workload.oltp.settings import OltpSettings
from trimtab.workload.server import Session, server_of

__all__ = ["dataset", "table_names"]

_ROW_BYTES = 300
"""Row, primary key and index entry, with room to spare."""
_COPIES = 3
"""The rows, their log, and a copy for runs that write."""
_BATCH = 1000
_ENGINE = {"mysql": " ENGINE=InnoDB"}
"""Named, for default_storage_engine may be one without transactions, to which hardly a knob matters."""
_GROUPS = (10, 5)
"""Groups of eleven digits in `c` and in `pad`."""


def table_names(settings: OltpSettings) -> tuple[str, ...]:
    """The names of the tables."""
    return tuple(f"sbtest{number}" for number in range(1, settings.tables + 1))


def dataset(settings: OltpSettings) -> Dataset:
    """The rows that every run starts from."""

    def fill(there: Endpoint, report: Callable[[str], None]) -> None:
        server = server_of(there)
        with server.connect() as session:
            for number, table in enumerate(table_names(settings)):
                _fill(session, table, settings.table_size, number, _ENGINE.get(there.protocol, ""))
                server.analyse(session, (table,))
                report(f"loaded {settings.table_size} rows into {table}")

    def check(session: Session) -> str:
        return check_rows(session, dict.fromkeys(table_names(settings), settings.table_size))

    content = {"workload": "oltp", "version": 1, "tables": settings.tables, "table_size": settings.table_size}
    size_bytes = _COPIES * _ROW_BYTES * settings.tables * settings.table_size
    return Dataset(database=settings.database, content=content, size_bytes=size_bytes, fill=fill, check=check)


def _fill(session: Session, table: str, table_size: int, seed: int, engine: str) -> None:
    columns = "id int PRIMARY KEY, k int NOT NULL, c char(120) NOT NULL, pad char(60) NOT NULL"
    session.execute(f"CREATE TABLE {table} ({columns}){engine}")
    for values in _batches(table_size, seed):
        session.execute(f"INSERT INTO {table} (id, k, c, pad) VALUES {values}")
    session.execute(f"CREATE INDEX {table}_k ON {table} (k)")


def _batches(table_size: int, seed: int) -> Iterator[str]:
    """Rows as the text of a VALUES list; digits and hyphens only."""
    random = np.random.default_rng(seed)
    for first in range(1, table_size + 1, _BATCH):
        n = min(_BATCH, table_size + 1 - first)
        ks = random.integers(1, table_size, size=n, endpoint=True)
        groups = random.integers(0, 10**11, size=(n, sum(_GROUPS)))
        rows = zip(range(first, first + n), ks.tolist(), groups.tolist(), strict=True)
        yield ",".join(f"({id_},{k},'{_text(row[: _GROUPS[0]])}','{_text(row[_GROUPS[0] :])}')" for id_, k, row in rows)


def _text(groups: list[int]) -> str:
    return "-".join(f"{group:011d}" for group in groups)
