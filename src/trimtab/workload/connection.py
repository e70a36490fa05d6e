"""Connections to a PostgreSQL server beside the load: to prepare data and to find a password; never the load itself."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from trimtab.errors import LoadError
from trimtab.records import Endpoint

__all__ = ["Connection", "connect", "password_of"]

Connection = psycopg.Connection[tuple[object, ...]]
_TRIES = 50
_TIME_OUTS = {
    "statement_timeout": 0,
    "lock_timeout": 0,
    "idle_in_transaction_session_timeout": 90600,
    "idle_session_timeout": 140000,
    "transaction_timeout": 170000,
}
"""With the version that brought them. An idle session may hold the lock of a database that others fill."""


def connect(endpoint: Endpoint) -> Connection:
    """An autocommit connection without time-outs, whatever the server's config says.

    Raises:
        LoadError: the server does not let us in; the message has its words and never the password.
    """
    try:
        connection = psycopg.connect(_conninfo(endpoint), autocommit=True)
        # A config under trial may set these so low that the data check itself would be cut off.
        _without_time_outs(connection)
    except psycopg.OperationalError as error:
        raise LoadError(
            f"cannot connect: endpoint={endpoint}: {str(error).strip()}",
            hint="check that the server runs and that this user may log in to this database",
        ) from error
    return connection


def _without_time_outs(connection: Connection) -> None:
    """A time-out of a millisecond may cut even this off on a busy machine: it is tried again."""
    version = connection.info.server_version
    statements = "; ".join(f"SET {name} = 0" for name, since in _TIME_OUTS.items() if since <= version)
    for last in (False,) * _TRIES + (True,):
        try:
            connection.execute(statements.encode(), prepare=False)
            return
        except psycopg.errors.QueryCanceled as error:
            if last:
                connection.close()
                raise LoadError(
                    f"the server cancels every statement: {str(error).strip()}",
                    hint="raise statement_timeout of this role or server",
                ) from error


def _conninfo(endpoint: Endpoint) -> str:
    own: dict[str, Any] = {
        "host": endpoint.host,
        "port": endpoint.port,
        "user": endpoint.user,
        "dbname": endpoint.database,
        "password": endpoint.password,
        "application_name": "trimtab",
        "client_encoding": "utf8",  # a database in SQL_ASCII would give bytes in place of texts
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
