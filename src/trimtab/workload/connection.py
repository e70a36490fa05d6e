"""Connections to a PostgreSQL server beside the load: to prepare data and to find a password; never the load itself."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from trimtab.errors import LoadError
from trimtab.records import Endpoint

__all__ = ["Connection", "connect", "password_of"]

Connection = psycopg.Connection[tuple[object, ...]]


def connect(endpoint: Endpoint) -> Connection:
    """An autocommit connection without time-outs, whatever the server's config says.

    Raises:
        LoadError: the server does not let us in; the message has its words and never the password.
    """
    try:
        connection = psycopg.connect(_conninfo(endpoint), autocommit=True)
    except psycopg.OperationalError as error:
        raise LoadError(
            f"cannot connect: endpoint={endpoint}: {str(error).strip()}",
            hint="check that the server runs and that this user may log in to this database",
        ) from error
    # A config under trial may set these so low that the data check itself would be cut off.
    connection.execute("SET statement_timeout = 0")
    connection.execute("SET lock_timeout = 0")
    return connection


def _conninfo(endpoint: Endpoint) -> str:
    own: dict[str, Any] = {
        "host": endpoint.host,
        "port": endpoint.port,
        "user": endpoint.user,
        "dbname": endpoint.database,
        "password": endpoint.password,
        "application_name": "trimtab",
    }
    return make_conninfo(**{**endpoint.options, **own})


def password_of(endpoint: Endpoint) -> str | None:
    """The endpoint's password, or the one that libpq finds in the system's own files (.pgpass, service file).

    Raises:
        LoadError: as `connect`, which is how libpq is asked.
    """
    if endpoint.password is not None:
        return endpoint.password
    with connect(endpoint) as connection:
        return connection.info.password or None
