"""server_of: the server class that speaks an endpoint's protocol."""

from __future__ import annotations

from importlib import import_module

from trimtab.errors import LoadError
from trimtab.records import Endpoint
from trimtab.workload.server.base import Server

__all__ = ["PROTOCOLS", "server_of"]

_CLASSES = {
    "postgresql": ("trimtab.workload.server.postgresql", "PostgresServer"),
    "mysql": ("trimtab.workload.server.mysql", "MysqlServer"),
}
"""Protocol -> module and class; loaded when asked for, so that nobody needs the client library of the other."""

PROTOCOLS = tuple(_CLASSES)


def server_of(endpoint: Endpoint) -> Server:
    """The server of `endpoint`; nothing is connected yet.

    Raises:
        LoadError: nobody here speaks its protocol.
    """
    if endpoint.protocol not in _CLASSES:
        raise LoadError(
            f"data cannot be prepared over protocol={endpoint.protocol}",
            hint=f"use a target that speaks one of: {', '.join(PROTOCOLS)}",
        )
    module, name = _CLASSES[endpoint.protocol]
    server: Server = getattr(import_module(module), name)(endpoint)
    return server
