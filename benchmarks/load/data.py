"""The rows that are read and written: 1 kB each, in ten columns of 100 bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clients import run_ours

from servers import Server

FIELDS = tuple(f"field{number}" for number in range(10))
_COLUMNS = ", ".join(f"{field} varchar(100)" for field in FIELDS)
_YCSB_TABLE = f"CREATE TABLE usertable (ycsb_key varchar(64) PRIMARY KEY, {_COLUMNS});"


def reads(server: Server, rows: int) -> str:
    """A database of rows with whole numbers as keys, on PostgreSQL; returns the pgbench script that reads one."""
    values = ", ".join("rpad(md5(key::text), 100, 'x')" for _ in FIELDS)
    server.sql("CREATE DATABASE reads")
    server.sql(
        f"CREATE TABLE wide (key bigint PRIMARY KEY, {_COLUMNS});"
        f"INSERT INTO wide SELECT key, {values} FROM generate_series(1, {rows}) key; VACUUM ANALYZE wide; CHECKPOINT;",
        "reads",
    )
    return f"\\set key random(1, {rows})\nSELECT * FROM wide WHERE key = :key;\n"


WIDE = "drivers"
"""The database that `wide` makes."""


def wide(server: Server, rows: int) -> None:
    """Table `wide` with the numbers from 1 to `rows` as keys, in a database of its own."""
    server.sql(f"CREATE DATABASE {WIDE}")
    server.sql(f"CREATE TABLE wide (number bigint PRIMARY KEY, {_COLUMNS});", WIDE)
    is_postgresql = server.dialect == "postgresql"
    values = ", ".join("rpad(md5(n::text), 100, 'x')" if is_postgresql else "rpad(md5(n), 100, 'x')" for _ in FIELDS)
    numbers = f"generate_series(1, {rows}) n" if is_postgresql else f"(SELECT seq n FROM seq_1_to_{rows}) numbers"
    server.sql(f"INSERT INTO wide SELECT n, {values} FROM {numbers};", WIDE)
    server.sql("VACUUM ANALYZE wide; CHECKPOINT;" if is_postgresql else "ANALYZE TABLE wide;", WIDE)


def script_file(server: Server, script: str) -> Path:
    """The script in the server's folder, for a peer that wants a file."""
    path = server.home / "read.sql"
    path.write_text(script, encoding="utf-8")
    return path


def ycsb(server: Server, rows: int) -> None:
    """YCSB's table in database ycsb, with keys that go-ycsb builds as well (insert order "ordered")."""
    server.sql("CREATE DATABASE ycsb")
    server.sql(_YCSB_TABLE, "ycsb")
    load: dict[str, Any] = {"table": "usertable", "records": rows, "users": 2, "batch": 100, "hashed": False}
    run_ours({"driver": server.driver("ycsb"), "source": {"rows": load}, "users": 2, "duration_s": 600.0})
    server.sql(
        "VACUUM ANALYZE usertable; CHECKPOINT" if server.dialect == "postgresql" else "ANALYZE TABLE usertable", "ycsb"
    )
