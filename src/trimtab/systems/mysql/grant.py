"""The user with the rights that tuning needs, as SQL. Neither product can grant SET GLOBAL for single variables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from trimtab.records import DataRights
from trimtab.systems.grants import granted
from trimtab.systems.mysql.catalogue import CATALOG
from trimtab.systems.mysql.flavour import Flavour

__all__ = ["beyond_rights", "grant_text", "may_set"]

_SETS = re.compile(r"\b(ALL PRIVILEGES|SUPER|SYSTEM_VARIABLES_ADMIN)\b.* ON \*\.\*")
_LOCALHOST = "localhost"
_ALL = re.compile(r"\bALL PRIVILEGES\b.* ON \*\.\*")


def may_set(grants: Iterable[str]) -> bool:
    """Whether a user with these rows of SHOW GRANTS may use SET GLOBAL."""
    return any(_SETS.search(grant) for grant in grants)


def beyond_rights(flavour: Flavour, grants: Iterable[str]) -> frozenset[str]:
    """Knobs that such a user may not set all the same: they need a further right."""
    rows = list(grants)
    lacks = {} if any(_ALL.search(row) for row in rows) else dict(_split(flavour))
    has = {right for right in lacks for row in rows if re.search(rf"\b{right}\b.* ON \*\.\*", row)}
    return frozenset(name for right, names in lacks.items() if right not in has for name in names)


def _split(flavour: Flavour) -> Mapping[str, Sequence[str]]:
    """Right -> the knobs that only it lets a user set."""
    return flavour.known.split if flavour.version[:2] >= flavour.known.split_since else {}


def grant_text(flavour: Flavour, names: int, rights: DataRights | None, user: str, *, host: str = _LOCALHOST) -> str:
    """The statements for `user` to tune `names` knobs, coming from `host` as the server sees it.

    To be run by an administrator. The user comes in by the operating system's user (unix socket) or gets a password
    afterwards, so that none stands in a statement or in a log.
    """
    database = rights.database.replace("`", "``").replace("_", "\\_").replace("%", "\\%") if rights is not None else ""
    first, *others = flavour.known.rights
    words = {
        "n_knobs": str(names),
        "user": f"{_quoted(user)}@{_quoted(host)}",
        "rights": ", ".join((first, *_split(flavour), *others)),
        "database": f"`{database}`",
        "copy": f"`{database}\\_run`",
    }
    facts = {"mariadb": float(flavour.product == "mariadb"), "is_local": float(host == _LOCALHOST)}
    return granted(CATALOG.grant, rights, facts, words)


def _quoted(name: str) -> str:
    return "'" + name.replace("\\", "\\\\").replace("'", "''") + "'"
