"""The marker table: what Trimtab loaded into a database, and whether the load was finished."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from psycopg import sql

from trimtab.errors import LoadError
from trimtab.workload.connection import Connection
from trimtab.workload.tpch.schema import TABLES, SchemaName

__all__ = ["FORMAT_VERSION", "Marker", "count_rows", "foreign_tables", "read", "write"]

FORMAT_VERSION = 1
"""Goes up when tables, indexes or data change, so that older databases are loaded again."""

_TABLE = "trimtab_data"


@dataclass(frozen=True, slots=True)
class Marker:
    """What the database holds: `state` is "loading" until everything, statistics included, is in place."""

    version: int
    scale: float
    schema: SchemaName
    state: Literal["loading", "loaded"]
    row_counts: Mapping[str, int]


def read(connection: Connection) -> Marker | None:
    """The database's marker; None when it has none.

    Raises:
        LoadError: there is a table of its name that we did not write.
    """
    if connection.execute("SELECT to_regclass(%s)", (f"public.{_TABLE}",)).fetchone() == (None,):
        return None
    row = connection.execute(sql.SQL("SELECT content FROM {}").format(sql.Identifier(_TABLE))).fetchone()
    if row is None:
        return None
    try:
        content = json.loads(str(row[0]))
        return Marker(content["version"], content["scale"], content["schema"], content["state"], content["row_counts"])
    except (ValueError, KeyError, TypeError) as error:
        raise LoadError(
            f"the marker of this database cannot be read: table={_TABLE} content={str(row[0])[:80]!r}",
            hint="drop this database, or name another one in [workload]",
        ) from error


def write(connection: Connection, marker: Marker) -> None:
    """Replaces the marker, in one transaction."""
    content = {
        "workload": "tpch",
        "version": marker.version,
        "scale": marker.scale,
        "schema": marker.schema,
        "state": marker.state,
        "row_counts": dict(marker.row_counts),
    }
    table = sql.Identifier(_TABLE)
    with connection.transaction():
        connection.execute(sql.SQL("CREATE TABLE IF NOT EXISTS {} (content text NOT NULL)").format(table))
        connection.execute(sql.SQL("DELETE FROM {}").format(table))
        connection.execute(sql.SQL("INSERT INTO {} VALUES (%s)").format(table), (json.dumps(content),))


def foreign_tables(connection: Connection) -> list[str]:
    """Tables of the database that Trimtab did not make, by name."""
    ours = [table.name for table in TABLES] + [_TABLE]
    rows = connection.execute(
        "SELECT schemaname || '.' || tablename FROM pg_tables"
        " WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        " AND NOT (schemaname = 'public' AND tablename = ANY(%s)) ORDER BY 1",
        (ours,),
    )
    return [str(row[0]) for row in rows]


def count_rows(connection: Connection) -> dict[str, int]:
    """Rows of each table, counted; a table that is missing is not in the answer."""
    counts = {}
    for table in TABLES:
        if connection.execute("SELECT to_regclass(%s)", (f"public.{table.name}",)).fetchone() == (None,):
            continue
        row = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table.name))).fetchone()
        counts[table.name] = int(str(row[0])) if row else 0
    return counts
