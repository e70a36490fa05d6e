"""The user with the rights that tuning needs, as SQL. Neither product can grant SET GLOBAL for single variables."""

from __future__ import annotations

import re
from collections.abc import Iterable

from trimtab.records import DataRights
from trimtab.systems.grants import granted
from trimtab.systems.mysql.catalogue import CATALOG
from trimtab.systems.mysql.flavour import Flavour

__all__ = ["DEFAULT_USER", "beyond_rights", "grant_text", "may_set"]

DEFAULT_USER = "trimtab"
_SET = {"mariadb": "SUPER", "mysql": "SYSTEM_VARIABLES_ADMIN"}
_SPLIT_SINCE = (11, 0)
"""Until 10.11 SUPER allowed what these rights allow; from 11.0 on it does not (MariaDB's manual, GRANT; sql/privilege.h)."""
_SPLIT = {
    "BINLOG ADMIN": ("binlog_cache_size", "binlog_commit_wait_count", "sync_binlog"),
    "CONNECTION ADMIN": ("max_connections", "thread_pool_oversubscribe", "thread_pool_size"),
}
"""Right -> the knobs of the catalogue that only it lets a user set then."""

_SETS = re.compile(r"\b(ALL PRIVILEGES|SUPER|SYSTEM_VARIABLES_ADMIN)\b.* ON \*\.\*")
_ALL = re.compile(r"\bALL PRIVILEGES\b.* ON \*\.\*")


def may_set(grants: Iterable[str]) -> bool:
    """Whether a user with these rows of SHOW GRANTS may use SET GLOBAL."""
    return any(_SETS.search(grant) for grant in grants)


def beyond_rights(flavour: Flavour, grants: Iterable[str]) -> frozenset[str]:
    """Knobs that such a user may not set all the same: they need a further right."""
    rows = list(grants)
    if not _is_split(flavour) or any(_ALL.search(row) for row in rows):
        return frozenset()
    has = {right for right in _SPLIT for row in rows if re.search(rf"\b{right}\b.* ON \*\.\*", row)}
    return frozenset(name for right, names in _SPLIT.items() if right not in has for name in names)


def _is_split(flavour: Flavour) -> bool:
    return flavour.product == "mariadb" and flavour.version[:2] >= _SPLIT_SINCE


def grant_text(flavour: Flavour, names: int, rights: DataRights | None, user: str) -> tuple[str, bool]:
    """The statements for `user` to tune `names` knobs, and whether they suffice.

    To be run by an administrator. The user comes in by the operating system's user (unix socket) or gets a password
    afterwards, so that none stands in a statement or in a log.
    """
    database = rights.database.replace("`", "``").replace("_", "\\_").replace("%", "\\%") if rights is not None else ""
    words = {
        "n_knobs": str(names),
        "user": f"{_quoted(user)}@'localhost'",
        "rights": ", ".join(_rights(flavour)),
        "database": f"`{database}`",
        "copy": f"`{database}\\_run`",
    }
    return granted(CATALOG.grant, rights, {"mariadb": float(flavour.product == "mariadb")}, words), True


def _rights(flavour: Flavour) -> list[str]:
    return [_SET[flavour.product], *(_SPLIT if _is_split(flavour) else ()), "PROCESS", _replication(flavour)]


def _replication(flavour: Flavour) -> str:
    """To see whether replicas hang on this server."""
    return "REPLICA MONITOR" if flavour.product == "mariadb" else "REPLICATION CLIENT"


def _quoted(name: str) -> str:
    return "'" + name.replace("\\", "\\\\").replace("'", "''") + "'"
