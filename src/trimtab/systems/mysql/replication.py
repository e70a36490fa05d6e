"""Whether another server takes part: this one replicates from it, or it from this one, or both are of one cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from trimtab.systems.knobs import Reading
from trimtab.systems.mysql.flavour import read_flavour
from trimtab.systems.mysql.session import Session
from trimtab.systems.server_catalog import server_catalog
from trimtab.systems.session import StatementError

__all__ = ["bound_by", "has_replica", "is_replica", "unseen"]

_GROUP, _ADDRESS = "group_replication_group_name", "wsrep_cluster_address"
_NODES = "gcomm://"
_PROCESS = re.compile(r"\b(ALL PRIVILEGES|PROCESS)\b.* ON \*\.\*")


def is_replica(session: Session) -> bool:
    """Whether the server replicates from another one; False when this user may not know."""
    flavour = read_flavour(str(session.value("SELECT VERSION()")))
    return session.finds(flavour.replica_status)


def has_replica(session: Session) -> bool:
    """Whether another server takes part, at either end or as a node of one cluster; False when this user may not know."""
    return is_replica(session) or session.finds(server_catalog("mysql").sql["dumps"]) or _n_nodes(session) > 1


def unseen(session: Session, grants: Iterable[str]) -> tuple[str, ...]:
    """Rights without which this user does not see every server that takes part. Without PROCESS the list of connections is not
    refused: it has this user's own only.

    Args:
        session: of that user.
        grants: its rows of SHOW GRANTS.
    """
    flavour = read_flavour(str(session.value("SELECT VERSION()")))
    has = {
        flavour.known.rights[-1]: _may_ask(session, flavour.replica_status),
        "PROCESS": any(_PROCESS.search(grant) for grant in grants),
    }
    return tuple(right for right, is_there in has.items() if not is_there)


def _may_ask(session: Session, statement: str) -> bool:
    try:
        session.rows(statement)
    except StatementError as error:
        if error.is_lost:
            raise
        return False
    return True


def _n_nodes(session: Session) -> int:
    """Of its Galera cluster; 0 for a server that is in none."""
    rows = session.rows(server_catalog("mysql").sql["nodes"])
    return int(rows[0][1]) if rows else 0


def bound_by(session: Session, variables: Mapping[str, Reading]) -> str:
    """What of the catalogue's `denied` keeps a server of a cluster from being restarted; "" when nothing does.

    A Galera node joins those that its address names; where none runs it ends at once. An empty address makes a cluster, whatever
    others run: of two then, or of one that does not start because it was not the last to leave (safe_to_bootstrap). A member of a
    group comes back as a secondary, which is read-only; the last one finds no group at all.
    """
    group, address = (variables[name].text if name in variables else "" for name in (_GROUP, _ADDRESS))
    if group:
        return "in_group"
    if not address.startswith(_NODES):
        return ""
    n_nodes, names_nodes = _n_nodes(session), bool(address.removeprefix(_NODES).partition("?")[0])
    if names_nodes:
        return "last_node" if n_nodes == 1 else ""
    return "would_split" if n_nodes > 1 else ""
