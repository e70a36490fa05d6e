"""server_of and store_of: the class that speaks an endpoint's protocol."""

from __future__ import annotations

from importlib import import_module

from trimtab.errors import LoadError
from trimtab.records import Endpoint
from trimtab.workload.server.base import SqlServer, Store

__all__ = ["DATA_PROTOCOLS", "server_of", "store_of"]

_CLASSES = {
    "postgresql": ("trimtab.workload.server.postgresql", "PostgresServer"),
    "mysql": ("trimtab.workload.server.mysql", "MysqlServer"),
}
"""Protocol -> module and class; loaded when asked for, so that nobody needs the client library of the other."""

DATA_PROTOCOLS = tuple(_CLASSES)


def server_of(endpoint: Endpoint) -> SqlServer:
    """The database server of `endpoint`, or that behind it (`Endpoint.data`); nothing is connected yet.

    Raises:
        LoadError: nobody here speaks its protocol.
    """
    there = endpoint.data or endpoint
    if there.protocol not in _CLASSES:
        raise LoadError(
            f"data cannot be prepared over protocol={there.protocol}",
            hint=f"use a target that speaks one of: {', '.join(DATA_PROTOCOLS)}",
        )
    module, name = _CLASSES[there.protocol]
    server: SqlServer = getattr(import_module(module), name)(there)
    return server


def store_of(endpoint: Endpoint) -> Store:
    """What keeps the data of `endpoint`; today all of them speak SQL.

    Raises:
        LoadError: as `server_of`.
    """
    return server_of(endpoint)
