"""Whether another server takes part: this one replicates from it, or it from this one."""

from __future__ import annotations

from trimtab.systems.mysql.flavour import read_flavour
from trimtab.systems.mysql.session import Session
from trimtab.systems.server_catalog import server_catalog

__all__ = ["has_replica", "is_replica"]


def is_replica(session: Session) -> bool:
    """Whether the server replicates from another one; False when this user may not know."""
    flavour = read_flavour(str(session.value("SELECT VERSION()")))
    return session.finds(flavour.replica_status)


def has_replica(session: Session) -> bool:
    """Whether another server takes part at either end; False when this user may not know."""
    return is_replica(session) or session.finds(server_catalog("mysql").sql["dumps"])
