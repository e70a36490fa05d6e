"""server_of and store_of: the class that speaks an endpoint's protocol."""

from __future__ import annotations

from importlib import import_module

from trimtab.errors import LoadError
from trimtab.records import Endpoint
from trimtab.workload.server.base import SqlServer, Store

__all__ = ["ANY_TARGET", "DATA_PROTOCOLS", "server_of", "store_of"]

_CLASSES = {
    "postgresql": ("trimtab.workload.server.postgresql", "PostgresServer"),
    "mysql": ("trimtab.workload.server.mysql", "MysqlServer"),
    "cql": ("trimtab.workload.server.cassandra", "CassandraServer"),
    "mongodb": ("trimtab.workload.server.mongodb", "MongoStore"),
    "wiredtiger": ("trimtab.workload.server.wiredtiger", "WiredTigerStore"),
}
"""Protocol -> module and class; loaded when asked for, so that nobody needs the client library of the other."""

DATA_PROTOCOLS = tuple(_CLASSES)

ANY_TARGET = ("program", "http", *DATA_PROTOCOLS)
"""Every protocol of an `Endpoint`, for loads that do not go over it. A command, or a site at an address that is known, goes with
every target: its server, a program, or the database behind it."""


def store_of(endpoint: Endpoint) -> Store:
    """What keeps the data of `endpoint`, or of the database behind it (`Endpoint.data`); nothing is connected yet.

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
    store: Store = getattr(import_module(module), name)(there)
    return store


def server_of(endpoint: Endpoint) -> SqlServer:
    """The SQL server of `endpoint`, as `store_of`.

    Raises:
        LoadError: as `store_of`, or it does not speak SQL.
    """
    store = store_of(endpoint)
    if not isinstance(store, SqlServer):
        raise LoadError(
            f"protocol={store.endpoint.protocol} does not speak SQL", hint='use kind = "ycsb" with such a target'
        )
    return store
