"""The marker table: what Trimtab loaded into a database, and whether the load was finished."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from trimtab.errors import LoadError
from trimtab.workload.server import Session, SqlServer
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


def read(server: SqlServer, session: Session, database: str) -> Marker | None:
    """The database's marker; None when it has none.

    Raises:
        LoadError: there is a table of its name that we did not write.
    """
    if _TABLE not in server.tables(session, database):
        return None
    rows = session.execute(f"SELECT content FROM {_TABLE}")
    if not rows:
        return None
    try:
        content = json.loads(str(rows[0][0]))
        return Marker(content["version"], content["scale"], content["schema"], content["state"], content["row_counts"])
    except (ValueError, KeyError, TypeError) as error:
        raise LoadError(
            f"the marker of this database cannot be read: table={_TABLE} content={str(rows[0][0])[:80]!r}",
            hint="drop this database, or name another one in [workload]",
        ) from error


def write(session: Session, marker: Marker) -> None:
    """Replaces the marker, in one transaction."""
    content = {
        "workload": "tpch",
        "version": marker.version,
        "scale": marker.scale,
        "schema": marker.schema,
        "state": marker.state,
        "row_counts": dict(marker.row_counts),
    }
    # With a key, as those of other data have it (`SqlServer.write_marker`).
    session.execute(
        f"CREATE TABLE IF NOT EXISTS {_TABLE} (id int NOT NULL DEFAULT 1 PRIMARY KEY, content text NOT NULL)"
    )
    session.execute("START TRANSACTION")
    session.execute(f"DELETE FROM {_TABLE}")
    session.execute(f"INSERT INTO {_TABLE} (content) VALUES (%s)", (json.dumps(content),))
    session.execute("COMMIT")


def foreign_tables(server: SqlServer, session: Session, database: str) -> list[str]:
    """What is in a database beside a marker, by name; without a marker that says so, none of it is ours."""
    return [name for name in server.tables(session, database) if name != _TABLE]


def count_rows(server: SqlServer, session: Session, database: str) -> dict[str, int]:
    """Rows of each table, counted; a table that is missing is not in the answer."""
    there = server.tables(session, database)
    return {
        table.name: int(session.execute(f"SELECT count(*) FROM {table.name}")[0][0])
        for table in TABLES
        if table.name in there
    }
