"""From the study file's generators to the engine's: dates as text, and columns as samples of their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import sql

from trimtab.errors import LoadError
from trimtab.records import Endpoint
from trimtab.workload.connection import Connection, connect
from trimtab.workload.sql.generators import Generator

__all__ = ["native_generators"]


def native_generators(endpoint: Endpoint, generators: Mapping[str, Generator]) -> list[dict[str, Any]]:
    """The generators as the engine takes them; those of type "column" are sampled from `endpoint`'s database.

    Raises:
        LoadError: a column that cannot be read or has no values.
    """
    if not any(generator.type == "column" for generator in generators.values()):
        return [_native(generator, None) for generator in generators.values()]
    with connect(endpoint) as connection:
        return [_native(generator, connection) for generator in generators.values()]


def _native(generator: Generator, connection: Connection | None) -> dict[str, Any]:
    shared = {"name": generator.name, "each": generator.is_fresh, "null_share": generator.null_share}
    skewed = {"distribution": generator.distribution, "skew": generator.skew}
    options = dict(generator.options)
    if generator.type == "column" and connection is not None:
        values = _sample(connection, generator)
        return shared | skewed | {"type": "rows", "values": values}
    if generator.type in ("date", "timestamp"):
        low, high = (options[key].isoformat(*(() if generator.type == "date" else (" ",))) for key in ("from", "to"))
        options = {"low": low, "high": high}
    return shared | skewed | options | {"type": generator.type}


def _sample(connection: Connection, generator: Generator) -> list[str]:
    """Values of the column as text, in an order that the next call repeats on unchanged data."""
    options = generator.options
    table = sql.SQL(".").join(sql.Identifier(part) for part in _parts(options["table"]))
    # Ordered by a hash: the same rows each time, spread over the table, whatever the server's own order is.
    statement = sql.SQL(
        "SELECT v FROM (SELECT {column}::text AS v FROM {table} WHERE {column} IS NOT NULL) s ORDER BY hashtext(v), v LIMIT {n}"
    ).format(column=sql.Identifier(options["column"]), table=table, n=sql.Literal(options["limit"]))
    where = f"parameter={generator.name} table={options['table']} column={options['column']}"
    try:
        values = [str(row[0]) for row in connection.execute(statement)]
    except psycopg.Error as error:
        raise LoadError(
            f"cannot sample {where}: {str(error).strip().splitlines()[0]}",
            hint="check the names and the role's privileges",
        ) from error
    if not values:
        raise LoadError(f"cannot sample {where}: it has no values", hint="use another generator")
    return values


def _parts(name: str) -> list[str]:
    return [part.strip('"') for part in name.split(".")]
