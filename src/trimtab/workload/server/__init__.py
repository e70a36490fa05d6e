"""server: what preparing data asks of a database server, one file per protocol; the load itself is the native engine's."""

from trimtab.workload.server.base import Server, ServerError, Session, is_local
from trimtab.workload.server.find import server_of

__all__ = ["Server", "ServerError", "Session", "is_local", "server_of"]
