"""The user with the rights that tuning needs, as SQL. Neither product can grant SET GLOBAL for single variables."""

from __future__ import annotations

import re
from collections.abc import Iterable

from trimtab.records import DataRights
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
_WHY = {
    "mariadb": "-- MariaDB has no right for single variables: SUPER covers most of them, and more than tuning needs.",
    "mysql": "-- MySQL has no right for single variables: SYSTEM_VARIABLES_ADMIN covers all that can be set at run time.",
}
_LOGIN = {
    "mariadb": ("VIA unix_socket", ()),
    "mysql": (
        "WITH auth_socket",
        ("-- Where it says that auth_socket is not loaded: INSTALL PLUGIN auth_socket SONAME 'auth_socket.so'",),
    ),
}
"""How the operating system's user comes in; not every package of MySQL loads the plug-in."""


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
    who = f"{_quoted(user)}@'localhost'"
    plugin, notes = _LOGIN[flavour.product]
    lines = [
        f"-- A user that may change {names} knobs. Run as an administrator. No password is set here: the operating system's",
        f"-- user of that name may log in on this machine; for others: ALTER USER {who} IDENTIFIED BY ...",
        *notes,
        f"CREATE USER {who} IDENTIFIED {plugin};",
        "",
        _WHY[flavour.product],
        "-- Trimtab's own allow-list keeps to its catalogue; the knobs of an option file are bounded by who may write that file.",
        f"GRANT {', '.join(_rights(flavour))} ON *.* TO {who};",
        *_data_lines(rights, who),
    ]
    return "\n".join(lines) + "\n", True


def _rights(flavour: Flavour) -> list[str]:
    return [_SET[flavour.product], *(_SPLIT if _is_split(flavour) else ()), "PROCESS", _replication(flavour)]


def _replication(flavour: Flavour) -> str:
    """To see whether replicas hang on this server."""
    return "REPLICA MONITOR" if flavour.product == "mariadb" else "REPLICATION CLIENT"


def _data_lines(rights: DataRights | None, who: str) -> list[str]:
    if rights is None:
        return ["", "-- The workload does not say what it does with data: grant what its statements need."]
    lines = []
    if rights.makes_databases:
        lines += [
            "",
            "-- The workload creates its own databases:",
            f"GRANT ALL ON `trimtab\\_%`.* TO {who};",
        ]
    if rights.is_users_own:
        verbs = "SELECT" if rights.reads_only else "SELECT, INSERT, UPDATE, DELETE"
        database = "`" + rights.database.replace("`", "``").replace("_", "\\_").replace("%", "\\%") + "`"
        lines += [
            "",
            f"-- The workload {'reads' if rights.reads_only else 'reads and writes'} your tables:",
            f"GRANT {verbs} ON {database}.* TO {who};",
        ]
        if rights.makes_databases:
            copy = database[:-1] + "\\_run`"
            lines += ["-- A copy for every run:", f"GRANT ALL ON {copy}.* TO {who};"]
    return lines


def _quoted(name: str) -> str:
    return "'" + name.replace("\\", "\\\\").replace("'", "''") + "'"
