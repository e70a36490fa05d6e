"""server: what preparing data asks of a database server, one file per protocol; the load itself is the native engine's."""

from trimtab.workload.server.base import MARKER_TABLE, KeyedSession, ServerError, Session, SqlServer, Store, is_local
from trimtab.workload.server.find import ANY_TARGET, DATA_PROTOCOLS, server_of, store_of

__all__ = [
    "ANY_TARGET",
    "DATA_PROTOCOLS",
    "MARKER_TABLE",
    "KeyedSession",
    "ServerError",
    "Session",
    "SqlServer",
    "Store",
    "is_local",
    "server_of",
    "store_of",
]
