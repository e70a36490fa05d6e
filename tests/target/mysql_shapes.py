"""Rows as the servers give them: MariaDB 10.11 as recorded, MySQL 8 as its manual describes the two tables."""

from __future__ import annotations

from pathlib import Path

__all__ = ["MARIADB_ROWS", "MYSQL_ROWS"]


def _rows(name: str) -> list[tuple[str | None, ...]]:
    lines = (Path(__file__).parent / name).read_text(encoding="utf-8").splitlines()
    return [tuple(None if cell == "NULL" else cell for cell in line.split("|")) for line in lines]


MARIADB_ROWS = _rows("mariadb_variables.txt")
"""Columns as `MARIADB_QUERY` selects them."""

MYSQL_ROWS = _rows("mysql_variables.txt")
"""Columns as `MYSQL_QUERY` selects them."""
